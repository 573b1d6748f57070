"""The progress of one run on the terminal."""

from collections.abc import Callable
import time

import rich.console
import rich.progress


def duration(seconds: float) -> str:
  """Returns a length of time in words: `48 s`, `3 min 05 s`, `2 h 10 min`."""
  seconds = round(seconds)
  if seconds < 60:
    return f"{seconds} s"
  if seconds < 3600:
    return f"{seconds // 60} min {seconds % 60:02d} s"
  return f"{seconds // 3600} h {seconds % 3600 // 60:02d} min"


class Progress:
  """Shows step, loss, tokens per second and the time left.

  On a terminal it is one line that renews itself. Elsewhere (a log file, a
  pipe) it is a plain line every few seconds, and one at the last step.
  """

  def __init__(
    self,
    *,
    first_step: int,
    last_step: int,
    name: str = "training",
    unit: str = "step",
    every_seconds: float = 10.0,
    console: rich.console.Console | None = None,
    clock: Callable[[], float] = time.monotonic,
  ):
    """Opens the display.

    Args:
      first_step: the step that the run starts (or resumes) from.
      last_step: the step at which it ends.
      name: what stands at the beginning of the line.
      unit: what is counted.
      every_seconds: seconds between two plain lines.
      console: where to write; standard output by default.
      clock: seconds since any moment.
    """
    self._first_step = first_step
    self._last_step = last_step
    self._name = name
    self._unit = unit
    self._every_seconds = every_seconds
    self._console = console or rich.console.Console(highlight=False)
    self._clock = clock
    self._origin = None  # (seconds, step) of the first update.
    self._last_line = None
    self._bar = None
    if self._console.is_terminal:
      self._bar = rich.progress.Progress(
        rich.progress.TextColumn("{task.description}", markup=False),
        rich.progress.BarColumn(),
        rich.progress.TextColumn("{task.fields[text]}", markup=False),
        console=self._console,
      )
      self._task = self._bar.add_task(
        name, total=max(last_step - first_step, 1), text="compiling"
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
      step: the number of steps done, counted as `first_step` is.
      loss: the loss of that step, when it is known.
      tokens_per_second: the speed since the last measurement, when known.
      flops_per_second: the same, of what the model needs; all devices.
      utilization: the share of what the devices can do at most, where known;
        it is shown in place of FLOP/s.
    """
    now = self._clock()
    if self._origin is None:
      # Time left is extrapolated from here: the first step holds compilation.
      self._origin = (now, step)
    text = "  ".join(
      [
        f"{self._unit} {step}/{self._last_step}",
        *_measured(loss, tokens_per_second, flops_per_second, utilization),
        *self._left(step, now),
      ]
    )
    if self._bar is not None:
      self._bar.update(self._task, completed=step - self._first_step, text=text)
      return
    due = (
      self._last_line is None or now - self._last_line >= self._every_seconds
    )
    if due or step >= self._last_step:
      self._last_line = now
      self._print(f"{self._name}: {text}")

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

  def _left(self, step, now) -> list[str]:
    seconds, origin = self._origin
    if step <= origin:
      return []
    left = (now - seconds) / (step - origin) * (self._last_step - step)
    return [f"{duration(max(left, 0.0))} left"]


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
