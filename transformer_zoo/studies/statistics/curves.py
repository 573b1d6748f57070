"""Learning curves of a study: what runs recorded, against what it cost.

A curve is drawn against steps, tokens, FLOPs or time of its own run: what the
run that it started from has cost is not counted again.
"""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import math

import numpy as np

from transformer_zoo.studies.execution.results import RunResult
from transformer_zoo.studies.execution.results import StudyResults
from transformer_zoo.studies.report.chart import Chart
from transformer_zoo.studies.statistics.scores import column_score
from transformer_zoo.training.monitoring import recorder

LOSS = "train/loss"
STEPS, TOKENS, FLOPS, MINUTES = AXES = ("steps", "tokens", "FLOPs", "minutes")

_VALIDATION = "validation/"
# What validation records beside the losses and the scores.
_NO_SCORES = ("token_accuracy", "invalid")
_MOST_POINTS = 120


@dataclasses.dataclass(frozen=True)
class Curve:
  """Values that one run recorded.

  Attributes:
    steps: ascending, [points].
    values: [points].
    costs: by axis, what the run had cost by then, [points]; an axis of which
      nothing is known is not among them.
  """

  steps: np.ndarray
  values: np.ndarray
  costs: Mapping[str, np.ndarray]


# {row: {seed: curve}}
Curves = dict[str, dict[int, Curve]]


def read(study: StudyResults, phase: str, group: str) -> dict[str, Curves]:
  """Reads the curves of one phase, or of one group's.

  Args:
    study: the study.
    phase: the name of the phase.
    group: the name of the group, "" where the phase is not per group.

  Returns:
    By title: the loss of training, each column's score on the validation
    split, the validation losses and metrics of tasks. A run that several rows
    share appears under the first of them.
  """
  columns = [c for c in study.columns if group in ("", c.of_group)]
  found = {LOSS: {}} | {column.name: {} for column in columns}
  for run in study.runs:
    if (run.phase, run.group) != (phase, group) or run.shared:
      continue
    lines = recorder.read_lines(run.folder / recorder.METRICS_FILE)
    costs = _costs(run, lines)
    for title, points in _points(lines, columns).items():
      if run.part and title == LOSS:
        title = f"{run.part}: {title}"
      steps = np.array(sorted(points))
      curve = Curve(
        steps=steps,
        values=np.array([points[step] for step in steps]),
        costs={axis: cost(steps) for axis, cost in costs.items()},
      )
      found.setdefault(title, {}).setdefault(run.row, {})[run.seed] = curve
  return {title: curves for title, curves in found.items() if curves}


def panel(
  title: str, curves: Curves, rows: Sequence[str], axis: str = STEPS
) -> str:
  """Draws the mean over seeds of each row and the range that they span.

  Args:
    title: of the panel.
    curves: by row and seed.
    rows: of the study, for their colours.
    axis: one of `AXES`.

  Returns:
    An SVG element; "" where no run knows that axis.
  """
  curves = {
    row: known
    for row, by_seed in curves.items()
    if (known := [c for c in by_seed.values() if axis in c.costs])
  }
  if not curves:
    return ""
  drawn = Chart(title, axis)
  for row, by_seed in curves.items():
    place = rows.index(row)
    x, values = _together(by_seed, axis)
    if len(by_seed) > 1 and len(x) > 1:
      drawn.band(x, values.min(0), values.max(0), place)
    drawn.line(x, values.mean(0), place)
  return drawn.svg()


def _points(lines, columns) -> dict[str, dict[int, float]]:
  """`{title: {step: value}}` of what a run recorded."""
  points = {}
  for line in lines:
    scores = {}
    for name, value in line.items():
      if not math.isfinite(value):
        continue  # A loss that has diverged has no place on an axis.
      if name == LOSS:
        points.setdefault(LOSS, {})[line["step"]] = value
      elif name.startswith(_VALIDATION):
        title = name.removeprefix(_VALIDATION)
        task, _, metric = title.rpartition("/")
        if metric in _NO_SCORES:
          continue
        points.setdefault(title, {})[line["step"]] = value
        if metric != "loss":
          scores.setdefault(task, {})[metric] = value
    for column in columns:
      value = column_score(column, scores)
      if value is not None:
        points.setdefault(column.name, {})[line["step"]] = value
  return points


def _costs(run: RunResult, lines) -> dict[str, Callable]:
  """By axis, what maps steps to what the run had cost by then."""
  costs = {STEPS: lambda steps: steps}
  counted = {
    line["step"]: line["train/tokens"]
    for line in lines
    if "train/tokens" in line
  }
  if counted:
    costs[TOKENS] = _interpolation(counted)
  timed, last = {}, 0
  for line in recorder.read_lines(run.folder / recorder.TIMING_FILE):
    if "timing/seconds_per_step" in line:
      steps = line["step"] - last
      timed[line["step"]] = line["timing/seconds_per_step"] * steps / 60
      last = line["step"]
  if timed:
    costs[MINUTES] = _interpolation(timed)
  budget = (run.result or {}).get("budget", {})
  if budget.get("flops"):
    per_step = budget["flops"] / budget["steps"]
    costs[FLOPS] = lambda steps: steps * per_step
  return costs


def _interpolation(added: Mapping[int, float]) -> Callable:
  """From what each stretch of steps added, what all of them come to."""
  steps = np.array([0, *sorted(added)])
  totals = np.cumsum([0.0, *(added[step] for step in steps[1:])])
  return lambda at: np.interp(at, steps, totals)


def _together(curves: Sequence[Curve], axis: str):
  """Mean costs [points] and values [seeds, points] at steps that all have."""
  common = set.intersection(*(set(curve.steps.tolist()) for curve in curves))
  steps = sorted(common)
  # A page has few pixels; every curve keeps its last point.
  stride = -(-len(steps) // _MOST_POINTS) or 1
  steps = sorted({*steps[::stride], *steps[-1:]})
  places = [np.isin(curve.steps, steps) for curve in curves]
  costs = [c.costs[axis][p] for c, p in zip(curves, places, strict=True)]
  values = [c.values[p] for c, p in zip(curves, places, strict=True)]
  return np.mean(costs, axis=0), np.array(values)
