"""Real processes that come, differ, fail, die, or do not come."""

import os
import re
import socket

import pytest

from tests import several_processes
from tests.several_processes import COLLECTIVES
from tests.several_processes import PROGRAM
from transformer_zoo.cli import main

NAME = r"process {} \(host \S+, pid \d+\)"


def ends(*bodies, flags=(), **options):
  """Runs a body in each process: exit code, output and errors of each."""
  programs = [[PROGRAM, body, *flags] for body in bodies]
  with several_processes.running(programs, **options) as processes:
    return processes.ends()


@pytest.mark.parametrize("victim", [1, 0])
def test_a_killed_process_ends_the_others_by_its_name(victim):
  programs = [[PROGRAM, COLLECTIVES]] * (3 if victim else 2)
  with several_processes.running(programs) as processes:
    processes.read_until("together")
    processes.kill(victim)
    found = processes.ends()
  for index, (code, _, error) in enumerate(found):
    if index != victim:
      assert code == 1, error
      died = f"zoo: error: {NAME.format(victim)} has died: "
      assert re.search(died, error), error


def test_bad_input_of_one_ends_all_with_its_sentence():
  bad = "if distributed._member.index == 1: raise UserError('disk 7 is bad')\n"
  (code, output, error), (own_code, _, own) = ends(*[bad + COLLECTIVES] * 2)
  assert (code, own_code) == (2, 2)
  assert "together" not in output
  assert re.search(f"zoo: error: {NAME.format(1)}: disk 7 is bad\n", error)
  assert own.endswith("zoo: error: disk 7 is bad\n")


def test_a_crash_of_one_ends_all_and_is_told():
  crash = "if distributed._member.index == 0: raise IndexError('no row 9')\n"
  (own_code, _, own), (code, _, error) = ends(*[crash + COLLECTIVES] * 2)
  assert (code, own_code) == (1, 1)
  assert "Traceback" in own and "IndexError: no row 9" in own
  assert re.search(f"{NAME.format(0)}: IndexError: no row 9\n", error)


def test_other_versions_are_refused_with_the_difference():
  older = """
import importlib.metadata
version = importlib.metadata.version
importlib.metadata.version = lambda name: (
  "0.1.2" if name == "optax" else version(name)
)
"""
  programs = [[PROGRAM, COLLECTIVES], [older + PROGRAM, COLLECTIVES]]
  with several_processes.running(programs) as processes:
    found = processes.ends()
  for code, output, error in found:
    assert code == 2 and not output
    # A process reads it itself, or hears of it from the other one's end.
    told = (
      f"zoo: error: (?:{NAME.format('[01]')}: )?the processes differ in their "
      "versions, from "
      f"{NAME.format(0)} to {NAME.format(1)}: packages optax is "
      r"\d+\.\d+\.\d+ and 0\.1\.2\n"
    )
    assert re.search(told, error), error


def test_a_process_that_a_collective_waits_for_is_named_and_may_come():
  body = """
import numpy as np
from jax.experimental import multihost_utils
distributed.at("the batch after step 7")
if not distributed.is_first():
  sys.stdin.read()
distributed.at("step 8")
multihost_utils.process_allgather(np.ones(1))
"""
  programs = [[PROGRAM, body, "--process_late=1"]] * 2
  with several_processes.running(programs) as processes:
    told = processes.read_error("nothing moves")
    found = processes.ends()  # which closes the standard input
  assert re.fullmatch(
    rf"zoo: nothing moves for 1 s: {NAME.format(1)} is at 'the batch after "
    "step 7'; the furthest process is at 'step 8'\n",
    told,
  ), told
  assert [code for code, *_ in found] == [0, 0], found


def test_a_missing_process_is_named():
  (code, _, error), _ = ends("", "", flags=["--process_wait=1"], count=4)
  assert code == 1
  told = (
    rf"zoo: error: 2 of 4 processes have come in 1 s: {NAME.format(0)}, "
    rf"{NAME.format(1)}; missing: 2 to 3; start them too, or wait longer with "
    "--process_wait\n"
  )
  assert re.search(told, error), error


def test_a_missing_first_process_is_named():
  ((code, _, error),) = ends("", flags=["--process_wait=1"], count=2, first=1)
  assert code == 1
  assert re.search(
    r"zoo: error: process 1 \(host \S+\) of 2 finds no process 0: nobody "
    r"answers at 127\.0\.0\.1:\d+ in 1 s \(Connection refused\); start",
    error,
  ), error


def test_to_be_alone_may_be_refused(capsys):
  assert main.main(["train", "--multiprocess_gpu"]) == 2
  assert capsys.readouterr().err == (
    "zoo: error: --multiprocess is given and no other process is found: give "
    "--coordinator_address, --process_count and --process_index\n"
  )


def test_a_port_in_use_is_told(capsys):
  with socket.create_server(("", 0)) as held:
    address = f"127.0.0.1:{held.getsockname()[1]}"
    place = ["--process_count=2", "--process_index=0"]
    words = ["train", f"--coordinator_address={address}", *place]
    assert main.main(words) == 2
  assert re.fullmatch(
    r"zoo: error: process 0 \(host \S+\) cannot open port \d+: Address already "
    "in use; end the run that holds it, or choose another with "
    "--coordinator_address\n",
    capsys.readouterr().err,
  )


def test_what_the_first_has_reaches_all_and_standard_output_is_its_own():
  body = """
import os
print(distributed.share("a list", lambda: [os.getpid()]))
print(list(distributed.shared("numbers", iter(range(5)), 2)))
os.system("echo from elsewhere")
"""
  (code, output, _), (other_code, other, error) = ends(body, body)
  assert (code, other_code) == (0, 0), error
  pids, numbers = output.splitlines()
  assert numbers == "[0, 1, 2, 3, 4]" and not other
  assert "from elsewhere" in error


def test_no_thread_takes_the_core_from_one_that_a_collective_waits_for():
  body = """
import os
from jax.experimental import multihost_utils
multihost_utils.sync_global_devices("threads of Gloo")
print({os.sched_getscheduler(int(t)) for t in os.listdir("/proc/self/task")})
"""
  (code, output, error), (other_code, _, other) = ends(body, body)
  assert (code, other_code) == (0, 0), error + other
  assert output.splitlines()[-1] == f"{{{os.SCHED_BATCH}}}"
