#!/bin/sh
# Starts Slurm with a node on each host of a lab, then a command on the first host: a cluster on one machine. As root:
#
#   muxbench lab --network lab:clients=5 --delay 1ms -- \
#       deploy/slurm-in-lab.sh srun -X -N6 muxbench run kawai2008-http --quick --distributed
#
# With -X, Ctrl-C finishes and saves the current trial, then stops the run; without -X srun only lists its tasks.
# Needs Slurm and MUNGE (Debian: apt install slurm-wlm munge). The daemons end with this script, even if it is killed.
set -eu
: "${MUXBENCH_LAB_HOSTS:?no lab: start this with muxbench lab --network lab:clients=5 -- $0 srun -N6 muxbench run FILE --distributed}"
PATH=$PATH:/usr/sbin:/usr/local/sbin
# `muxbench lab` removes this folder after all processes have ended.
folder=$(mktemp -d "$(dirname "$MUXBENCH_LAB")/slurm.XXXXXX")
export SLURM_CONF="$folder/slurm.conf"
daemons=
job=

finish() {
    # End the command first, because its cleanup needs the daemons.
    if [ -n "$job" ] && kill -TERM $job 2>/dev/null; then
        tries=0
        while kill -0 $job 2>/dev/null && [ $tries -lt 300 ]; do
            tries=$((tries + 1))
            sleep 0.1
        done
    fi
    # Kill the daemons: they have no cleanup, and a slurmd would wait for daemons that have ended.
    # shellcheck disable=SC2086 # a list
    [ -z "$daemons" ] || kill -KILL $daemons 2>/dev/null || :
    wait
}
trap finish EXIT
# Ignore Ctrl-C here: the command gets it too, and may have to finish a trial.
trap : INT
trap 'exit 143' TERM

# Starts the daemon $2... on host $1. The daemon ends with this script.
keep() {
    path=$(echo "$MUXBENCH_LAB_HOSTS" | cut -d ' ' -f $(($1 + 1)))
    name=host$1
    shift
    nsenter --net="$path" unshare --uts sh -c "hostname $name; exec setsid setpriv --pdeathsig KILL \"\$@\"" sh "$@" \
        >>"$folder/log" 2>&1 &
    daemons="$daemons $!"
}

# Waits at most a minute until the command $2... succeeds; $1 names its purpose.
await() {
    what=$1
    shift
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        if [ $tries -gt 600 ]; then
            echo "slurm-in-lab: $what not ready after 60 s:" >&2
            tail -n 20 "$folder"/*log >&2
            exit 1
        fi
        sleep 0.1
    done
}

# A new key, because every holder of the key may submit jobs.
dd if=/dev/urandom of="$folder/key" bs=128 count=1 2>/dev/null
chmod 600 "$folder/key"
keep 0 munged --foreground --force --key-file="$folder/key" --socket="$folder/munge" --pid-file="$folder/pid" \
    --log-file="$folder/munge.log" --seed-file="$folder/seed"
await MUNGE test -S "$folder/munge"

mkdir "$folder/state"
cat >"$SLURM_CONF" <<END
ClusterName=muxbench
SlurmctldHost=host0(198.18.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge
CryptoType=crypto/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
SwitchType=switch/none
MpiDefault=none
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool.%n
SlurmctldPidFile=$folder/ctld.pid
SlurmdPidFile=$folder/slurmd.%n.pid
SlurmctldLogFile=$folder/ctld.log
SlurmdLogFile=$folder/slurmd.%n.log
ReturnToService=2
SlurmdParameters=config_overrides
PartitionName=all Nodes=ALL Default=YES State=UP
END
count=0
for _ in $MUXBENCH_LAB_HOSTS; do
    # These are the addresses of hosts in a lab.
    echo "NodeName=host$count NodeAddr=198.18.$count.1 CPUs=$(nproc) State=UNKNOWN" >>"$SLURM_CONF"
    count=$((count + 1))
done
keep 0 slurmctld -D
number=0
while [ $number -lt $count ]; do
    keep $number slurmd -D -N host$number
    number=$((number + 1))
done
are_idle() {
    [ "$(scontrol show node --oneliner 2>/dev/null | grep -c 'State=IDLE ')" = "$count" ]
}
await "$count idle nodes" are_idle

# A random secret for each cluster. srun passes it to the workers.
: "${MUXBENCH_SECRET:=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')}"
export MUXBENCH_SECRET

# Run in the background, so that this shell handles signals immediately. env restores the signals that a shell ignores in
# background commands, and setpriv ends the command with this script.
status=0
unshare --uts sh -c 'hostname host0; exec env --default-signal=INT,QUIT setpriv --pdeathsig KILL "$@"' sh "$@" <&0 &
job=$!
while :; do
    status=0
    wait $job || status=$?
    kill -0 $job 2>/dev/null || break
done
job=
exit $status
