#!/bin/sh
# Runs Open MPI's mpirun on the hosts of a lab, one worker per host: a cluster on one machine. As root:
#
#   muxbench lab --network lab:clients=5 --delay 1ms -- \
#       deploy/mpirun-in-lab.sh mpirun -np 6 muxbench run kawai2008-http --quick --distributed
#
# Needs Open MPI 4 (Debian: apt install openmpi-bin). The processes on the hosts end with the lab.
set -eu
: "${MUXBENCH_LAB_HOSTS:?no lab: start this with muxbench lab --network lab:clients=5 -- $0 mpirun -np 6 muxbench run FILE --distributed}"
# `muxbench lab` removes this folder after all processes have ended.
folder=$(mktemp -d "$(dirname "$MUXBENCH_LAB")/mpirun.XXXXXX")

count=0
for _ in $MUXBENCH_LAB_HOSTS; do
    echo "host$count slots=1" >>"$folder/hosts"
    count=$((count + 1))
done

# mpirun calls this script instead of ssh, with a host and a shell command.
cat >"$folder/enter" <<'END'
#!/bin/sh
name=$1
shift
path=$(echo "$MUXBENCH_LAB_HOSTS" | cut -d ' ' -f $((${name#host} + 1)))
exec nsenter --net="$path" unshare --uts sh -c "hostname $name; $*"
END
chmod 700 "$folder/enter"

# Allow mpirun to run as root, and let each worker use all CPUs of its host.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_plm_rsh_agent="$folder/enter" OMPI_MCA_orte_default_hostfile="$folder/hosts"
export OMPI_MCA_hwloc_base_binding_policy=none

# This shell is on the first host.
exec unshare --uts sh -c 'hostname host0; exec "$@"' sh "$@"
