#!/bin/sh
# A Slurm that is played: sbatch, squeue, sacct, scontrol, scancel and sdiag for the adapter's tests, where no Slurm is installed.
# It runs what is released, on this machine and as its caller. Called by the name of a program in the directory `bin`, beside
#   answers/  what a real Slurm has answered (test/recorded), for questions whose answers do not change
#   jobs/N/   name, comment, output, script, state, reason, cancelled, exit, ended; session and pid while it runs

home=$(dirname "$(dirname "$0")")
jobs=$home/jobs

of() { cat "$jobs/$1/$2"; }

# ID NAME VALUE: a reader sees the whole value or the last one.
set_() { echo "$3" > "$jobs/$1/.$2.$$" && mv "$jobs/$1/.$2.$$" "$jobs/$1/$2"; }

fail() {
  echo "$1" >&2
  exit 1
}

known() { [ -d "$jobs/$1" ] || fail "Invalid job id specified"; }

# ID STATE EXIT
over() {
  set_ "$1" exit "$3"
  set_ "$1" ended "$(date -u +%Y-%m-%dT%H:%M:%S)"
  set_ "$1" state "$2"
}

sbatch() {
  [ "$1" = --version ] && exec cat "$home/answers/version"
  new=$home/new.$$
  mkdir "$new"
  for option in "$@"; do
    case $option in
      --job-name=*) echo "${option#*=}" > "$new/name" ;;
      --comment=*) echo "${option#*=}" > "$new/comment" ;;
      --output=*) echo "${option#*=}" > "$new/output" ;;
    esac
  done
  cat > "$new/script"
  echo PENDING > "$new/state"
  echo JobHeldUser > "$new/reason"
  id=1
  until mkdir "$home/numbers/$id" 2> /dev/null; do id=$((id + 1)); done
  mv "$new" "$jobs/$id"
  echo "$id"
}

squeue() {
  for id in $(ls "$jobs"); do
    echo "$id|$(of "$id" state | cut -d " " -f 1)|$(of "$id" reason)|$(of "$id" comment)|$(of "$id" name)"
  done
}

# What was never released is in the queue only.
sacct() {
  for wanted in "$@"; do :; done
  for id in $(ls "$jobs"); do
    [ "$(of "$id" reason)" = JobHeldUser ] && continue
    name=$(of "$id" name)
    case ",${wanted#*=}," in
      *",$id,"* | *",$name,"*) ;;
      *) continue ;;
    esac
    state=$(of "$id" state)
    exit=0:0 ended=Unknown
    [ -e "$jobs/$id/ended" ] && exit=$(of "$id" exit) ended=$(of "$id" ended)
    echo "$id|$state|$exit|$ended|$name"
  done
}

scontrol() {
  case "$*" in
    "-o show node") cat "$home/answers/nodes" ;;
    "-o show partition berth") cat "$home/answers/partition" ;;
    "show config") cat "$home/answers/config" ;;
    "update JobId="*)
      id=${2#JobId=}
      known "$id"
      ;;
    "release "*)
      known "$2"
      [ "$(of "$2" reason)" = JobHeldUser ] || return 0
      set_ "$2" reason None
      setsid "$home/bin/slurmstepd" "$2" < /dev/null > /dev/null 2>&1 &
      ;;
    "hold "*)
      known "$2"
      set_ "$2" reason JobHeldUser
      ;;
    *) fail "not played: scontrol $*" ;;
  esac
}

scancel() {
  for id in "$@"; do :; done
  known "$id"
  [ "$(of "$id" state)" = RUNNING ] || [ "$#" -gt 1 ] || over "$id" "CANCELLED by 0" 0:0
  [ "$(of "$id" state)" = RUNNING ] || return 0
  case "$*" in
    --signal=*" --batch "*) signal=${1#*=} to=$(of "$id" pid) ;;
    --signal=*) signal=${1#*=} to=-$(of "$id" session) ;;
    *)
      signal=TERM to=-$(of "$id" session)
      : > "$jobs/$id/cancelled"
      set_ "$id" state COMPLETING
      setsid "$home/bin/slurmd" "$id" < /dev/null > /dev/null 2>&1 &
      ;;
  esac
  kill -s "$signal" -- "$to"
}

# What does not heed SIGTERM is killed.
slurmd() {
  sleep 1
  [ "$(of "$1" state)" = COMPLETING ] || return 0
  kill -s KILL -- "-$(of "$1" session)"
  over "$1" "CANCELLED by 0" 0:9
}

sdiag() { cat "$home/answers/time"; }

# Runs the script of a job, and says how it ended.
slurmstepd() {
  trap : TERM INT HUP USR1 USR2
  set_ "$1" session $$
  env -i PATH="$PATH" SLURM_JOB_ID="$1" SLURMD_NODENAME=n1 sh "$jobs/$1/script" >> "$(of "$1" output)" 2>&1 &
  child=$!
  set_ "$1" pid "$child"
  set_ "$1" state RUNNING
  while :; do
    wait "$child"
    code=$?
    kill -0 "$child" 2> /dev/null || break
  done
  [ -e "$jobs/$1/cancelled" ] && over "$1" "CANCELLED by 0" 0:15 && return
  # As Slurm shows it: 137 is 9.
  [ "$code" -ge 128 ] && code=$((code - 128))
  if [ "$code" = 0 ]; then over "$1" COMPLETED 0:0; else over "$1" FAILED "$code:0"; fi
}

"$(basename "$0")" "$@"
