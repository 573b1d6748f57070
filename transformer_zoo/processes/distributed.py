"""Start, comparison and common end of processes that run one program.

The coordination service of `jax.distributed`, a thread of process 0, registers
the processes, counts their heartbeats and holds barriers and a key-value store.
This module starts it, compares the processes before anything is compiled, and
ends all of them with one sentence when one of them fails, dies or never comes.
In a single process every function returns at once.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
import contextlib
import itertools
import json
import os
import re
import socket
import sys
import threading
import time
from typing import Any, NoReturn, TypeVar

from transformer_zoo.errors import UserError
from transformer_zoo.processes.clusters import Place

Item = TypeVar("Item")

START_SECONDS = 300
HEARTBEAT_SECONDS = 100
LOST = 1  # The exit code when a process is missing or dead.

# JAX aborts a process whose time to start is over, without a sentence.
_AFTER_OURS = 60
# Longer than any preparation of data, for which the other processes wait; the
# death of a process ends the wait earlier.
_WAIT_MILLISECONDS = 7 * 24 * 3600 * 1000
_LOOKS_PER_HEARTBEAT_LIMIT = 10
_LEAVING_SECONDS = 10.0
_POLL_SECONDS = 0.05
# The libraries by which processes talk name themselves in their errors.
_OF_COMMUNICATION = re.compile(r"\b(Gloo|NCCL|NVSHMEM|coordination)\b")
_PROCESS, _FAILURE, _LEFT = "zoo/process", "zoo/failure", "zoo/left"

_group: "_Group | None" = None


class _Group:
  """The connection of this process with the others.

  Two threads wait for bad news, whatever the program hangs in: one for the
  failure that a process reports, one for missing heartbeats. The errors of
  JAX's coordination service are `RuntimeError`s.

  Attributes:
    client: the client of JAX's coordination service.
    index: the index of this process.
    count: the number of processes.
    heartbeat_seconds: the seconds without a heartbeat after which a process
      counts as dead.
    names: the name of each process: its index, host and process number.
  """

  def __init__(self, client, place: Place, heartbeat_seconds: int, name: str):
    self.client = client
    self.index = place.index
    self.count = place.count
    self.heartbeat_seconds = heartbeat_seconds
    self.names = [f"process {index}" for index in range(place.count)]
    self.names[place.index] = name
    self._meetings = itertools.count()
    self._everyone = list(range(place.count))
    self._leaving = threading.Event()
    self._ending = threading.Lock()
    self._watchers = [
      threading.Thread(target=watch, daemon=True)
      for watch in (self._await_failure, self._watch_heartbeats)
    ]
    for watcher in self._watchers:
      watcher.start()

  def introduce(self) -> None:
    """Learns the names of all processes.

    If another process has the same index, all of them exit.

    Raises:
      UserError: the processes have different counts.
    """
    key, own = f"{_PROCESS}/{self.index}", self.names[self.index]
    try:
      self.client.key_value_set(key, json.dumps([own, self.count]))
    except RuntimeError as error:
      if "ALREADY_EXISTS" not in str(error):
        raise
      taken, _ = json.loads(self.wait_for_value(key))
      # The launcher may have replaced a dead process: worth another try.
      self.begin_to_end()
      sentence = f"its index is taken by {taken}; start all processes again"
      say(f"error: {own}: {sentence}")
      self.publish_failure(sentence, LOST)
      self.leave(LOST, others=self.count - 1)
    self.barrier("introduction")
    for index, text in _by_process(self.client, _PROCESS).items():
      self.names[index], count = json.loads(text)
      if count != self.count:
        raise UserError(
          f"--process_count is {count} in {self.names[index]} and {self.count} "
          f"in {own}; give the same to all"
        )

  def new_key(self, place: str) -> str:
    """A key that all processes make alike and none makes twice."""
    return f"zoo/{next(self._meetings)}/{place}"

  def barrier(self, place: str) -> None:
    """Waits until all processes are at this place of the program."""
    self.client.wait_at_barrier(self.new_key(place), _WAIT_MILLISECONDS)

  def wait_for_value(self, key: str) -> str:
    """Returns the value of a key of the store, as soon as it has one."""
    return self.client.blocking_key_value_get(key, _WAIT_MILLISECONDS)

  def begin_to_end(self) -> None:
    """Makes the calling thread the one that ends this process.

    Returns in one thread only; that thread exits.
    """
    if not self._ending.acquire(blocking=False):
      threading.Event().wait()

  def publish_failure(self, sentence: str, code: int) -> None:
    """Ends the other processes with the sentence and the exit code."""
    failure = [self.names[self.index], sentence, code]
    # The first failure counts. Without process 0 nobody can be reached.
    with contextlib.suppress(RuntimeError):
      self.client.key_value_set(_FAILURE, json.dumps(failure))

  def leave(self, code: int, others: int) -> NoReturn:
    """Ends this process; process 0, which holds the service, the last.

    Args:
      code: the exit code.
      others: the number of other processes that are alive.
    """
    for stream in (sys.stdout, sys.stderr):
      flush = threading.Thread(target=stream.flush, daemon=True)
      flush.start()
      flush.join(1.0)  # The program may hold the stream.
    with contextlib.suppress(RuntimeError):
      if self.index:
        self.client.key_value_set(f"{_LEFT}/{self.index}", "")
        os._exit(code)
      deadline = time.monotonic() + _LEAVING_SECONDS
      while time.monotonic() < deadline:
        if len(_by_process(self.client, _LEFT)) >= others:
          time.sleep(_POLL_SECONDS)  # From their last word to their exit.
          break
        time.sleep(_POLL_SECONDS)
    os._exit(code)

  def close(self) -> None:
    """Ends the connection when all processes have come so far."""
    import jax

    self.barrier("the end")
    self._leaving.set()
    self.barrier("the end is known")  # No disconnection counts as a death now.
    if self.index == 0:
      # JAX aborts those that are connected when the service ends.
      while len(self.client.get_live_nodes(self._everyone)) > 1:
        pass
    jax.distributed.shutdown()
    for watcher in self._watchers:
      watcher.join()

  def _await_failure(self) -> None:
    try:
      name, sentence, code = json.loads(self._wait_for_failure())
    except RuntimeError:
      if self._leaving.is_set():
        return
      # JAX aborts this process at the same moment; often it is the first.
      self.begin_to_end()
      say(
        f"error: {self.names[0]} has died: it does not answer; its own output "
        "or the log of its machine's kernel (out of memory?) gives the reason"
      )
      os._exit(LOST)
    self.begin_to_end()
    say(f"error: {name}: {sentence}")
    self.leave(code, others=self.count - 1)

  def _wait_for_failure(self) -> str:
    while True:
      try:
        return self.wait_for_value(_FAILURE)
      except RuntimeError as error:
        if "DEADLINE_EXCEEDED" not in str(error):
          raise

  def _watch_heartbeats(self) -> None:
    pause = self.heartbeat_seconds / _LOOKS_PER_HEARTBEAT_LIMIT
    first: dict[int, int] = {}
    while not self._leaving.wait(pause):
      with contextlib.suppress(RuntimeError):  # Of no answer: try again.
        # A process that is started again has another number.
        live = self.client.get_live_nodes(self._everyone)
        first = first or live
        dead = [
          index
          for index in self._everyone
          if index not in live or live[index] != first.get(index)
        ]
        if dead and not self._leaving.is_set():
          self._end_without(dead)

  def _end_without(self, dead: list[int]) -> NoReturn:
    self.begin_to_end()
    names = ", ".join(self.names[index] for index in dead)
    say(
      f"error: {names} {'have' if len(dead) > 1 else 'has'} died or hangs: no "
      f"heartbeat in {self.heartbeat_seconds} s; its own output or the log of "
      "its machine's kernel (out of memory?) gives the reason"
    )
    self.leave(LOST, others=self.count - 1 - len(dead))


def initialize(
  place: Place,
  start_seconds: int = START_SECONDS,
  heartbeat_seconds: int = HEARTBEAT_SECONDS,
) -> None:
  """Connects this process with the others, before JAX knows any device.

  Standard output stays with process 0; what C++ libraries print goes to stderr.
  If a process does not come in time, or two have the same index, this one
  prints a sentence and exits.

  Args:
    place: the place of this process among the others.
    start_seconds: the seconds to wait for all processes to come.
    heartbeat_seconds: the seconds without a heartbeat after which a process
      counts as dead.

  Raises:
    UserError: a limit is not positive, the port of process 0 is in use, or
      the processes differ in their counts or versions.
  """
  global _group
  for flag, seconds in (
    ("--process_wait", start_seconds),
    ("--process_silent", heartbeat_seconds),
  ):
    if seconds < 1:
      raise UserError(f"{flag} is {seconds}; it has to be at least 1 second")
  if place.index == 0:
    _require_free_port(place.address[1])
  _keep_standard_output(place.index)
  name = (
    f"process {place.index} (host {socket.gethostname()}, pid {os.getpid()})"
  )
  say(
    f"{name} of {place.count}, by {place.source}; process 0 is at "
    f"{place.coordinator}; waiting up to {start_seconds} s for all"
  )
  limit = threading.Timer(start_seconds, _give_up, (place, name, start_seconds))
  limit.daemon = True
  limit.start()
  try:
    client = _connect(place, start_seconds, heartbeat_seconds)
  finally:
    limit.cancel()
  _group = _Group(client, place, heartbeat_seconds, name)
  _group.introduce()
  from transformer_zoo import environment

  software = json.dumps(environment.describe_software())
  require_same("versions", software, changes)
  _open_devices()


def is_initialized() -> bool:
  """Returns whether this process is one of several."""
  return _group is not None


def is_first() -> bool:
  """Returns whether this process writes what is written once."""
  return _group is None or _group.index == 0


def barrier(place: str) -> None:
  """Waits until all processes have come to the same place of the program.

  Args:
    place: a name of the place, the same in all processes.
  """
  if _group is not None:
    _group.barrier(place)


def share(place: str, make: Callable[[], Any]) -> Any:
  """Returns in all processes the value that process 0 makes.

  Args:
    place: a name of the value.
    make: a function that returns a value for JSON; called in process 0 only.
  """
  if _group is None:
    return make()
  key = _group.new_key(place)
  if _group.index == 0:
    _group.client.key_value_set(key, json.dumps(make()))
  value = json.loads(_group.wait_for_value(key))
  _group.barrier(place)
  if _group.index == 0:
    _group.client.key_value_delete(key)
  return value


def shared(place: str, items: Iterable[Item], at_a_time: int) -> Iterator[Item]:
  """Yields in all processes the items that process 0 has.

  Args:
    place: a name of the items.
    items: values for JSON; iterated in process 0 only.
    at_a_time: the number of items that are sent together.
  """
  if _group is None:
    yield from items
    return
  items = iter(items)
  while some := share(place, lambda: list(itertools.islice(items, at_a_time))):
    yield from some


def require_same(
  what: str, value: str, difference: Callable[[str, str], str]
) -> None:
  """Compares a value of all processes with the value of process 0.

  Args:
    what: a name of the value, in the plural.
    value: the value of this process.
    difference: a function of the values of process 0 and of another process
      that describes in what they differ; "" if they count as equal.

  Raises:
    UserError: in all processes, with each difference and the processes that
      have it.
  """
  if _group is None:
    return
  first = share(what, lambda: value)
  key = _group.new_key(what)
  if value != first and (change := difference(first, value)):
    _group.client.key_value_set(f"{key}/{_group.index}", change)
  _group.barrier(what)
  indices: dict[str, list[int]] = {}
  for index, change in _by_process(_group.client, key).items():
    indices.setdefault(change, []).append(index)
  if indices:
    raise UserError(
      f"the processes differ in their {what}, from {_group.names[0]} to "
      + "; ".join(
        _group.names[some[0]]
        + (f" and {len(some) - 1} more" if len(some) > 1 else "")
        + f": {change}"
        for change, some in indices.items()
      )
    )


def changes(first: str, other: str) -> str:
  """Describes where two JSON objects differ; for `require_same`."""
  before, after = _flat(json.loads(first)), _flat(json.loads(other))
  return ", ".join(
    f"{name} is {before.get(name)} and {after.get(name)}"
    for name in sorted(before.keys() | after.keys())
    if before.get(name) != after.get(name)
  )


def shut_down() -> None:
  """Ends the connection when all processes have come so far."""
  global _group
  if _group is not None:
    _group.close()
    _group = None


def begin_to_fail(error: BaseException) -> None:
  """Prepares the end of this process; `fail` has to follow.

  A collective fails at once when a process dies, and the heartbeat limit tells
  later which. Then this function waits for the sentence with that name, with
  which the process exits, and returns only if no process has died.

  Args:
    error: the reason of the end.
  """
  if _group is None:
    return
  if _is_of_communication(error):
    seconds = _group.heartbeat_seconds + _LEAVING_SECONDS
    say(
      "a computation with the other processes has failed; waiting up to "
      f"{seconds:g} s to learn whether one of them has died"
    )
    time.sleep(seconds)
  _group.begin_to_end()


def fail(sentence: str, code: int) -> None:
  """Ends all processes, this one too; a single process returns.

  Args:
    sentence: the reason, printed by the other processes.
    code: the exit code.
  """
  if _group is not None:
    _group.publish_failure(sentence, code)
    _group.leave(code, others=_group.count - 1)


def say(text: str) -> None:
  """Writes a line on stderr, whatever `sys.stderr` is."""
  os.write(2, f"zoo: {text}\n".encode())


def _require_free_port(port: int) -> None:
  """Refuses a port on which another program listens: JAX would share it."""
  try:
    socket.create_server(("", port)).close()
  except OSError as error:
    raise UserError(
      f"process 0 (host {socket.gethostname()}) cannot open port {port}: "
      f"{os.strerror(error.errno)}; end the run that holds it, or choose "
      "another with --coordinator_address"
    ) from None


def _give_up(place: Place, name: str, seconds: int) -> None:
  """Exits, from a thread of its own, because not all processes have come."""
  reason = f"not all {place.count} processes have come"
  if place.index:
    try:
      socket.create_connection(place.address, 5).close()
    except OSError as error:
      reason = (
        f"nobody answers at {place.coordinator}, the address of process 0 "
        f"({error.strerror or error})"
      )
  say(
    f"error: {name} of {place.count}: {reason} in {seconds} s; start those "
    "that are missing, or wait longer with --process_wait"
  )
  os._exit(LOST)


def _connect(place: Place, start_seconds: int, heartbeat_seconds: int):
  """Starts JAX's coordination; returns its client."""
  import jax

  # JAX has no public interface to the key-value store, the barriers and the
  # list of live processes; Orbax uses the same client.
  from jax._src import distributed

  jax.config.update("jax_cpu_collectives_implementation", "gloo")
  # It would take SIGTERM from commands that do not train (agreement.py).
  jax.config.update("jax_enable_preemption_service", False)
  # Otherwise JAX aborts all processes when one has died, before any of them
  # can print a sentence.
  jax.config.update("jax_enable_recoverability", True)
  jax.distributed.initialize(
    place.coordinator,
    place.count,
    place.index,
    place.local_devices,
    cluster_detection_method="deactivate",
    initialization_timeout=start_seconds + _AFTER_OURS,
    heartbeat_timeout_seconds=heartbeat_seconds,
    shutdown_timeout_seconds=heartbeat_seconds,
  )
  return distributed.global_state.client


def _open_devices() -> None:
  """Opens the devices of all processes and connects them.

  All processes do so at once: JAX waits two minutes for the devices of others,
  Gloo half a minute for a connection.
  """
  import jax
  from jax.experimental import multihost_utils

  multihost_utils.sync_global_devices("connected")
  if jax.default_backend() == "cpu":
    _take_turns()


def _take_turns() -> None:
  """Makes the threads of this process wait their turn where cores are few.

  Gloo has a thread that listens. Woken by a message, it takes the core from the
  thread that is about to ask for it, and looks again and again until Linux
  takes the core back, at the next tick: on one core 4 ms for each array of a
  collective, and a step adds a hundred gradients. Threads of the class
  SCHED_BATCH (sched(7)) do not interrupt one another. Threads started later
  inherit it. Where that is not allowed, or not Linux, nothing changes.
  """
  if not hasattr(os, "SCHED_BATCH"):
    return
  for thread in os.listdir("/proc/self/task"):
    try:
      os.sched_setscheduler(int(thread), os.SCHED_BATCH, os.sched_param(0))
    except OSError:  # It has ended, or a container forbids it.
      continue


def _keep_standard_output(index: int) -> None:
  """Standard output is process 0's; Gloo writes there as well."""
  sys.stdout.flush()
  place = os.dup(1) if index == 0 else os.open(os.devnull, os.O_WRONLY)
  os.dup2(2, 1)
  sys.stdout = os.fdopen(place, "w", buffering=1, encoding="utf-8")


def _by_process(client, key: str) -> dict[int, str]:
  """Returns the values that processes have set below a key, by their index."""
  values = {
    int(name.rpartition("/")[2]): value
    for name, value in client.key_value_dir_get(f"{key}/")
  }
  return dict(sorted(values.items()))


def _is_of_communication(error: BaseException | None) -> bool:
  """Returns whether an error or one that it came from is of a collective."""
  while error is not None:
    if _OF_COMMUNICATION.search(str(error)):
      return True
    hidden = error.__suppress_context__
    error = error.__cause__ or (None if hidden else error.__context__)
  return False


def _flat(tree: Mapping[str, Any]) -> dict[str, Any]:
  flat = {}
  for name, value in tree.items():
    inside = value if isinstance(value, dict) else {"": value}
    flat |= {f"{name} {key}".rstrip(): v for key, v in inside.items()}
  return flat
