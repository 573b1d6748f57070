"""Choices among the alternatives of a grid, by the results of a search.

A choice is never written down: whoever needs it reads it from the results of
the search, so that launchers, jobs of a cluster and reports agree.
"""

from collections.abc import Mapping, Sequence
import math
import statistics

from transformer_zoo.studies.design.planned_run import Run
from transformer_zoo.studies.design.suite import Column
from transformer_zoo.studies.execution import result_file
from transformer_zoo.studies.execution.run_progress import RESULT_FILE


def resolved(run: Run) -> Run:
  """Returns the run that a search has chosen, else the run as it is."""
  choice = run.choice
  if choice is None:
    return run
  if not all((folder / RESULT_FILE).exists() for folder in choice.searched):
    return run
  results = [result_file.read(folder) for folder in choice.searched]
  return choice.runs[best(results, choice.columns)]


def best(results: Sequence[Mapping], columns: Sequence[Column]) -> int:
  """Returns the index of the result with the best score, of equals the first.

  Args:
    results: The contents of the `result.json` of each run of a search.
    columns: The columns that the runs score.
  """
  worst = float("-inf")
  sign = -1 if any(column.is_loss for column in columns) else 1
  scores = [score(result, columns) for result in results]
  ranks = [worst if one is None else sign * one for one in scores]
  return ranks.index(max(ranks))


def score(result: Mapping, columns: Sequence[Column]) -> float | None:
  """Returns the mean score of columns on validation, None if it diverged.

  Of a column that a run scores in part, as the run of one task of a benchmark,
  this part counts.
  """
  scores = result_file.chosen_scores(result)
  values = []
  for column in columns:
    value = column.score(scores)
    if value is not None:
      values.append(value)
    else:
      values += [part for part in column.parts(scores) if part is not None]
  value = statistics.fmean(values) if values else math.nan
  return value if math.isfinite(value) else None
