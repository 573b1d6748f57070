#!/usr/bin/env bash
# Runs a command on a TPU: one VM, all workers of a slice, or several slices.
#
#   scripts/tpu.sh --name=t5 --zone=us-west4-a --accelerator_type=v5litepod-8 -- \
#     zoo train --gin_file=my_run.gin "--gin.MODEL_DIR='gs://bucket/t5'"
#
# --name NAME              of the queued resource and, numbered, its slices
# --zone ZONE
# --accelerator_type TYPE  of one slice: v4-8, v5litepod-256, v5p-128, v6e-64
# --slices N               1 by default; they are one run (Multislice)
# --runtime_version V      software of the VMs; by default what the type needs
# --project PROJECT        gcloud's own by default
# --prepared gs://...      prepared data, copied to runs/prepared of each worker
# --spot                   cheaper, and taken back at any time
# --attempts N             how often a TPU is asked for, 100 by default
# --delete                 give the TPU back when the command has ended
# --dry_run                print what would be run
#
# Asks for the TPU and waits for it, copies the committed state of this checkout
# to all workers, installs it, runs the command on all of them at once, and when
# the TPU is taken back asks for another and runs the same command, which goes
# on at its last checkpoint. Run it again after it was stopped: what there is
# is used. A command that fails on a TPU that is still there is not repeated.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

name='' zone='' accelerator_type='' runtime_version='' project=''
prepared='' spot='' delete='' dry_run=''
slices=1
attempts=100
while [[ $# -gt 0 ]]; do
  # --name=value is --name value.
  if [[ "$1" == --*=* ]]; then set -- "${1%%=*}" "${1#*=}" "${@:2}"; fi
  case "$1" in
    --name) name=$(value_of "$1" "$@"); shift 2 ;;
    --zone) zone=$(value_of "$1" "$@"); shift 2 ;;
    --accelerator_type) accelerator_type=$(value_of "$1" "$@"); shift 2 ;;
    --slices) slices=$(value_of "$1" "$@"); shift 2 ;;
    --runtime_version) runtime_version=$(value_of "$1" "$@"); shift 2 ;;
    --project) project=$(value_of "$1" "$@"); shift 2 ;;
    --prepared) prepared=$(value_of "$1" "$@"); shift 2 ;;
    --attempts) attempts=$(value_of "$1" "$@"); shift 2 ;;
    --spot) spot=yes; shift ;;
    --delete) delete=yes; shift ;;
    --dry_run) dry_run=yes; shift ;;
    --help) usage ;;
    --) shift; break ;;
    *) die "unknown option '$1' (see --help); the command comes after --" ;;
  esac
done
for option in name zone accelerator_type; do
  [[ -n "${!option}" ]] || die "--$option is missing"
done
require_name --name "$name"
require_number --slices "$slices"
require_number --attempts "$attempts"
[[ -z "$prepared" || "$prepared" == gs://* ]] ||
  die "--prepared is '$prepared'; copy the folder to a bucket and give gs://..."
[[ $# -gt 0 ]] || die "no command: give one after --"
require_bucket "$@"

if [[ -z "$runtime_version" ]]; then
  case "$accelerator_type" in
    v4-*) runtime_version=tpu-ubuntu2204-base ;;
    v5litepod-*) runtime_version=v2-alpha-tpuv5-lite ;;
    v5p-*) runtime_version=v2-alpha-tpuv5 ;;
    v6e-*) runtime_version=v2-alpha-tpuv6e ;;
    *) die "--accelerator_type is '$accelerator_type', of which no software is" \
         "known here: name it with --runtime_version" ;;
  esac
fi

tpus=(gcloud compute tpus)
place=("--zone=$zone" --quiet)
[[ -z "$project" ]] || place+=("--project=$project")

nodes=("$name")
if [[ "$slices" -gt 1 ]]; then
  nodes=()
  for ((slice = 0; slice < slices; slice++)); do nodes+=("$name-$slice"); done
fi

# State of the queued resource; empty where there is none.
state() {
  "${tpus[@]}" queued-resources describe "$name" "${place[@]}" \
    '--format=value(state.state)' 2>/dev/null || true
}

delete_tpu() {
  run "${tpus[@]}" queued-resources delete "$name" "${place[@]}" --force
}

ask_for_tpu() {
  local words=(
    queued-resources create "$name" "${place[@]}"
    "--accelerator-type=$accelerator_type"
    "--runtime-version=$runtime_version"
  )
  if [[ "$slices" -gt 1 ]]; then
    words+=("--node-count=$slices" "--node-prefix=$name")
  else
    words+=("--node-id=$name")
  fi
  [[ -z "$spot" ]] || words+=(--spot)
  run "${tpus[@]}" "${words[@]}"
}

pause() {
  sleep "${ZOO_POLL_SECONDS:-30}"
}

# Waits until the TPU is there; fails where it will not be.
await_tpu() {
  [[ -z "$dry_run" ]] || return 0
  local now
  while :; do
    now=$(state)
    case "$now" in
      ACTIVE) return 0 ;;
      FAILED | SUSPENDED | SUSPENDING | DELETING | "") return 1 ;;
    esac
    echo "$name: $now"
    pause
  done
}

# On all workers of all slices at once; fails where one of them does.
everywhere() {
  local node status=0 started=()
  for node in "${nodes[@]}"; do
    run "${tpus[@]}" tpu-vm ssh "$node" "${place[@]}" --worker=all \
      "--command=$1" &
    started+=($!)
  done
  for node in "${started[@]}"; do wait "$node" || status=$?; done
  return "$status"
}

copy_here_to_all() {
  local node
  for node in "${nodes[@]}"; do
    run "${tpus[@]}" tpu-vm scp "$archive" "$node:zoo.tar.gz" "${place[@]}" \
      --worker=all || return
  done
}

install='set -e
mkdir -p zoo && tar -xzf zoo.tar.gz -C zoo && cd zoo
command -v python3.11 >/dev/null ||
  { sudo apt-get update -q && sudo apt-get install -qy python3.11-venv; }
python3.11 -m venv .venv
.venv/bin/pip install -q -c constraints.txt -e ".[tpu]" gcsfs'
if [[ -n "$prepared" ]]; then
  install+="
mkdir -p runs/prepared
gcloud storage rsync --recursive $(quoted "$prepared") runs/prepared"
fi

set_up() {
  copy_here_to_all && everywhere "$install"
}

archive=zoo.tar.gz
if [[ -z "$dry_run" ]]; then
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  archive=$scratch/zoo.tar.gz
  git -C "$(dirname "${BASH_SOURCE[0]}")/.." archive --output="$archive" HEAD
fi

failed_set_ups=0
for ((attempt = 1; attempt <= attempts; attempt++)); do
  now=
  [[ -n "$dry_run" ]] || now=$(state)
  case "$now" in
    FAILED | SUSPENDED) delete_tpu; ask_for_tpu ;;
    "") ask_for_tpu ;;
  esac
  if await_tpu; then
    if set_up; then
      status=0
      everywhere "cd zoo && PATH=\$PWD/.venv/bin:\$PATH exec $(quoted "$@")" ||
        status=$?
      if [[ -n "$dry_run" || "$status" == 0 || "$(state)" == ACTIVE ]]; then
        [[ -z "$delete" ]] || delete_tpu
        exit "$status"
      fi
    elif [[ "$(state)" == ACTIVE ]]; then
      # Workers answer a while after the TPU is there.
      failed_set_ups=$((failed_set_ups + 1))
      ((failed_set_ups < 5)) || die "the workers of $name cannot be set up"
      pause
      continue
    fi
  fi
  echo "$name: the TPU was taken back; attempt $attempt of $attempts is over"
  pause
done
die "no TPU lasted to the end of the command in $attempts attempts"
