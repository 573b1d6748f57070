"""Several processes as one program: start, meeting points, a common end.

JAX connects the devices (`jax.distributed`); the rendezvous of the processes
(rendezvous.py) says who is missing, who has died and who is late. Alone, a
process pays nothing: no function here does anything then.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
import itertools
import json
import os
import socket
import sys
from typing import Any, TypeVar

from transformer_zoo.errors import UserError
from transformer_zoo.processes import member as member_lib
from transformer_zoo.processes import scheduling
from transformer_zoo.processes.attendance import Patience
from transformer_zoo.processes.clusters import Place
from transformer_zoo.processes.rendezvous import Rendezvous

Item = TypeVar("Item")

DEFAULT_PATIENCE = Patience()
# JAX's own heartbeats end the processes by an abort, so they are the last.
_HEARTBEATS_AFTER = 5

_member: member_lib.Member | None = None


def initialize(place: Place, patience: Patience = DEFAULT_PATIENCE) -> None:
  """Connects this process with the others, before JAX knows any device.

  Standard output stays with process 0, that of C++ libraries goes to stderr.
  Then all have devices and a connection of them: JAX waits two minutes for the
  devices of others, Gloo half a minute for a connection.

  Args:
    place: which one this is.
    patience: how long to wait for others.

  Raises:
    SystemExit: not all come in time, as a sentence on stderr says.
    UserError: two have the same index, they tell different counts, the port
      of process 0 is in use, or they have other versions.
  """
  global _member
  server = _open_rendezvous(place, patience) if place.index == 0 else None
  host, _, port = place.coordinator.rpartition(":")
  connected = member_lib.Member(
    address=f"{host}:{server.port if server else port}",
    index=place.index,
    count=place.count,
    patience=patience,
    service=f"{host}:{_free_port()}" if server else None,
  )
  connected.begin()
  _member = connected
  _keep_standard_output(place.index)
  member_lib.say(
    f"{connected.names[place.index]} of {place.count}, by {place.source}; "
    f"process 0 is at {place.coordinator}"
  )
  from transformer_zoo import environment

  software = json.dumps(environment.describe_software())
  require_same("versions", software, changes)
  _connect_devices(place, connected.service, patience)


def is_initialized() -> bool:
  """Whether this process is one of several."""
  return _member is not None


def is_first() -> bool:
  """Whether this process writes what is written once."""
  return _member is None or _member.index == 0


def at(place: str) -> None:
  """Notes where in its program the process is, for who asks why it hangs.

  Args:
    place: the same sequence in all processes, in words.
  """
  if _member is not None:
    _member.at(place)


def meet(place: str) -> None:
  """Waits for all processes; who is late is named on stderr."""
  if _member is not None:
    _member.meet(place)


def share(place: str, make: Callable[[], Any]) -> Any:
  """What process 0 makes, in all processes.

  Args:
    place: what it is, in words.
    make: makes a value for JSON; called in process 0 alone.
  """
  if _member is None:
    return make()
  text = json.dumps(make()) if _member.index == 0 else ""
  groups = _member.meet(place, text)
  return json.loads(groups[0][0])


def shared(place: str, items: Iterable[Item], at_a_time: int) -> Iterator[Item]:
  """Yields in all processes what process 0 gets from an iterable.

  Args:
    place: what they are, in words.
    items: values for JSON; looked at in process 0 alone.
    at_a_time: how many are taken before they are handed on.
  """
  if _member is None:
    yield from items
    return
  items = iter(items)
  while some := share(place, lambda: list(itertools.islice(items, at_a_time))):
    yield from some


def require_same(
  what: str, value: str, difference: Callable[[str, str], str]
) -> None:
  """Refuses processes that differ.

  Args:
    what: the value is, in words.
    value: of this process.
    difference: (value of process 0, another) -> what differs, "" for nothing.

  Raises:
    UserError: in all processes, with the differences and who has them.
  """
  if _member is None:
    return
  (first, _), *others = _member.meet(what, value)
  told = [
    f"{_member.names[indices[0]]}"
    + (f" and {len(indices) - 1} more" if len(indices) > 1 else "")
    + f": {change}"
    for other, indices in others
    if (change := difference(first, other))
  ]
  if told:
    raise UserError(
      f"the processes differ in their {what}, from {_member.names[0]} to "
      + "; ".join(told)
    )


def changes(first: str, other: str) -> str:
  """Names where two JSON objects differ; for `require_same`."""
  before, after = _flat(json.loads(first)), _flat(json.loads(other))
  return ", ".join(
    f"{name} is {before.get(name)} and {after.get(name)}"
    for name in sorted(before.keys() | after.keys())
    if before.get(name) != after.get(name)
  )


def ask_to_stop() -> None:
  """Asks that all processes stop at the same step; see `is_stopping`."""
  if _member is not None:
    _member.ask_to_stop()


def is_stopping(step: int) -> bool:
  """Whether all processes stop at this step: one was asked to.

  Call it at every step in every process: it costs no message.

  Args:
    step: ascending, the same numbers in all processes.
  """
  return _member is not None and _member.is_stopping(step)


def shut_down() -> None:
  """Ends the connection when all processes have come so far."""
  global _member
  if _member is None:
    return
  import jax

  meet("the end")
  _member.bid_farewell()
  jax.distributed.shutdown()
  _member = None


def fail(sentence: str, code: int) -> None:
  """Ends all processes, this one too; alone, it does nothing.

  Args:
    sentence: what is wrong here, for the others.
    code: the exit code.
  """
  if _member is not None:
    _member.fail(sentence, code)
    member_lib.leave_at_once(code)


def await_verdict(seconds: float) -> None:
  """Gives the thread time to learn that another process has died, and to end.

  All that the program sees is that a collective has failed. Later news does not
  come between what the program says of its own end.
  """
  if _member is not None:
    _member.join(seconds)
    _member.will_fail()


def _open_rendezvous(place: Place, patience: Patience) -> Rendezvous:
  port = int(place.coordinator.rpartition(":")[2])
  try:
    server = Rendezvous(port, place.count, patience, place.hosts)
  except OSError as error:
    raise UserError(
      f"process 0 (host {socket.gethostname()}) cannot open port {port}: "
      f"{os.strerror(error.errno)}; end the run that holds it, or choose "
      "another with --coordinator_address"
    ) from None
  server.start()
  return server


def _free_port() -> int:
  with socket.socket() as probe:
    probe.bind(("", 0))
    return probe.getsockname()[1]


def _connect_devices(place: Place, service: str, patience: Patience) -> None:
  import jax
  from jax.experimental import multihost_utils

  jax.config.update("jax_cpu_collectives_implementation", "gloo")
  # It would take SIGTERM; `is_stopping` agrees on a step instead.
  jax.config.update("jax_enable_preemption_service", False)
  jax.distributed.initialize(
    service,
    place.count,
    place.index,
    place.local_devices,
    cluster_detection_method="deactivate",
    initialization_timeout=int(max(patience.come, 60)),
    heartbeat_timeout_seconds=int(_HEARTBEATS_AFTER * patience.silent) + 1,
    shutdown_timeout_seconds=int(patience.silent) + 1,
  )
  multihost_utils.sync_global_devices("connected")
  if jax.default_backend() == "cpu":
    scheduling.take_turns()


def _keep_standard_output(index: int) -> None:
  """Standard output is process 0's; Gloo writes there as well."""
  sys.stdout.flush()
  place = os.dup(1) if index == 0 else os.open(os.devnull, os.O_WRONLY)
  os.dup2(2, 1)
  sys.stdout = os.fdopen(place, "w", buffering=1, encoding="utf-8")


def _flat(tree: Mapping[str, Any]) -> dict[str, Any]:
  flat = {}
  for name, value in tree.items():
    inside = value if isinstance(value, dict) else {"": value}
    flat |= {f"{name} {key}".rstrip(): v for key, v in inside.items()}
  return flat
