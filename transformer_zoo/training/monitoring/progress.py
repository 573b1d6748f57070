"""The progress of one run on the terminal."""

from collections.abc import Callable, Iterator
import contextlib
import time

import rich.console
import rich.progress
import rich.table
import rich.text

from transformer_zoo.training.monitoring.time_left import TimeLeft


def duration(seconds: float) -> str:
  """Returns a duration in words: `48 s`, `3 min 05 s`, `2 h 10 min`."""
  seconds = round(seconds)
  if seconds < 60:
    return f"{seconds} s"
  if seconds < 3600:
    return f"{seconds // 60} min {seconds % 60:02d} s"
  return f"{seconds // 3600} h {seconds % 3600 // 60:02d} min"


class Progress:
  """Shows step, loss, tokens per second and the time left.

  On a terminal it is one line that is redrawn. Elsewhere (a log file, a pipe)
  it is a plain line every few seconds, at every multiple of `every_steps` and
  at the last step. The time left counts evaluations and the last checkpoint;
  evaluations of which none is over yet are named beside it.
  """

  def __init__(
    self,
    *,
    first_step: int,
    last_step: int,
    name: str = "training",
    unit: str = "step",
    every_seconds: float = 10.0,
    every_steps: int | None = None,
    console: rich.console.Console | None = None,
    clock: Callable[[], float] = time.monotonic,
    **time_left,
  ):
    """Opens the display.

    Args:
      first_step: The step that the run starts (or resumes) from.
      last_step: The step at which it ends.
      name: The beginning of the line.
      unit: The name of what is counted.
      every_seconds: The number of seconds between two plain lines.
      every_steps: The number of steps after which a plain line comes in any
        case; None for no such number.
      console: The console to write to; standard output by default.
      clock: A function that returns seconds since any moment.
      **time_left: Arguments of `TimeLeft`: the evaluations to come, the work of
        steps, the time that a checkpoint takes.
    """
    self._first_step = first_step
    self._last_step = last_step
    self._name = name
    self._unit = unit
    self._every_seconds = every_seconds
    self._every_steps = every_steps
    self._console = console or rich.console.Console(highlight=False)
    self._clock = clock
    self._time_left = TimeLeft(last_step, clock=clock, **time_left)
    self._until = None  # Seconds on the clock.
    self._done = False
    self._last_line = None  # Seconds on the clock.
    self._last_shown = None  # A step.
    self._measured = "compiling"
    self._bar = None
    if self._console.is_terminal:
      self._bar = rich.progress.Progress(
        rich.progress.TextColumn("{task.description}", markup=False),
        rich.progress.BarColumn(),
        _Text(self._text),
        console=self._console,
      )
      self._task = self._bar.add_task(
        name, total=max(last_step - first_step, 1)
      )
      self._bar.start()

  def update(
    self,
    step: int,
    *,
    loss: float | None = None,
    tokens_per_second: float | None = None,
    flops_per_second: float | None = None,
    utilization: float | None = None,
  ) -> None:
    """Shows that `step` is done.

    Args:
      step: The number of steps done, counted as `first_step` is.
      loss: The loss of that step, None if it is unknown.
      tokens_per_second: The speed since the last measurement, None if it is
        unknown.
      flops_per_second: The FLOPs of the model per second on all devices, None
        if they are unknown.
      utilization: The share of the peak rate of the devices, shown in place of
        FLOP/s; None if the peak rate is unknown.
    """
    self._time_left.update(step)
    self._measured = "  ".join(
      [
        f"{self._unit} {step}/{self._last_step}",
        *_measured(loss, tokens_per_second, flops_per_second, utilization),
      ]
    )
    now = self._expect()
    if self._bar is not None:
      self._bar.update(self._task, completed=step - self._first_step)
      return
    by_time = (
      self._last_line is None or now - self._last_line >= self._every_seconds
    )
    by_steps = self._every_steps and step % self._every_steps == 0
    if step != self._last_shown and (
      by_time or by_steps or step >= self._last_step
    ):
      self._last_line, self._last_shown = now, step
      self._print(f"{self._name}: {self._text()}")

  @contextlib.contextmanager
  def evaluation(self) -> Iterator[None]:
    """Goes around an evaluation, which the time left is to count."""
    with self._time_left.evaluation():
      yield
    self._expect()

  def done(self) -> None:
    """Shows no time left any more: the last checkpoint is complete."""
    self._done = True

  def note(self, text: str) -> None:
    """Prints a line of its own, above the moving one on a terminal."""
    self._print(text)

  def close(self) -> None:
    """Ends the display; closing twice does nothing."""
    if self._bar is not None:
      self._bar.stop()

  def __enter__(self) -> "Progress":
    return self

  def __exit__(self, *exception) -> None:
    self.close()

  def _print(self, text: str) -> None:
    # Brackets in a path or a shape are not markup; a log line never wraps.
    self._console.print(text, markup=False, highlight=False, soft_wrap=True)

  def _expect(self) -> float:
    """Notes when the run is expected to end; returns the time."""
    now, left = self._clock(), self._time_left.seconds()
    self._until = None if left is None else now + left
    return now

  def _text(self) -> str:
    """The text behind the name, whose time left runs down."""
    if self._done or self._until is None:
      return self._measured
    left = []
    seconds = max(self._until - self._clock(), 0.0)
    untimed = self._time_left.untimed_evaluations
    if round(seconds) or not untimed:
      left.append(duration(seconds))
    if untimed:
      left.append(f"{untimed} evaluation{'s' if untimed > 1 else ''}")
    return f"{self._measured}  {' and '.join(left)} left"


class _Text(rich.progress.ProgressColumn):
  """A column with the present result of a function."""

  def __init__(self, text: Callable[[], str]):
    super().__init__(rich.table.Column(no_wrap=True))
    self._text = text

  def render(self, task: rich.progress.Task) -> rich.text.Text:
    return rich.text.Text(self._text())


def _measured(loss, tokens_per_second, flops_per_second, utilization):
  """Texts of what is known."""
  if loss is not None:
    yield f"loss {loss:.3f}"
  if tokens_per_second is not None:
    yield f"{tokens_per_second:,.0f} tokens/s"
  if utilization is not None:
    yield f"{100 * utilization:.1f} % of peak"
  elif flops_per_second is not None:
    yield f"{quantity(flops_per_second)}FLOP/s"


def quantity(number: float) -> str:
  """A number with the prefix of its unit: `1.2 M`, `340 G`."""
  for prefix in ("", "k", "M", "G", "T", "P"):
    if abs(number) < 1000 or prefix == "P":
      return f"{number:.3g} {prefix}"
    number /= 1000
