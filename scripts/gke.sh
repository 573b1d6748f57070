#!/usr/bin/env bash
# Runs a command on TPU slices or GPU machines of GKE, as a JobSet.
#
#   scripts/gke.sh --name=t5 --image=REGISTRY/zoo:1 \
#     --accelerator=tpu-v5-lite-podslice --topology=4x4 --slices=2 -- \
#     zoo train --gin_file=my_run.gin "--gin.MODEL_DIR='gs://bucket/t5'"
#
#   scripts/gke.sh --name=t5 --image=REGISTRY/zoo:1 \
#     --accelerator=nvidia-h100-80gb --hosts=2 --chips_per_host=8 -- zoo train ...
#
# --name NAME           of the JobSet
# --image IMAGE         with this project installed
# --accelerator NAME    of the node pool; one that begins with tpu- is a TPU
# --topology SHAPE      TPU: chips of a slice, as 4x4 or 2x2x4
# --slices N            TPU: 1 by default
# --chips_per_host N    4 by default: TPU chips, or GPUs, of a machine
# --hosts N             GPU: machines, 1 by default
# --restarts N          how often all is restarted, 100 by default
# --dry_run             print the manifest
#
# A machine that is taken away restarts the run, which goes on at its last
# checkpoint. Bad input and a loss that is not finite are not repeated. The
# JobSet controller has to be installed in the cluster, once.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

name='' image='' accelerator='' topology='' dry_run=''
slices=1
chips_per_host=4
hosts=''
restarts=100
while [[ $# -gt 0 ]]; do
  # --name=value is --name value.
  if [[ "$1" == --*=* ]]; then set -- "${1%%=*}" "${1#*=}" "${@:2}"; fi
  case "$1" in
    --name) name=$(value_of "$1" "$@"); shift 2 ;;
    --image) image=$(value_of "$1" "$@"); shift 2 ;;
    --accelerator) accelerator=$(value_of "$1" "$@"); shift 2 ;;
    --topology) topology=$(value_of "$1" "$@"); shift 2 ;;
    --slices) slices=$(value_of "$1" "$@"); shift 2 ;;
    --chips_per_host) chips_per_host=$(value_of "$1" "$@"); shift 2 ;;
    --hosts) hosts=$(value_of "$1" "$@"); shift 2 ;;
    --restarts) restarts=$(value_of "$1" "$@"); shift 2 ;;
    --dry_run) dry_run=yes; shift ;;
    --help) usage ;;
    --) shift; break ;;
    *) die "unknown option '$1' (see --help); the command comes after --" ;;
  esac
done
for option in name image accelerator; do
  [[ -n "${!option}" ]] || die "--$option is missing"
done
require_name --name "$name"
require_number --slices "$slices"
require_number --chips_per_host "$chips_per_host"
require_number --restarts "$restarts"
[[ $# -gt 0 ]] || die "no command: give one after --"
require_bucket "$@"

if [[ "$accelerator" == tpu-* ]]; then
  kind=tpu
  [[ -n "$topology" ]] || die "--topology is missing: chips of a slice, as 4x4"
  [[ "$topology" =~ ^[1-9][0-9]*(x[1-9][0-9]*){1,2}$ ]] ||
    die "--topology is '$topology'; write it as 4x4 or 2x2x4"
  [[ -z "$hosts" ]] || die "--hosts is for GPUs; a slice has those it needs"
  chips=$((${topology//x/*}))
  ((chips % chips_per_host == 0)) ||
    die "--topology $topology has $chips chips, which are not whole machines of" \
      "$chips_per_host (--chips_per_host)"
  hosts=$((chips / chips_per_host))
else
  kind=gpu
  [[ -z "$topology" ]] || die "--topology is for TPUs"
  [[ "$slices" == 1 ]] || die "--slices is for TPUs; give --hosts"
  hosts=${hosts:-1}
  require_number --hosts "$hosts"
fi

# The command as a list that YAML and JSON read alike.
words=()
for word in "$@"; do
  [[ "$word" != *$'\n'* ]] || die "a word of the command has two lines"
  word=${word//\\/\\\\}
  words+=("\"${word//\"/\\\"}\"")
done
command="[$(IFS=,; printf '%s' "${words[*]}")]"
command=${command//\",\"/\", \"}

manifest=$(grep -v '^#' "$(dirname "${BASH_SOURCE[0]}")/gke/jobset_$kind.yaml")
fill() {
  manifest=${manifest//"{$1}"/"$2"}
}
fill NAME "$name"
fill RESTARTS "$restarts"
fill SLICES "$slices"
fill HOSTS "$hosts"
fill ACCELERATOR "$accelerator"
fill TOPOLOGY "$topology"
fill CHIPS "$chips_per_host"
fill IMAGE "\"$image\""
fill COMMAND "$command"

if [[ -n "$dry_run" ]]; then
  echo "$manifest"
else
  kubectl apply --filename=- <<<"$manifest"
  echo "how far it is: kubectl logs --follow" \
    "--selector=jobset.sigs.k8s.io/jobset-name=$name"
fi
