"""scripts/tpu.sh, with a gcloud that writes down what it is asked."""

import shlex

import pytest

COMMAND = ["zoo", "train", "--gin.MODEL_DIR='gs://bucket/t5'"]
PLACE = ["--name=t5", "--zone=us-west4-a", "--accelerator_type=v5litepod-8"]
# The states of the queued resource are read off a list; a command on the
# workers ends with the next code of another one.
GCLOUD = """
following() {
  read -r first <"$FAKE/$1"
  if [[ $first == end ]]; then first=$2; else sed -i 1d "$FAKE/$1"; fi
  echo "$first"
}
case "$*" in
  *scp*) [[ ! -e $FAKE/unreachable ]] ;;
  *describe*) following states ACTIVE ;;
  *"exec zoo"*) exit "$(following codes 0)" ;;
esac
"""


@pytest.fixture
def gcloud(programs):
  """Runs the script; states and exit codes are those of a call."""
  programs.add("gcloud", GCLOUD)

  def run(*words, states=(), codes=()):
    for name, values in {"states": states, "codes": codes}.items():
      (programs.folder / name).write_text("\n".join([*values, "end"]))
    return programs.script("tpu.sh", *PLACE, *words, "--", *COMMAND)

  return run


def verbs(programs):
  """What was asked for, without the questions for the state."""
  words = [call[3:6] for call in programs.calls if "describe" not in call]
  return [" ".join(three) for three in words]


ONCE = ["tpu-vm scp", "tpu-vm ssh t5", "tpu-vm ssh t5"]


def shortened(found):
  return [v.partition(" /")[0] for v in found]


def test_one_vm_is_asked_for_installed_and_used(gcloud, programs):
  done = gcloud("--delete", states=["", "PROVISIONING", "ACTIVE"])
  assert done.returncode == 0, done.stderr
  assert shortened(verbs(programs)) == [
    "queued-resources create t5",
    *ONCE,
    "queued-resources delete t5",
  ]
  create = next(call for call in programs.calls if "create" in call)
  assert create[6:] == [
    "--zone=us-west4-a",
    "--quiet",
    "--accelerator-type=v5litepod-8",
    "--runtime-version=v2-alpha-tpuv5-lite",
    "--node-id=t5",
  ]
  *_, run = [call for call in programs.calls if "ssh" in call]
  assert "--worker=all" in run
  remote = run[-1].removeprefix("--command=")
  assert remote.startswith("cd zoo && PATH=$PWD/.venv/bin:$PATH exec ")
  # The shell of the worker reads the words as they were given.
  assert shlex.split(remote.partition("exec ")[2]) == COMMAND


def test_every_worker_of_every_slice_runs_the_command(gcloud, programs):
  done = gcloud(
    *("--slices=2", "--spot", "--project=p", "--prepared=gs://b/prepared"),
    states=[""],
  )
  assert done.returncode == 0, done.stderr
  create = next(call for call in programs.calls if "create" in call)
  assert {"--node-count=2", "--node-prefix=t5", "--spot"} <= {*create}
  calls = [call for call in programs.calls if "tpu-vm" in call]
  assert all({"--worker=all", "--project=p"} <= {*call} for call in calls)
  installs = [call[-1] for call in calls if "pip install" in call[-1]]
  assert len(installs) == 2
  assert installs[0].endswith("rsync --recursive gs://b/prepared runs/prepared")
  nodes = sorted(call[5] for call in calls if "ssh" in call)
  assert nodes == ["t5-0", "t5-0", "t5-1", "t5-1"]


def test_a_tpu_that_is_taken_back_is_asked_for_again(gcloud, programs):
  done = gcloud(
    states=["", "ACTIVE", "SUSPENDED", "SUSPENDED", "ACTIVE"],
    codes=["255"],
  )
  assert done.returncode == 0, done.stderr
  assert shortened(verbs(programs)) == [
    "queued-resources create t5",
    *ONCE,
    "queued-resources delete t5",
    "queued-resources create t5",
    *ONCE,
  ]
  runs = [call for call in programs.calls if "exec zoo" in call[-1]]
  assert runs[0] == runs[1]
  assert "the TPU was taken back; attempt 1 of 100 is over" in done.stdout


def test_a_command_that_fails_is_not_repeated(gcloud, programs):
  assert gcloud(states=["ACTIVE"], codes=["3"]).returncode == 3
  assert shortened(verbs(programs)) == ONCE  # The TPU was there.


def test_workers_that_cannot_be_reached_are_not_tried_for_ever(
  gcloud, programs
):
  (programs.folder / "unreachable").touch()
  done = gcloud(states=[""])
  assert done.returncode == 2
  assert done.stderr.endswith("the workers of t5 cannot be set up\n")
  assert shortened(verbs(programs)) == [
    "queued-resources create t5",
    *5 * ["tpu-vm scp"],
  ]


def test_attempts_are_bounded(gcloud, programs):
  done = gcloud("--attempts=2", states=["", "FAILED", "FAILED", "FAILED"])
  assert done.returncode == 2
  assert "no TPU lasted to the end of the command in 2 attempts" in done.stderr
  assert shortened(verbs(programs)) == [
    "queued-resources create t5",
    "queued-resources delete t5",
    "queued-resources create t5",
  ]


def test_a_dry_run_calls_nothing(gcloud, programs):
  done = gcloud("--dry_run", "--slices=2")
  assert done.returncode == 0
  assert not (programs.folder / "calls").exists()
  lines = list(map(shlex.split, done.stdout.splitlines()))
  assert [line[:5] for line in lines if line[3:4] == ["queued-resources"]] == [
    ["gcloud", "compute", "tpus", "queued-resources", "create"]
  ]
  assert done.stdout.count("tpu-vm scp") == 2
