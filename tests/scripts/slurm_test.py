"""scripts/slurm.sh, with fakes of SLURM's commands."""

import os
import signal

WORDS = ["--name=t5", "--nodes=2", "--gpus_per_node=8", "--time=600"]
COMMAND = ["zoo", "train", "--gin_file=a b.gin"]
# Trains until it is told to save; then it ends as a run of ours does.
SRUN = """
trap 'exit 143' TERM
mkfifo "$FAKE/never"
echo $$ >"$FAKE/pid"
echo training
read <>"$FAKE/never"
"""
SCANCEL = 'kill -TERM "$(cat "$FAKE/pid")"\n'


def test_what_is_submitted(programs):
  programs.add("sbatch")
  more = ["--sbatch=--partition=gpu", "--sbatch=--account=me"]
  done = programs.script("slurm.sh", *WORDS, *more, "--", *COMMAND)
  assert done.returncode == 0, done.stderr
  (call,) = programs.calls
  script = next(i for i, word in enumerate(call) if word.endswith("slurm.sh"))
  assert call[1:script] == [
    "--job-name=t5",
    "--nodes=2",
    "--ntasks-per-node=1",
    "--time=600",
    "--signal=B:USR1@120",
    "--requeue",
    "--open-mode=append",
    "--output=t5-%j.log",
    "--gpus-per-node=8",
    "--partition=gpu",
    "--account=me",
  ]
  assert call[script + 1 :] == ["--in_job", *COMMAND]


def test_a_dry_run_submits_nothing(programs):
  programs.add("sbatch")
  done = programs.script("slurm.sh", *WORDS, "--dry_run", "--", *COMMAND)
  assert done.stdout.startswith("sbatch --job-name=t5 --nodes=2 ")
  assert not (programs.folder / "calls").exists()


def in_job(programs):
  for name, text in {"srun": SRUN, "scancel": SCANCEL, "scontrol": ""}.items():
    programs.add(name, text)
  return programs.start("slurm.sh", "--in_job", *COMMAND)


def test_a_job_at_its_limit_saves_and_goes_back_to_the_queue(
  programs, monkeypatch
):
  monkeypatch.setenv("SLURM_JOB_ID", "7")
  job = in_job(programs)
  assert job.stdout.readline() == "training\n"
  job.send_signal(signal.SIGUSR1)
  job.communicate(timeout=60)
  assert job.returncode == 143
  assert programs.calls == [
    ["srun", "--kill-on-bad-exit=1", *COMMAND],
    ["scancel", "--signal=TERM", "7.0"],
    ["scontrol", "requeue", "7"],
  ]


def test_a_job_that_is_cancelled_does_not_come_back(programs, monkeypatch):
  monkeypatch.setenv("SLURM_JOB_ID", "7")
  job = in_job(programs)
  assert job.stdout.readline() == "training\n"
  # SLURM signals the processes of the step, not this shell.
  pid = int((programs.folder / "pid").read_text())
  os.kill(pid, signal.SIGTERM)
  job.communicate(timeout=60)
  assert job.returncode == 143
  assert [call[0] for call in programs.calls] == ["srun"]
