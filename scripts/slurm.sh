#!/usr/bin/env bash
# Submits a command to SLURM as one run on the GPUs of one or several nodes.
#
#   scripts/slurm.sh --name=t5 --nodes=2 --gpus_per_node=8 --time=1440 -- \
#     zoo train --gin_file=my_run.gin
#
# --name NAME         of the job and its log, NAME-<job>.log
# --nodes N           1 by default
# --gpus_per_node N   1 by default; 0 for CPUs alone
# --tasks_per_node N  processes on a node, which share its GPUs; 1 by default
# --time MINUTES      of one stretch of the job, 1440 by default
# --sbatch OPTION     passed on, as --sbatch=--partition=gpu; repeatable
# --dry_run           print what would be run
#
# Every process finds its place by SLURM's variables. Two minutes before the
# time is over the run saves its state and the job goes back to the queue; so
# does a job that is preempted (SLURM's own doing, by --requeue). A job that
# `scancel` ends, or that fails, does not come back.

set -euo pipefail

# On the first node, where SLURM runs a copy of this file.
if [[ "${1:-}" == --in_job ]]; then
  shift
  at_limit=
  # SLURM tells this shell; the processes save at SIGTERM.
  trap 'at_limit=yes; scancel --signal=TERM "$SLURM_JOB_ID.0" || true' USR1
  srun --kill-on-bad-exit=1 "$@" &
  srun=$!
  status=0
  wait "$srun" || status=$?
  if [[ -n "$at_limit" ]]; then
    status=0  # It was that of the signal, which ends `wait`.
    wait "$srun" || status=$?
  fi
  if [[ -n "$at_limit" && "$status" != 0 ]]; then
    scontrol requeue "$SLURM_JOB_ID"
  fi
  exit "$status"
fi

# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

name=''
dry_run=''
nodes=1
gpus_per_node=1
tasks_per_node=1
minutes=1440
more=()
while [[ $# -gt 0 ]]; do
  # --name=value is --name value.
  if [[ "$1" == --*=* ]]; then set -- "${1%%=*}" "${1#*=}" "${@:2}"; fi
  case "$1" in
    --name) name=$(value_of "$1" "$@"); shift 2 ;;
    --nodes) nodes=$(value_of "$1" "$@"); shift 2 ;;
    --gpus_per_node) gpus_per_node=$(value_of "$1" "$@"); shift 2 ;;
    --tasks_per_node) tasks_per_node=$(value_of "$1" "$@"); shift 2 ;;
    --time) minutes=$(value_of "$1" "$@"); shift 2 ;;
    --sbatch) more+=("$(value_of "$1" "$@")"); shift 2 ;;
    --dry_run) dry_run=yes; shift ;;
    --help) usage ;;
    --) shift; break ;;
    *) die "unknown option '$1' (see --help); the command comes after --" ;;
  esac
done
[[ -n "$name" ]] || die "--name is missing"
require_name --name "$name"
require_number --nodes "$nodes"
[[ "$gpus_per_node" == 0 ]] || require_number --gpus_per_node "$gpus_per_node"
require_number --tasks_per_node "$tasks_per_node"
require_number --time "$minutes"
[[ $# -gt 0 ]] || die "no command: give one after --"

options=(
  "--job-name=$name"
  "--nodes=$nodes"
  "--ntasks-per-node=$tasks_per_node"
  "--time=$minutes"
  --signal=B:USR1@120
  --requeue
  --open-mode=append
  "--output=$name-%j.log"
)
if [[ "$gpus_per_node" != 0 ]]; then
  options+=("--gpus-per-node=$gpus_per_node")
fi
run sbatch "${options[@]}" ${more[@]+"${more[@]}"} \
  "${BASH_SOURCE[0]}" --in_job "$@"
