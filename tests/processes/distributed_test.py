"""Real processes that come, differ, fail, die, hang, or do not come."""

import os
import re
import signal
import socket

import pytest

from tests import several_processes
from tests.several_processes import COLLECTIVES
from tests.several_processes import PROGRAM
from transformer_zoo.cli import main

NAME = r"process {} \(host \S+, pid \d+\)"
IMPATIENT = "--process_silent=6"


def ends(*bodies, flags=(), **options):
  """Runs a body in each process: exit code, output and errors of each."""
  programs = [[PROGRAM, body, *flags] for body in bodies]
  with several_processes.running(programs, **options) as processes:
    return processes.ends()


@pytest.mark.slow
def test_a_killed_process_ends_the_others_by_its_name():
  programs = [[PROGRAM, COLLECTIVES, IMPATIENT]] * 3
  with several_processes.running(programs) as processes:
    processes.read_until("together")
    processes.signal(1, signal.SIGKILL)
    found = processes.ends()
  for code, _, error in (found[0], found[2]):
    assert code == 1, error
    died = (
      f"zoo: error: {NAME.format(1)} has died or hangs: no heartbeat in 6 s"
    )
    assert re.search(died, error), error


@pytest.mark.slow
def test_a_killed_first_process_ends_the_others():
  programs = [[PROGRAM, COLLECTIVES, IMPATIENT]] * 2
  with several_processes.running(programs) as processes:
    processes.read_until("together")
    processes.signal(0, signal.SIGKILL)
    _, (code, _, error) = processes.ends()
  # JAX aborts a process that has lost its coordination service.
  assert code in (1, -signal.SIGABRT), error
  ours = f"zoo: error: {NAME.format(0)} has died: it does not answer"
  of_jax = "the JAX distributed service detected fatal errors"
  assert re.search(ours if code == 1 else of_jax, error), error


@pytest.mark.slow
def test_a_process_that_hangs_ends_the_others():
  programs = [[PROGRAM, COLLECTIVES, IMPATIENT]] * 2
  with several_processes.running(programs) as processes:
    processes.read_until("together")
    processes.signal(1, signal.SIGSTOP)
    ((code, _, error),) = processes.ends(first=1)
  assert code == 1, error
  hangs = f"zoo: error: {NAME.format(1)} has died or hangs: no heartbeat in 6 s"
  assert re.search(hangs, error), error


@pytest.mark.slow
def test_bad_input_of_one_ends_all_with_its_sentence():
  bad = "if distributed._group.index == 1: raise UserError('disk 7 is bad')\n"
  (code, output, error), (own_code, _, own) = ends(*[bad + COLLECTIVES] * 2)
  assert (code, own_code) == (2, 2)
  assert "together" not in output
  assert re.search(f"zoo: error: {NAME.format(1)}: disk 7 is bad\n", error)
  assert own.endswith("zoo: error: disk 7 is bad\n")


@pytest.mark.slow
def test_a_crash_of_one_ends_all_and_is_told():
  crash = "if distributed._group.index == 0: raise IndexError('no row 9')\n"
  (own_code, _, own), (code, _, error) = ends(*[crash + COLLECTIVES] * 2)
  assert (code, own_code) == (1, 1)
  assert "Traceback" in own and "IndexError: no row 9" in own
  assert re.search(f"{NAME.format(0)}: IndexError: no row 9\n", error)


@pytest.mark.slow
def test_a_broken_collective_is_reported_if_no_process_has_died():
  broken = """
distributed._LEAVING_SECONDS = 1.0
if distributed.is_first():
  raise RuntimeError("Gloo has no memory")
"""
  (own_code, _, own), (code, _, error) = ends(
    *[broken + COLLECTIVES] * 2, flags=[IMPATIENT]
  )
  assert (code, own_code) == (1, 1)
  assert (
    "zoo: a computation with the other processes has failed; waiting up to 7 s "
    "to learn whether one of them has died\nTraceback"
  ) in own
  assert re.search(
    f"error: {NAME.format(0)}: RuntimeError: Gloo has no memory\n", error
  ), error


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_missing_process_ends_the_others():
  (code, _, error), _ = ends("", "", flags=["--process_wait=8"], count=3)
  assert code == 1
  assert re.search(
    rf"zoo: error: {NAME.format(0)} of 3: not all 3 processes have come in 8 "
    "s; start those that are missing, or wait longer with --process_wait\n",
    error,
  ), error


@pytest.mark.slow
def test_a_missing_first_process_is_named():
  ((code, _, error),) = ends("", flags=["--process_wait=1"], count=2, first=1)
  assert code == 1
  assert re.search(
    rf"zoo: error: {NAME.format(1)} of 2: nobody answers at "
    r"127\.0\.0\.1:\d+, the address of process 0 \(Connection refused\) in 1 "
    "s; start those that are missing, or wait longer with --process_wait\n",
    error,
  ), error


@pytest.mark.slow
def test_an_index_that_is_taken_ends_all():
  programs = [[PROGRAM, COLLECTIVES]] * 2
  with several_processes.running(programs) as processes:
    processes.read_until("together")
    processes.start_again(1)
    found = processes.ends()
  for code, _, error in found:
    assert code == 1, error
    assert re.search(
      f"zoo: error: {NAME.format(1)}: its index is taken by {NAME.format(1)}; "
      "start all processes again\n",
      error,
    ), error


@pytest.mark.slow
def test_another_count_is_refused():
  counts = [[PROGRAM, ""], [PROGRAM, "", "--process_count=3"]]
  with several_processes.running(counts) as processes:
    found = processes.ends()
  for code, _, error in found:
    assert code == 2, error
    assert re.search(
      rf"zoo: error: .*--process_count is \d in {NAME.format('[01]')} and \d "
      rf"in {NAME.format('[01]')}; give the same to all\n",
      error,
    ), error


def test_to_be_alone_may_be_refused(capsys):
  assert main.main(["train", "--multiprocess_gpu"]) == 2
  assert capsys.readouterr().err == (
    "zoo: error: --multiprocess is given and no other process is found: give "
    "--coordinator_address, --process_count and --process_index\n"
  )


@pytest.mark.parametrize("flag", ["--process_wait", "--process_silent"])
def test_a_limit_that_is_not_positive_is_refused(flag, capsys):
  place = ["--coordinator_address=a:1", "--process_count=2"]
  assert main.main(["train", *place, "--process_index=1", f"{flag}=0"]) == 2
  assert capsys.readouterr().err == (
    f"zoo: error: {flag} is 0; it has to be at least 1 second\n"
  )


def test_a_port_in_use_is_refused(capsys):
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


@pytest.mark.slow
def test_what_the_first_has_reaches_all_and_standard_output_is_its_own():
  body = """
import os
print(distributed.share("a list", lambda: [os.getpid()]))
print(len(distributed.share("a text", lambda: "x" * 20_000_000)))
print(list(distributed.shared("numbers", iter(range(5)), 2)))
os.system("echo from elsewhere")
"""
  (code, output, _), (other_code, other, error) = ends(body, body)
  assert (code, other_code) == (0, 0), error
  _, length, numbers = output.splitlines()
  assert length == "20000000"
  assert numbers == "[0, 1, 2, 3, 4]" and not other
  assert "from elsewhere" in error


@pytest.mark.slow
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
