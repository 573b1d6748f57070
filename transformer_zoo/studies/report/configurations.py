"""Differences between the operative configurations of a study's rows."""

from collections.abc import Iterator, Mapping
import difflib

from transformer_zoo.studies.design import planned_run
from transformer_zoo.studies.design import suite
from transformer_zoo.studies.execution.results import RunResult
from transformer_zoo.studies.execution.results import StudyResults
from transformer_zoo.studies.report import cells

# What a study binds for each of its runs differs between any two of them.
_OF_EVERY_RUN = frozenset(
  binding.partition("=")[0]
  for command in suite.COMMANDS
  for binding in planned_run.bindings(command, 0, "", [""])
)

# (phase, group and part) -> the lines of a configuration, None before the run
# has begun.
_Lines = Mapping[tuple[str, str], list[str] | None]


def section(study: StudyResults) -> dict[str, object]:
  """Compares the rows of a study with the baseline, by their first seed.

  Args:
    study: The results of the study's runs.

  Returns:
    A dict with `baseline`, its label; `rows`, the differences by the label of a
    row; and `whole`, the baseline's configurations by their titles.
  """
  base = study.rows[study.baseline].label
  reference = {
    (run.phase, _of_what(run)): _config(run)
    for run in _first_seed(study, study.baseline)
  }
  return {
    "baseline": base,
    "rows": {
      cells.label(study, row): [*_compared(reference, _first_seed(study, row))]
      for row in study.rows
      if row != study.baseline
    },
    "whole": {
      f"The whole configuration of {base}: {phase} {what}".strip(): "\n".join(
        lines
      )
      for (phase, what), lines in reference.items()
      if lines is not None
    },
  }


def _compared(
  reference: _Lines, runs: list[RunResult]
) -> Iterator[dict[str, object]]:
  """The differences in the phases of a row, equal ones once."""
  found = {}
  for run in runs:
    mine, theirs = _config(run), reference.get((run.phase, _of_what(run)))
    if mine is not None:
      differences = None if theirs is None else (*_changes(theirs, mine),)
      found.setdefault(differences, []).append(run)
  for differences, having in found.items():
    count = len(differences or ())
    if differences is None:
      sentence = "a phase that the baseline does not have"
    else:
      sentence = f"lines that differ: {count}" if count else "the same"
    yield {
      "title": f"{_where(having)}: {sentence}",
      "lines": differences or (),
    }


def _changes(
  reference: list[str], mine: list[str]
) -> Iterator[tuple[str, str]]:
  """The lines that only one of two configurations has: `-` or `+`, and text."""

  def compared(line):
    # That a run starts from a checkpoint counts; from which folder does not.
    name = line.partition(" ")[0]
    is_place = name in _OF_EVERY_RUN and not line.endswith("= None")
    return name if is_place else line

  changes = difflib.SequenceMatcher(
    None, [*map(compared, reference)], [*map(compared, mine)], autojunk=False
  )
  for kind, *span in changes.get_opcodes():
    if kind != "equal":
      for line in filter(_is_setting, reference[slice(*span[:2])]):
        yield "-", line
      for line in filter(_is_setting, mine[slice(*span[2:])]):
        yield "+", line


def _is_setting(line: str) -> bool:
  return bool(line.strip()) and not line.startswith("#")


def _where(runs: list[RunResult]) -> str:
  """Names phases with their groups: `pretrain; finetune (GLUE, SQuAD)`."""
  phases = {}
  for run in runs:
    phases.setdefault(run.phase, {})[_of_what(run)] = None
  return "; ".join(
    phase + (f" ({', '.join(filter(None, parts))})" if any(parts) else "")
    for phase, parts in phases.items()
  )


def _of_what(run: RunResult) -> str:
  """The group and the part of a run."""
  return " / ".join(filter(None, (run.group, run.part)))


def _first_seed(study, row) -> list[RunResult]:
  return [run for run in study.of_row(row) if run.seed == study.seeds[0]]


def _config(run: RunResult) -> list[str] | None:
  path = run.folder / "config.gin"
  if not path.exists():
    return None
  return path.read_text(encoding="utf-8").splitlines()
