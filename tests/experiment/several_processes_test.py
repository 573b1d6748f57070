"""Evaluation on two processes, which see each other on this machine alone."""

import json
import os
import socket
import subprocess
import sys

import pytest

PROCESS = """
import sys
import jax
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(
  sys.argv.pop(1), 2, int(sys.argv.pop(1)), initialization_timeout=120
)
assert jax.process_count() == 2 and jax.local_device_count() == 1
sys.modules["seqio"] = None
from transformer_zoo.cli import main
sys.exit(main.main())
"""


def on_two_processes(words, output_dirs):
  """Runs `zoo` on two processes: exit code, output and errors of each."""
  with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    address = f"127.0.0.1:{free.getsockname()[1]}"
  processes = [
    subprocess.Popen(
      [
        *(sys.executable, "-c", PROCESS, address, str(index)),
        *(*words, f"--output_dir={folder}"),
      ],
      env=os.environ
      | {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=1 "
        "--xla_backend_optimization_level=0",
        "JAX_PLATFORMS": "cpu",
      },
      stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
      text=True,
    )
    for index, folder in enumerate(output_dirs)
  ]
  try:
    written = [process.communicate(timeout=500) for process in processes]
  finally:
    for process in processes:
      process.kill()
  return [
    (process.returncode, *texts)
    for process, texts in zip(processes, written, strict=True)
  ]


def files(folder):
  return {
    path.relative_to(folder).as_posix(): path.read_text().splitlines()
    for path in sorted(folder.rglob("*.json*"))
  }


@pytest.fixture
def words(train, tmp_path):
  code, _, error = train(tmp_path / "run", "TRAIN_STEPS=2")
  assert code == 0, error
  return ["evaluate", f"--checkpoint={tmp_path / 'run'}", "--mixture=colours"]


def test_two_processes_give_what_one_gives(zoo, words, tmp_path):
  code, _, error = zoo(*words, f"--output_dir={tmp_path / 'one'}")
  assert code == 0, error
  printed = []
  for code, output, error in on_two_processes(words, [tmp_path / "two"] * 2):
    assert code == 0, error
    # Gloo writes a line as well.
    printed.append(json.loads(output[output.index("{") :]))
  assert printed[0] == printed[1]
  ones, twos = files(tmp_path / "one"), files(tmp_path / "two")
  assert list(ones) == list(twos) and len(ones) == 2
  for name in ones:
    if name.endswith("result.json"):
      one, two = (json.loads("\n".join(some[name])) for some in (ones, twos))
      assert one["scores"] == two["scores"] and one["scores"]
      assert two["loss"] == pytest.approx(one["loss"], rel=1e-5)
      continue
    for one, two in zip(
      map(json.loads, ones[name]), map(json.loads, twos[name]), strict=True
    ):
      assert two.pop("log_likelihood") == pytest.approx(
        one.pop("log_likelihood"), rel=1e-4
      )
      assert one == two
  # Of an evaluation that was interrupted, one process sees nothing.
  next((tmp_path / "two").rglob("result.json")).unlink()
  apart = [tmp_path / "two", tmp_path / "three"]
  for code, _, error in on_two_processes(words, apart):
    assert code == 2, error
    assert (
      "zoo: error: the processes do not see the same 'colours.journal' of an "
      "interrupted evaluation: give a folder that all of them share"
    ) in error
