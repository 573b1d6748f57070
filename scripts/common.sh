# What the launching scripts share; sourced, never run.
# shellcheck shell=bash

readonly USER_ERROR=2  # As `zoo` has it.

# Ends with one sentence on what is wrong.
die() {
  echo "${0##*/}: error: $*" >&2
  exit "$USER_ERROR"
}

# Prints the comment at the head of the script.
usage() {
  sed -n '2,/^$/s/^# \{0,1\}//p' "$0"
  exit 0
}

# Runs a command; with --dry_run prints it as it would be typed.
run() {
  if [[ -n "${dry_run:-}" ]]; then
    printf '%q ' "$@"
    echo
  else
    "$@"
  fi
}

# The value of an option: `value_of --name "$@"`.
value_of() {
  [[ $# -ge 3 && -n "$3" ]] || die "$1 needs a value"
  printf '%s' "$3"
}

require_number() {
  [[ "$2" =~ ^[1-9][0-9]*$ ]] || die "$1 is '$2'; it has to be 1 or more"
}

require_name() {
  [[ "$2" =~ ^[a-z]([-a-z0-9]{0,48}[a-z0-9])?$ ]] ||
    die "$1 is '$2'; use up to 50 lower-case letters, digits and -, a letter first"
}

# Words that the shell of another machine reads as these.
quoted() {
  local words
  printf -v words '%q ' "$@"
  printf '%s' "${words% }"
}

# Refuses a run whose folder the machine takes with it.
require_bucket() {
  local word
  for word in "$@"; do
    [[ "$word" == *gs://* ]] && return
  done
  die "no word of the command names gs://: a disk of the machine is lost with" \
    "it, so keep the run in a bucket (--gin.MODEL_DIR=\"'gs://...'\")"
}
