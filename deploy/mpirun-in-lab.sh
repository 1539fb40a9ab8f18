#!/bin/sh
# Open MPI's mpirun on the hosts of a lab, one rank a host: a cluster on one machine. As root:
#
#   muxbench lab --network lab:clients=5 --delay 1ms -- \
#       deploy/mpirun-in-lab.sh mpirun -np 6 muxbench run kawai2008-http --quick --distributed
#
# Needs Open MPI 4 (Debian: apt install openmpi-bin). Nothing of it stays: what runs on the hosts ends with the lab.
set -eu
: "${MUXBENCH_LAB_HOSTS:?no lab: start this by muxbench lab --network lab:clients=5 -- $0 mpirun -np 6 muxbench run FILE --distributed}"
# Goes with the lab, after all that runs in it.
folder=$(mktemp -d "$(dirname "$MUXBENCH_LAB")/mpirun.XXXXXX")

count=0
for _ in $MUXBENCH_LAB_HOSTS; do
    echo "host$count slots=1" >>"$folder/hosts"
    count=$((count + 1))
done

# What mpirun calls in place of ssh: a host, and a command for a shell there.
cat >"$folder/enter" <<'END'
#!/bin/sh
name=$1
shift
path=$(echo "$MUXBENCH_LAB_HOSTS" | cut -d ' ' -f $((${name#host} + 1)))
exec nsenter --net="$path" unshare --uts sh -c "hostname $name; $*"
END
chmod 700 "$folder/enter"

# As flags would say it: root may run it, who else could; a rank has all CPUs of its host, for its client may have any of them.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_plm_rsh_agent="$folder/enter" OMPI_MCA_orte_default_hostfile="$folder/hosts"
export OMPI_MCA_hwloc_base_binding_policy=none

# This is the first host.
exec unshare --uts sh -c 'hostname host0; exec "$@"' sh "$@"
