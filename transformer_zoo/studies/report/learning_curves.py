"""Learning curves of a study: recorded losses and scores against their cost.

A curve is drawn against steps, tokens, FLOPs or time of its own run: what the
run that it started from has cost is not counted again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
import dataclasses
import math

import markupsafe
import numpy as np

from transformer_zoo.studies.execution.results import RunResult
from transformer_zoo.studies.execution.results import StudyResults
from transformer_zoo.studies.report import charts
from transformer_zoo.training.monitoring import recorder

LOSS = "train/loss"
STEPS, TOKENS, FLOPS, MINUTES = AXES = ("steps", "tokens", "FLOPs", "minutes")

_VALIDATION = "validation/"
# Names that runs of every group record.
_LOSSES = (LOSS, "validation/loss")
# What validation records beside the losses and the scores.
_NO_SCORES = ("token_accuracy", "invalid")
_MOST_POINTS = 120


@dataclasses.dataclass(frozen=True)
class Curve:
  """Values that one run recorded.

  Attributes:
    steps: The steps, ascending, [points].
    values: The values, [points].
    costs: The cost of the run up to each step, [points], by axis. An axis whose
      cost is unknown is left out.
    best_step: The step of the checkpoint whose scores are reported; None where
      it is the last one, and for losses of training.
  """

  steps: np.ndarray
  values: np.ndarray
  costs: Mapping[str, np.ndarray]
  best_step: int | None = None


# {row: {seed: curve}}
Curves = dict[str, dict[int, Curve]]


def read(study: StudyResults, phase: str, group: str) -> dict[str, Curves]:
  """Reads the curves of one phase, or of one group's.

  Args:
    study: The results of the study's runs.
    phase: The name of the phase.
    group: The name of the group, "" if the phase has no groups.

  Returns:
    By title, the training loss, each column's score on the validation split,
    and the validation losses and metrics of tasks. A run that several rows
    share appears under the first of them; those of searches are left out.
  """
  columns = [c for c in study.columns if group in ("", c.of_group)]
  found = {LOSS: {}} | {column.name: {} for column in columns}
  for run in study.runs:
    if (run.phase, run.group) != (phase, group):
      continue
    if run.shared or run.alternative:
      continue
    lines = recorder.read_lines(run.folder / recorder.METRICS_FILE)
    costs = _costs(run, lines)
    best_step = (run.result or {}).get("best_step")
    for title, points in _points(lines, columns).items():
      if run.part and title == LOSS:
        title = f"{run.part}: {title}"
      steps = np.array(sorted(points))
      curve = Curve(
        steps=steps,
        values=np.array([points[step] for step in steps]),
        costs={axis: cost(steps) for axis, cost in costs.items()},
        best_step=None if title in _LOSSES else best_step,
      )
      found.setdefault(title, {}).setdefault(run.row, {})[run.seed] = curve
  return {title: curves for title, curves in found.items() if curves}


def section(study: StudyResults) -> list[dict[str, object]]:
  """Returns the charts of each phase that recorded anything.

  Args:
    study: The results of the study's runs.

  Returns:
    By phase, a dict with `phase`; `axes`, the charts of the loss and the
    columns by the label of the horizontal axis; `folded`, the charts of other
    losses and metrics against steps; and `points`, the titles of what was
    recorded once, of which there is no curve.
  """
  rows = list(study.rows)
  columns = {column.name for column in study.columns}
  groups = {}  # Phase -> its groups, "" if it has none.
  for run in study.runs:
    groups.setdefault(run.phase, {})[run.group] = None
  phases = []
  for phase, of_phase in groups.items():
    chief, folded, points = {}, {}, []
    for group in of_phase:
      for title, curves in read(study, phase, group).items():
        is_chief = title in columns or (title, group) == (LOSS, "")
        named = f"{group}: {title}" if group and title in _LOSSES else title
        if not _has_a_line(curves):
          points.append(named)
        else:
          (chief if is_chief else folded)[named] = curves
    axes = {
      axis: charts_of_axis
      for axis in AXES
      if (
        charts_of_axis := [
          *filter(
            None,
            (
              chart(title, curves, rows, axis)
              for title, curves in chief.items()
            ),
          )
        ]
      )
    }
    if chief or folded or points:
      phases.append(
        {
          "phase": phase,
          "axes": axes,
          "folded": [
            chart(title.replace("/", ": "), curves, rows)
            for title, curves in folded.items()
          ],
          "points": points,
        }
      )
  return phases


def chart(
  title: str, curves: Curves, rows: Sequence[str], axis: str = STEPS
) -> markupsafe.Markup:
  """Draws the mean over seeds of each row and the range that they span.

  A dot is the checkpoint of a seed whose scores are reported.

  Args:
    title: The title of the chart.
    curves: The curves by row and seed.
    rows: The rows of the study, whose places decide their colours.
    axis: One of `AXES`.

  Returns:
    An SVG element; "" if the axis is unknown for every run.
  """
  drawn, best = {}, {}
  for row, by_seed in curves.items():
    known = [curve for curve in by_seed.values() if axis in curve.costs]
    if known:
      drawn[rows.index(row)] = together(known, axis)
      best[rows.index(row)] = [
        (curve.costs[axis][place], curve.values[place])
        for curve in known
        for place in np.flatnonzero(curve.steps == curve.best_step)
      ]
  if not drawn:
    return markupsafe.Markup()
  return charts.learning_curves(title, axis, drawn, best)


def together(
  curves: Sequence[Curve], axis: str
) -> tuple[np.ndarray, np.ndarray]:
  """Joins the curves of several seeds at few of the steps that all have.

  Args:
    curves: The curves.
    axis: One of `AXES`, whose cost all of them know.

  Returns:
    Mean costs [points] and values [seeds, points].
  """
  steps = _common_steps(curves)
  # A page has few pixels; every curve keeps its last point.
  stride = -(-len(steps) // _MOST_POINTS) or 1
  steps = sorted({*steps[::stride], *steps[-1:]})
  places = [np.isin(curve.steps, steps) for curve in curves]
  costs = [c.costs[axis][p] for c, p in zip(curves, places, strict=True)]
  values = [c.values[p] for c, p in zip(curves, places, strict=True)]
  return np.mean(costs, axis=0), np.array(values)


def _has_a_line(curves: Curves) -> bool:
  """Whether a row has two points or more that all of its seeds recorded."""
  return any(
    len(_common_steps(by_seed.values())) > 1 for by_seed in curves.values()
  )


def _points(lines, columns) -> dict[str, dict[int, float]]:
  """The recorded values, `{title: {step: value}}`."""
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
        known = name if name in _LOSSES else title
        points.setdefault(known, {})[line["step"]] = value
        if metric != "loss":
          scores.setdefault(task, {})[metric] = value
    for column in columns:
      value = column.score(scores)
      if value is not None:
        points.setdefault(column.name, {})[line["step"]] = value
  return points


def _costs(run: RunResult, lines) -> dict[str, Callable]:
  """By axis, the function from steps to the cost of the run up to them."""
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
  """The running total at a step, from the amounts that intervals added."""
  steps = np.array([0, *sorted(added)])
  totals = np.cumsum([0.0, *(added[step] for step in steps[1:])])
  return lambda at: np.interp(at, steps, totals)


def _common_steps(curves: Iterable[Curve]) -> list[int]:
  """The steps that all curves have, ascending."""
  steps = (set(curve.steps.tolist()) for curve in curves)
  return sorted(set.intersection(*steps))
