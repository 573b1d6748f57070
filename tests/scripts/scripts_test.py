"""All launching scripts: what they refuse, and how they are written."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent.parent / "scripts"
# As every command of `zoo` starts.
TOGETHER = """
from transformer_zoo.processes import clusters, distributed
distributed.initialize(clusters.find({}))
import jax
from jax.experimental import multihost_utils
index = jax.numpy.asarray(jax.process_index())
print(multihost_utils.process_allgather(index).tolist(), jax.device_count())
distributed.shut_down()
"""
RUN = ["--", "zoo", "train", "--gin.MODEL_DIR='gs://b'"]
TPU = ["--name=t5", "--zone=z", "--accelerator_type=v4-8"]
GKE = ["--name=t5", "--image=i", "--accelerator=tpu-v6e-slice"]


def test_shellcheck_finds_nothing():
  beside = pathlib.Path(sys.executable).with_name("shellcheck")
  shellcheck = beside if beside.exists() else shutil.which("shellcheck")
  if not shellcheck:
    pytest.skip("shellcheck is not installed")
  files = sorted(map(str, SCRIPTS.glob("*.sh")))
  done = subprocess.run(
    [shellcheck, "--external-sources", *files], capture_output=True, text=True
  )
  assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("[!c]*.sh")))
def test_scripts_are_strict_and_tell_how_they_are_used(script, programs):
  assert "\nset -euo pipefail\n" in script.read_text()
  done = programs.script(script.name, "--help")
  assert done.returncode == 0
  assert f"scripts/{script.name} " in done.stdout
  assert "--dry_run" in done.stdout and "#" not in done.stdout


@pytest.mark.parametrize(
  "script, words, sentence",
  [
    ("tpu.sh", [], "--name is missing"),
    ("tpu.sh", [*TPU, "--nodes=2", *RUN], "unknown option '--nodes' (see"),
    ("tpu.sh", ["--name"], "--name needs a value"),
    ("tpu.sh", [*TPU, "--name=T5", *RUN], "--name is 'T5'; use up to 50"),
    ("tpu.sh", [*TPU, "--slices=0", *RUN], "--slices is '0'; it has to be 1"),
    ("tpu.sh", TPU, "no command: give one after --"),
    ("tpu.sh", [*TPU, "--", "zoo", "train"], "no word of the command names gs"),
    (
      "tpu.sh",
      [*TPU, "--accelerator_type=v9-8", *RUN],
      "--accelerator_type is 'v9-8', of which no software is known here",
    ),
    ("tpu.sh", [*TPU, "--prepared=a", *RUN], "--prepared is 'a'; copy the"),
    ("gke.sh", [*GKE, *RUN], "--topology is missing"),
    ("gke.sh", [*GKE, "--topology=16", *RUN], "--topology is '16'; write it"),
    (
      "gke.sh",
      [*GKE, "--topology=3x3", *RUN],
      "--topology 3x3 has 9 chips",
    ),
    (
      "gke.sh",
      [*GKE, "--accelerator=nvidia-l4", "--slices=2", *RUN],
      "--slices is for TPUs; give --hosts",
    ),
    (
      "slurm.sh",
      ["--name=t5", "--time=1:00", *RUN],
      "--time is '1:00'; it",
    ),
    ("local_processes.sh", ["--processes=", *RUN], "--processes needs a value"),
    ("local_processes.sh", RUN, "--processes is missing"),
  ],
)
def test_arguments_are_checked_before_anything_runs(
  programs, script, words, sentence
):
  done = programs.script(script, *words)
  assert done.returncode == 2
  assert done.stderr.startswith(f"{script}: error: {sentence}"), done.stderr
  assert done.stderr.count("\n") == 1 and done.stdout == ""


def test_processes_of_this_machine_are_told_their_place(programs):
  show = 'echo "$ZOO_PROCESS_INDEX of $ZOO_PROCESS_COUNT"'
  done = programs.script(
    *("local_processes.sh", "--processes=3", "--", "bash", "-c", show)
  )
  assert sorted(done.stdout.splitlines()) == ["0 of 3", "1 of 3", "2 of 3"]


def test_a_process_that_fails_ends_the_others(programs):
  either = 'if [[ $ZOO_PROCESS_INDEX == 1 ]]; then exit 3; else read <"$0"; fi'
  os.mkfifo(programs.folder / "never")
  done = programs.script(
    *("local_processes.sh", "--processes=2", "--", "bash", "-c", either),
    str(programs.folder / "never"),
  )
  assert done.returncode == 3


def test_sigterm_reaches_all_processes(programs):
  # A signal that comes just before a builtin blocks would be seen behind it.
  wait = "while :; do sleep 0.02; done"
  save = f'trap "echo saved; exit 143" TERM; echo ready; {wait}'
  script = programs.start(
    *("local_processes.sh", "--processes=2", "--", "bash", "-c", save)
  )
  assert [script.stdout.readline() for _ in range(2)] == ["ready\n"] * 2
  script.send_signal(signal.SIGTERM)
  written, _ = script.communicate(timeout=60)
  assert written == "saved\n" * 2 and script.returncode == 143


def test_logs_of_processes_are_kept_apart(programs, tmp_path):
  done = programs.script(
    *("local_processes.sh", "--processes=2", f"--log_dir={tmp_path / 'logs'}"),
    *("--", "bash", "-c", "echo $ZOO_PROCESS_INDEX"),
  )
  assert done.stdout == "0\n"
  logs = {p.name: p.read_text() for p in (tmp_path / "logs").iterdir()}
  assert logs == {"process_0.log": "0\n", "process_1.log": "1\n"}


def test_two_processes_of_this_machine_compute_together(programs, monkeypatch):
  monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=1")
  monkeypatch.setenv("PYTHONPATH", str(SCRIPTS.parent))
  done = programs.script(
    *("local_processes.sh", "--processes=2", "--"),
    *(sys.executable, "-c", TOGETHER),
  )
  assert done.returncode == 0, done.stderr
  assert done.stdout == "[0, 1] 2\n"
