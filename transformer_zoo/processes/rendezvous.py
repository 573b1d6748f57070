"""Where the processes of a run meet: a server, a thread of process 0.

It knows who has come, who waits where and who has gone, and can so tell by name
what JAX's own coordination service ends by an abort: a process that is missing,
that has died, or that keeps the others waiting.
"""

from collections.abc import Mapping
import errno
import selectors
import socket
import threading
import time
from typing import Any

from transformer_zoo.processes.attendance import Attendance
from transformer_zoo.processes.attendance import Patience
from transformer_zoo.processes.attendance import Seat
from transformer_zoo.processes.messages import Line

_TICK_SECONDS = 0.5
_BEAT_SECONDS = 5.0
# A process that has been told to end may take so long.
_ENDING_SECONDS = 10.0


class Rendezvous(threading.Thread):
  """The server. It lives until all have left, or have been told to end."""

  def __init__(
    self,
    port: int,
    count: int,
    patience: Patience,
    hosts: tuple[str, ...] = (),
  ):
    """Listens; `start` begins to answer.

    Args:
      port: where, on all interfaces; 0 for any, see the attribute `port`.
      count: how many processes will come.
      patience: how long they are waited for.
      hosts: their machines, where those are known.

    Raises:
      OSError: the port is in use.
    """
    super().__init__(daemon=True, name="rendezvous")
    self._socket = _listen(port)
    self.port = self._socket.getsockname()[1]
    self._list = Attendance(count, patience, hosts, time.monotonic())
    self._indices: dict[Line, int] = {}
    self._service: str | None = None
    self._steps: dict[int, int] | None = None
    self._ended = False
    self._selector = selectors.DefaultSelector()
    self._selector.register(self._socket, selectors.EVENT_READ, None)

  def run(self) -> None:
    """Serves."""
    ticked = time.monotonic()
    while not self._ended:
      for key, _ in self._selector.select(_TICK_SECONDS):
        if self._ended:
          break
        if key.data is None:
          self._accept()
        else:
          self._hear(key.data)
      now = time.monotonic()
      if now - ticked > 10 * _TICK_SECONDS:  # This machine was suspended.
        self._list.forgive(now)
      if not self._ended:
        self._tick(ticked, now)
      ticked = now
    self._socket.close()
    self._selector.close()

  def _accept(self) -> None:
    connection, _ = self._socket.accept()
    connection.settimeout(_TICK_SECONDS)
    self._selector.register(connection, selectors.EVENT_READ, Line(connection))

  def _hear(self, line: Line) -> None:
    try:
      messages = line.receive()
    except TimeoutError:
      return
    if messages is None:
      self._closed(line)
      return
    for message in messages:
      if line not in self._indices:
        if not self._take_in(line, message):
          return
      elif not self._ended:
        self._handle(self._indices[line], message)

  def _closed(self, line: Line) -> None:
    self._hang_up(line)
    index = self._indices.get(line)
    if index is None:
      return
    seat = self._list.seats[index]
    if not seat.left:
      seat.left = True
      self._end(
        f"{seat.name} has died: its connection closed without a word; its own "
        "output or the log of its machine's kernel (out of memory?) tells more",
        cause=index,
      )
    elif all(seat.left for seat in self._list.seats.values()):
      self._ended = True

  def _take_in(self, line: Line, message: Mapping[str, Any]) -> bool:
    """Whether whoever says hello has a seat now."""
    if message["kind"] != "hello":
      self._hang_up(line)
      return False
    index, name = message["index"], message["name"]
    taken = self._list.seats.get(index)
    refusal = None
    if message["count"] != self._list.count:
      refusal = (
        f"--process_count is {message['count']} in {name} and "
        f"{self._list.count} in process 0"
      )
    elif taken:
      refusal = f"the index of {name} is taken, by {taken.name}"
    if refusal:
      line.send("end", sentence=refusal, code=2)
      self._hang_up(line)
      return False
    self._list.come(index, Seat(line, name, heard=time.monotonic()))
    self._indices[line] = index
    self._service = message["service"] or self._service
    if self._list.is_complete:
      self._tell("begin", names=self._list.names(), service=self._service)
    return True

  def _hang_up(self, line: Line) -> None:
    self._selector.unregister(line.connection)
    line.close()

  def _handle(self, index: int, message: Mapping[str, Any]) -> None:
    seat, now = self._list.seats[index], time.monotonic()
    seat.heard = now
    match message:
      case {"kind": "beat", "passed": passed, "place": place}:
        self._list.beat(index, passed, place, now)
      case {"kind": "meet", "place": place, "value": value}:
        groups = self._list.meet(index, place, value, now)
        if groups is not None:
          self._tell("met", place=place, groups=groups)
      case {"kind": "stop"} if self._steps is None:
        self._steps = {}
        self._tell("which_step", name=seat.name)
      case {"kind": "step", "step": step}:
        self._steps[index] = step
        if len(self._steps) == self._list.count:
          # Nobody goes on before the answer: it is a step ahead of all.
          self._tell("stop_at", step=max(self._steps.values()) + 1)
      case {"kind": "failed", "sentence": sentence, "code": code}:
        seat.left = True
        self._end(f"{seat.name}: {sentence}", cause=index, code=code)
      case {"kind": "leave"}:
        seat.left = True

  def _tick(self, before: float, now: float) -> None:
    if now // _BEAT_SECONDS != before // _BEAT_SECONDS:
      self._tell("beat")
    for note in self._list.notes(now):
      self._tell("note", text=note)
    if sentence := self._list.given_up(now):
      self._end(sentence)
    elif (index := self._list.silent(now)) is not None:
      self._end(
        f"{self._list.seats[index].name} has not been heard of for "
        f"{self._list.patience.silent:g} s: it is stopped, or its machine or "
        "its network hangs",
        cause=index,
      )

  def _end(
    self, sentence: str, *, cause: int | None = None, code: int = 1
  ) -> None:
    """Tells all to end: process 0 when the others have."""
    self._ended = True
    seats = self._list.seats
    others = [seats[i] for i in seats if i not in (0, cause)]
    for seat in others:
      seat.line.send("end", sentence=sentence, code=code)
    deadline = time.monotonic() + _ENDING_SECONDS
    for seat in others:
      _wait_for_end(seat.line, deadline)
    if 0 in seats:
      kind = "all_told" if cause == 0 else "end"
      seats[0].line.send(kind, sentence=sentence, code=code)

  def _tell(self, kind: str, **content) -> None:
    for seat in self._list.seats.values():
      if not seat.left:
        seat.line.send(kind, **content)


def _listen(port: int) -> socket.socket:
  try:
    return socket.create_server(
      ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=4096
    )
  except (OSError, ValueError) as error:  # ValueError: there is no IPv6.
    if getattr(error, "errno", None) == errno.EADDRINUSE:
      raise
    return socket.create_server(("", port), backlog=4096)


def _wait_for_end(line: Line, deadline: float) -> None:
  while (left := deadline - time.monotonic()) > 0:
    line.connection.settimeout(left)
    try:
      if line.receive() is None:
        return
    except TimeoutError:
      return
