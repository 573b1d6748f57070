"""One process among several: its line to the rendezvous, and a thread on it.

The thread tells how far the process is and ends it when another one has died,
whatever the program hangs in.
"""

from collections.abc import Callable
import contextlib
import os
import socket
import sys
import threading
import time

from transformer_zoo.errors import UserError
from transformer_zoo.processes.attendance import Patience
from transformer_zoo.processes.messages import Line

DIED = 1
_BEAT_SECONDS = 1.0
_RETRY_SECONDS = 0.2
# Process 0 ends when the others have: they may take longer to be told.
_TOLD_SECONDS = 15.0


class Member(threading.Thread):
  """The connection of this process."""

  def __init__(
    self,
    *,
    address: str,
    index: int,
    count: int,
    patience: Patience,
    service: str | None = None,
    leave: Callable[[int], None] | None = None,
  ):
    """Connects to the rendezvous.

    Args:
      address: host:port of the rendezvous.
      index: of this process.
      count: of processes.
      patience: how long to wait.
      service: what process 0 tells all with the beginning.
      leave: ends the process with an exit code.

    Raises:
      SystemExit: nobody answers there in time, as a sentence on stderr says.
    """
    super().__init__(daemon=True, name="member")
    self.name_here = f"process {index} (host {socket.gethostname()})"
    self.index, self._count, self._patience = index, count, patience
    self._leave = leave or leave_at_once
    self._line = Line(self._connect(address, patience.come))
    self._line.send(
      "hello",
      index=index,
      count=count,
      name=f"process {index} (host {socket.gethostname()}, pid {os.getpid()})",
      service=service,
    )
    self._news = threading.Condition()
    self._met: dict[str, list] = {}
    self._meetings = 0
    self._passed, self._place = 0, "the start"
    self._step = 0
    self._asked_for_step = False
    self._stop_step: int | None = None
    self._all_told = threading.Event()
    self._leaving = self._failing = self._over = False
    self.names: list[str] = []
    self.service: str | None = None

  def begin(self) -> None:
    """Waits until all processes have come; then the thread runs.

    Raises:
      SystemExit: not all have come in time, as a sentence on stderr says.
      UserError: two have the same index, or tell different counts.
    """
    deadline = time.monotonic() + self._patience.come + _TOLD_SECONDS
    while not self.names:
      with contextlib.suppress(TimeoutError):
        for message in self._receive(deadline):
          if message["kind"] != "end":
            self._handle(message)
          elif message["code"] == DIED:
            raise absent(message["sentence"])
          else:
            raise UserError(message["sentence"])
    self._line.connection.settimeout(_BEAT_SECONDS)
    self.start()

  def _receive(self, deadline: float) -> list[dict]:
    self._line.connection.settimeout(max(deadline - time.monotonic(), 0.01))
    messages = self._line.receive()
    if messages is None or time.monotonic() > deadline:
      raise absent(
        f"{self.name_here} has lost process 0 before all {self._count} had come"
      )
    return messages

  def run(self) -> None:
    """Tells and listens, until the process leaves."""
    heard = beat = time.monotonic()
    while not self._over:
      messages = []
      with contextlib.suppress(TimeoutError):
        messages = self._line.receive()
      now = time.monotonic()
      if messages is None:
        if not (self._leaving or self._failing):
          self._end(
            f"{self.names[0]} has died: its connection closed without a word; "
            "its own output or the log of its machine's kernel tells more",
            DIED,
          )
        return
      if messages or now - beat > 10 * _BEAT_SECONDS:
        heard = now  # In the second case this machine was suspended.
      elif now - heard > self._patience.silent and not self._leaving:
        self._end(
          f"{self.names[0]} has not been heard of for "
          f"{self._patience.silent:g} s",
          DIED,
        )
      for message in messages:
        self._handle(message)
      if now - beat >= _BEAT_SECONDS:
        beat = now
        self._line.send("beat", passed=self._passed, place=self._place)

  def _handle(self, message: dict) -> None:
    match message:
      case {"kind": "begin", "names": names, "service": service}:
        self.names, self.service = names, service
      case {"kind": "note", "text": text}:
        say(text)
      case {"kind": "met", "place": place, "groups": groups}:
        with self._news:
          self._met[place] = groups
          self._news.notify_all()
      case {"kind": "which_step"}:
        with self._news:
          self._asked_for_step = True
          self._line.send("step", step=self._step)
      case {"kind": "stop_at", "step": step}:
        with self._news:
          self._stop_step = step
          self._news.notify_all()
      case {"kind": "all_told"}:
        self._all_told.set()
      case {"kind": "end", "sentence": sentence, "code": code}:
        with self._news:
          if not (self._leaving or self._failing):
            self._end(sentence, code)

  def _end(self, sentence: str, code: int) -> None:
    self._over = True
    say(f"error: {sentence}")
    self._leave(code)

  def at(self, place: str) -> None:
    """Notes where in its program the process is; costs no message."""
    self._passed, self._place = self._passed + 1, place

  def meet(self, place: str, value: str = "") -> list[tuple[str, list[int]]]:
    """Waits for all processes at a place of the program.

    Args:
      place: the same in all of them, in words.
      value: what this one brings.

    Returns:
      Each different value with the indices of those who brought it, that of
      process 0 first.
    """
    self._meetings += 1
    key = f"{place} (meeting {self._meetings})"
    self._line.send("meet", place=key, value=value)
    with self._news:
      self._news.wait_for(lambda: key in self._met)
      return [tuple(group) for group in self._met.pop(key)]

  def ask_to_stop(self) -> None:
    """Asks that all processes stop at the same step."""
    self._line.send("stop")

  def is_stopping(self, step: int) -> bool:
    """Whether all processes stop at this step.

    Args:
      step: that all of them have made or will make; ascending.
    """
    with self._news:
      # The step that was told is not left before the answer.
      self._news.wait_for(
        lambda: not self._asked_for_step or self._stop_step is not None
      )
      self._step = step
      return self._stop_step is not None and step >= self._stop_step

  def will_fail(self) -> None:
    """From now on this process says itself why it ends."""
    with self._news:
      self._failing = True

  def fail(self, sentence: str, code: int) -> None:
    """Tells all to end; returns when process 0 may end as well."""
    self.will_fail()
    self._line.send("failed", sentence=sentence, code=code)
    if self.index == 0:
      self._all_told.wait(_TOLD_SECONDS)

  def bid_farewell(self) -> None:
    """Tells that the process ends and nothing is wrong."""
    self._leaving = True
    self._line.send("leave")

  def _connect(self, address: str, seconds: float) -> socket.socket:
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + seconds
    told = time.monotonic() + min(10.0, seconds / 2)
    while True:
      try:
        return socket.create_connection((host.strip("[]"), int(port)), 5)
      except OSError as error:
        reason = error.strerror or str(error)
      now = time.monotonic()
      if now > deadline:
        raise absent(
          f"{self.name_here} of {self._count} finds no process 0: nobody "
          f"answers at {address} in {seconds:g} s ({reason}); start process 0 "
          "there, or wait longer with --process_wait"
        )
      if now > told:
        told = now + 60
        say(
          f"{self.name_here} of {self._count} waits for process 0 at {address} "
          f"({reason}), {deadline - now:.0f} s more"
        )
      time.sleep(_RETRY_SECONDS)


def say(text: str) -> None:
  """Writes a line on stderr, whoever holds `sys.stderr`."""
  os.write(2, f"zoo: {text}\n".encode())


def absent(sentence: str) -> SystemExit:
  """Says that a process is not there, which is no bad input: try it again."""
  say(f"error: {sentence}")
  return SystemExit(DIED)


def leave_at_once(code: int) -> None:
  """Ends the process without waiting for threads that wait for others."""
  for stream in (sys.stdout, sys.stderr):
    flush = threading.Thread(target=stream.flush, daemon=True)
    flush.start()
    flush.join(1.0)  # The program may hold it.
  os._exit(code)
