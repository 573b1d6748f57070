#!/usr/bin/env bash
# Runs one command as several processes of this machine, which compute together.
#
#   scripts/local_processes.sh --processes 2 -- \
#     zoo train --gin_file=my_run.gin
#
# --processes N   how many
# --port PORT     where they meet, on 127.0.0.1; a free one by default
# --log_dir DIR   output of process k goes to DIR/process_k.log; process 0 also
#                 writes here. By default all write here.
# --dry_run       print what would be run
#
# Ends when all have ended, with the first exit code that is not 0; what ends
# one of them with an error ends the others. SIGTERM and Ctrl-C reach them all.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

processes='' port='' log_dir='' dry_run=''
while [[ $# -gt 0 ]]; do
  # --name=value is --name value.
  if [[ "$1" == --*=* ]]; then set -- "${1%%=*}" "${1#*=}" "${@:2}"; fi
  case "$1" in
    --processes) processes=$(value_of "$1" "$@"); shift 2 ;;
    --port) port=$(value_of "$1" "$@"); shift 2 ;;
    --log_dir) log_dir=$(value_of "$1" "$@"); shift 2 ;;
    --dry_run) dry_run=yes; shift ;;
    --help) usage ;;
    --) shift; break ;;
    *) die "unknown option '$1' (see --help); the command comes after --" ;;
  esac
done
[[ -n "$processes" ]] || die "--processes is missing"
require_number --processes "$processes"
[[ $# -gt 0 ]] || die "no command: give one after --"

free_port() {
  local candidate
  while :; do
    candidate=$((20000 + RANDOM % 30000))
    # Nobody listens there: connecting fails.
    (: <"/dev/tcp/127.0.0.1/$candidate") 2>/dev/null || break
  done
  echo "$candidate"
}
[[ -n "$port" ]] || port=$(free_port)
require_number --port "$port"
[[ -z "$log_dir" || -n "$dry_run" ]] || mkdir -p "$log_dir"

children=()
told_to_end=''
forward() {
  told_to_end=yes
  kill -TERM "${children[@]}" 2>/dev/null || true
}
trap forward TERM INT

for ((index = 0; index < processes; index++)); do
  place=(
    env
    "ZOO_COORDINATOR_ADDRESS=127.0.0.1:$port"
    "ZOO_PROCESS_COUNT=$processes"
    "ZOO_PROCESS_INDEX=$index"
  )
  if [[ -n "$dry_run" ]]; then
    run "${place[@]}" "$@"
    continue
  fi
  log=/dev/null
  [[ -z "$log_dir" ]] || log="$log_dir/process_$index.log"
  if [[ -z "$log_dir" ]]; then
    "${place[@]}" "$@" &
  elif [[ "$index" == 0 ]]; then
    "${place[@]}" "$@" > >(tee "$log") 2>&1 &
  else
    "${place[@]}" "$@" >"$log" 2>&1 &
  fi
  children+=($!)
done

status=0
while [[ ${#children[@]} -gt 0 ]]; do
  wait -n || true  # Until one has ended or a signal has come.
  left=()
  for child in "${children[@]}"; do
    if kill -0 "$child" 2>/dev/null; then
      left+=("$child")
      continue
    fi
    code=0
    wait "$child" || code=$?
    if [[ "$code" != 0 && "$status" == 0 ]]; then
      status=$code
      # A second SIGTERM would reach them while they save.
      [[ -n "$told_to_end" ]] || forward
    fi
  done
  children=("${left[@]}")
done
exit "$status"
