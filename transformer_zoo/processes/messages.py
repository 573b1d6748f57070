"""Messages between the processes of a run: JSON objects, one a line, by TCP."""

import dataclasses
import json
import socket
import threading
from typing import Any

_LONGEST_LINE = 1 << 30
_SEND_SECONDS = 30.0
# A machine without power is noticed after 10 + 4 * 5 seconds.
_KEEPALIVE = {
  "TCP_KEEPIDLE": 10,
  "TCP_KEEPINTVL": 5,
  "TCP_KEEPCNT": 4,
  "TCP_USER_TIMEOUT": 30_000,  # milliseconds
}


@dataclasses.dataclass(eq=False)
class Line:
  """A connection that carries messages, sent by any thread, received by one.

  The kernel closes it when either process dies, and its keepalive when a
  machine does.

  Attributes:
    connection: a connected socket.
  """

  connection: socket.socket
  _rest: bytearray = dataclasses.field(default_factory=bytearray)
  _sending: threading.Lock = dataclasses.field(default_factory=threading.Lock)

  def __post_init__(self):
    # A socket's time to wait is that of both directions.
    self._writer = self.connection.dup()
    self._writer.settimeout(_SEND_SECONDS)
    self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
      if hasattr(socket, name):  # Linux has them all.
        option = getattr(socket, name)
        self.connection.setsockopt(socket.IPPROTO_TCP, option, value)

  def send(self, kind: str, **content) -> bool:
    """Sends a message; whether somebody may get it."""
    text = json.dumps({"kind": kind, **content})
    try:
      with self._sending:
        self._writer.sendall(text.encode() + b"\n")
    except OSError:
      return False
    return True

  def receive(self) -> list[dict[str, Any]] | None:
    """Returns the messages that have come; None at the end of the line.

    Raises:
      TimeoutError: nothing came in the time that the connection has.
    """
    try:
      some = self.connection.recv(1 << 20)
    except TimeoutError:
      raise
    except OSError:
      return None
    if not some:
      return None
    self._rest += some
    if b"\n" not in some:
      return [] if len(self._rest) < _LONGEST_LINE else None
    *lines, rest = bytes(self._rest).split(b"\n")
    self._rest = bytearray(rest)
    try:
      messages = [json.loads(line) for line in lines]
    except ValueError:
      return None  # A stranger's.
    if all(isinstance(m, dict) and "kind" in m for m in messages):
      return messages
    return None

  def close(self) -> None:
    """Hangs up."""
    self._writer.close()
    self.connection.close()
