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


@pytest.fixture
def address():
  with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    return f"127.0.0.1:{free.getsockname()[1]}"


def on_two_processes(address, *words):
  """Runs `zoo` on two processes; returns what each wrote on stdout."""
  processes = [
    subprocess.Popen(
      [sys.executable, "-c", PROCESS, address, str(index), *map(str, words)],
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
    for index in range(2)
  ]
  try:
    written = [process.communicate(timeout=300) for process in processes]
  finally:
    for process in processes:
      process.kill()
  for process, (_, error) in zip(processes, written, strict=True):
    assert process.returncode == 0, error
  # Gloo writes a line as well.
  return [json.loads(output[output.index("{") :]) for output, _ in written]


def files(folder):
  return {
    path.relative_to(folder).as_posix(): path.read_text().splitlines()
    for path in sorted(folder.rglob("*.json*"))
  }


def test_two_processes_give_what_one_gives(zoo, train, address, tmp_path):
  code, _, error = train(tmp_path / "run", "TRAIN_STEPS=2")
  assert code == 0, error
  words = [
    "evaluate",
    f"--checkpoint={tmp_path / 'run'}",
    "--mixture=colours",
  ]
  code, _, error = zoo(*words, f"--output_dir={tmp_path / 'one'}")
  assert code == 0, error
  first, second = on_two_processes(
    address, *words, f"--output_dir={tmp_path / 'two'}"
  )
  assert first == second
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
