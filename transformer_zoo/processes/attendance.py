"""Who of the processes has come, who waits where, and who is behind.

No sockets: `rendezvous.py` tells it what happens and when.
"""

from collections.abc import Iterable, Iterator
import dataclasses

from transformer_zoo.errors import UserError
from transformer_zoo.processes.messages import Line


@dataclasses.dataclass(frozen=True)
class Patience:
  """Seconds to wait.

  Attributes:
    come: for all processes to come, at the start.
    late: before those that keep the others waiting are named.
    silent: before a process that is connected and says nothing counts as dead.
  """

  come: float = 300.0
  late: float = 60.0
  silent: float = 100.0

  def __post_init__(self):
    if min(self.come, self.late, self.silent) <= 0:
      raise UserError(
        f"seconds to wait must be positive, not {self.come:g}, {self.late:g} "
        f"and {self.silent:g}"
      )


@dataclasses.dataclass(eq=False)
class Seat:
  """A process that has come.

  Attributes:
    line: to it.
    name: for users: its index and its machine.
    heard: when it last said something.
    passed: how many places of its program it has passed.
    place: the last of these, in words.
    left: whether it has said that it ends.
  """

  line: Line
  name: str
  heard: float
  passed: int = 0
  place: str = "the start"
  left: bool = False


@dataclasses.dataclass
class _Meeting:
  """Those who have come to one place of the program.

  Attributes:
    warn_at: when those are named who have not.
    waited: seconds since the first came, by then.
    values: what each brought.
  """

  warn_at: float
  waited: float
  values: dict[int, str] = dataclasses.field(default_factory=dict)


class Attendance:
  """The list of processes."""

  def __init__(
    self, count: int, patience: Patience, hosts: tuple[str, ...], now: float
  ):
    """Nobody has come.

    Args:
      count: how many will.
      patience: how long they are waited for.
      hosts: their machines, where those are known.
      now: seconds since any moment.
    """
    self.seats: dict[int, Seat] = {}
    self.count = count
    self.patience = patience
    self._hosts = hosts
    self._meetings: dict[str, _Meeting] = {}
    self._opened = self._moved = now
    self._told_missing = now + min(10.0, patience.come / 2)
    self._behind = patience.late

  @property
  def is_complete(self) -> bool:
    """Whether all have come."""
    return len(self.seats) == self.count

  def come(self, index: int, seat: Seat) -> None:
    """Takes a process in."""
    self.seats[index] = seat
    self._moved = seat.heard

  def names(self) -> list[str]:
    """The names of those who have come."""
    return [self.seats[index].name for index in sorted(self.seats)]

  def beat(self, index: int, passed: int, place: str, now: float) -> None:
    """Notes how far a process is."""
    seat = self.seats[index]
    if passed != seat.passed:
      seat.passed, seat.place = passed, place
      self._moved, self._behind = now, self.patience.late

  def meet(
    self, index: int, place: str, value: str, now: float
  ) -> list[tuple[str, list[int]]] | None:
    """Notes that a process has come to a place of the program.

    Returns:
      When all have: each different value with those who brought it, that of
      process 0 first. None before.
    """
    late = self.patience.late
    meeting = self._meetings.setdefault(place, _Meeting(now + late, late))
    meeting.values[index] = value
    if len(meeting.values) < self.count:
      return None
    del self._meetings[place]
    self._moved = now
    groups: dict[str, list[int]] = {}
    for process in sorted(meeting.values):
      groups.setdefault(meeting.values[process], []).append(process)
    return list(groups.items())

  def given_up(self, now: float) -> str | None:
    """A sentence on who has not come in time."""
    if self.is_complete or now - self._opened <= self.patience.come:
      return None
    return (
      f"{self._heads()} in {self.patience.come:g} s: "
      f"{', '.join(self.names())}; missing: {self._missing()}; start them too, "
      "or wait longer with --process_wait"
    )

  def silent(self, now: float) -> int | None:
    """A process that has not been heard of for too long."""
    for index, seat in self.seats.items():
      if not seat.left and now - seat.heard > self.patience.silent:
        return index
    return None

  def forgive(self, now: float) -> None:
    """Counts silence and waiting anew: nobody could be heard."""
    for seat in self.seats.values():
      seat.heard = now
    self._moved = now

  def notes(self, now: float) -> Iterator[str]:
    """Yields sentences on who keeps the others waiting, each in its time."""
    if not self.is_complete:
      if now > self._told_missing:
        self._told_missing = now + 60
        left = self.patience.come - (now - self._opened)
        yield (
          f"{self._heads()}; missing: {self._missing()}; waiting {left:.0f} s "
          "more"
        )
      return
    for place, meeting in self._meetings.items():
      if now > meeting.warn_at:
        late = self.seats.keys() - meeting.values.keys()
        yield (
          f"waiting for {meeting.waited:g} s at {place!r}: {self._where(late)}"
        )
        meeting.warn_at += meeting.waited
        meeting.waited *= 2
    yield from self._laggards(now)

  def _laggards(self, now: float) -> Iterator[str]:
    """Those that a collective of the devices waits for."""
    passed = {index: seat.passed for index, seat in self.seats.items()}
    least, most = min(passed.values()), max(passed.values())
    if self._meetings or least == most or now - self._moved <= self._behind:
      return
    behind = [index for index, number in passed.items() if number == least]
    ahead = max(self.seats.values(), key=lambda seat: seat.passed)
    yield (
      f"nothing moves for {self._behind:g} s: {self._where(behind)}; the "
      f"furthest process is at {ahead.place!r}"
    )
    self._behind *= 2

  def _where(self, indices: Iterable[int]) -> str:
    return ", ".join(
      f"{self.seats[i].name} is at {self.seats[i].place!r}"
      for i in sorted(indices)
    )

  def _heads(self) -> str:
    return f"{len(self.seats)} of {self.count} processes have come"

  def _missing(self) -> str:
    numbers = [i for i in range(self.count) if i not in self.seats]
    if self._hosts:
      return ", ".join(f"{i} (host {self._hosts[i]})" for i in numbers)
    return in_ranges(numbers)


def in_ranges(numbers: Iterable[int]) -> str:
  """Writes ascending numbers: `1, 3 to 7`."""
  ranges: list[list[int]] = []
  for number in numbers:
    if ranges and ranges[-1][1] == number - 1:
      ranges[-1][1] = number
    else:
      ranges.append([number, number])
  return ", ".join(
    str(first) if first == last else f"{first} to {last}"
    for first, last in ranges
  )
