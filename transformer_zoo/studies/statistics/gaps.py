"""Why cells are empty, or have fewer seeds, though their runs have finished."""

from collections.abc import Iterator
import math

from transformer_zoo.studies.design.suite import Column
from transformer_zoo.studies.execution.results import StudyResults
from transformer_zoo.studies.statistics import scores as scores_lib


def sentences(study: StudyResults) -> list[str]:
  """Says of each column what its finished runs do not score, or not finitely.

  Args:
    study: what the study's runs came to.
  """
  return [line for c in study.columns for line in _of_column(study, c)]


def _of_column(study: StudyResults, column: Column) -> Iterator[str]:
  unscored, endless, scored = {}, [], {}
  for row, info in study.rows.items():
    for seed in study.seeds:
      scores = _scores(study, row, seed, column.of_group)
      if scores is None or scores_lib.column_score(column, scores) is not None:
        continue
      values = [v for metrics in scores.values() for v in metrics.values()]
      if all(map(math.isfinite, values)):
        unscored[info.label] = None
        for task, metrics in scores.items():
          scored.setdefault(task, {}).update(metrics)
      else:
        endless.append(f"{info.label} with seed {seed}")
  if unscored:
    known = [f"{t}: {m}" for t, metrics in scored.items() for m in metrics]
    yield (
      f"{column.name} wants {', '.join(column.scores)}, which runs of these "
      f"rows do not score: {', '.join(unscored)}. They score "
      f"{', '.join(known) or 'nothing'}."
    )
  if endless:
    yield (
      f"{column.name} leaves out runs with scores that are no finite numbers: "
      f"{', '.join(endless)}."
    )


def _scores(study, row, seed, group) -> dict[str, dict[str, float]] | None:
  """Of all runs that score a row; None while one of them is not finished."""
  runs = [run for run in study.scored_runs(row, group) if run.seed == seed]
  if not runs or any(run.result is None for run in runs):
    return None
  return {task: dict(of) for run in runs for task, of in run.scores.items()}
