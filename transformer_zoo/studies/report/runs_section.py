"""Sections of the report that show what stands behind the scores."""

from collections.abc import Iterator
import difflib
import itertools
import json
import os
from urllib.parse import quote

from transformer_zoo.studies.design import run_bindings
from transformer_zoo.studies.design import suite
from transformer_zoo.studies.execution.results import RunResult
from transformer_zoo.studies.execution.results import StudyResults
from transformer_zoo.studies.report import cells
from transformer_zoo.studies.report import page
from transformer_zoo.studies.report.chart import compact
from transformer_zoo.studies.statistics import environments
from transformer_zoo.studies.statistics.scores import Table
from transformer_zoo.training.monitoring.progress import duration

_SAMPLES = 3
_MOST_CHARACTERS = 400
# What a study binds for each of its runs differs between any two of them.
_PLACES = frozenset(
  binding.partition("=")[0]
  for command in suite.COMMANDS
  for binding in run_bindings.of_run(command, 0, "", [""])
)


def sources(study: StudyResults, table: Table) -> Iterator[str]:
  """Of every row and group: runs, configurations, predictions."""
  yield (
    '<p class="note">A number leads to its predictions, a run to its folder; '
    "these links work where this page lies beside the runs.</p>"
  )
  for row in study.rows:
    tables = [
      _source(study, row, group, metrics)
      for group, metrics in table.metrics.items()
    ]
    yield page.details(cells.label(study, row), *tables)


def _source(study, row, group, metrics) -> str:
  """The runs of one row and group, one a line."""
  lines = []
  for run in study.of_row(row):
    if run.scored and run.group in ("", group):
      starts = [_linked(study, start, start.name) for start in run.starts]
      line = [f"seed {run.seed} {run.part}".rstrip()]
      line.append(_linked(study, run.folder, run.folder.name))
      line.append(_linked(study, run.folder / "config.gin", "config.gin"))
      line.append(", ".join(starts) or "from scratch")
      line += [_number(study, run, metric) for metric in metrics]
      lines.append(line)
  head = ["", "run", "configuration", "starts from"]
  head += [metric.name.replace(": ", ":\n") for metric in metrics]
  place = page.anchor("source", row, group)
  title = page.text(f"{cells.label(study, row)} · {group}")
  return f'<h3 id="{place}">{title}</h3>' + page.table(
    head, lines, kind="small"
  )


def _number(study, run, metric) -> str:
  """A score of a run, which leads to its predictions."""
  value = metric.of(run.scores)
  if value is None:
    return "—"
  path = run.predictions(metric.task)
  number = cells.number(value, metric.decimals)
  if not path.exists():
    return number
  return page.link(_address(study, path), number, "number")


def predictions(study: StudyResults, table: Table) -> Iterator[str]:
  """A few examples of each task, from the first seed of every row."""
  by_task = {}
  for run in study.runs:
    if run.scored and run.seed == study.seeds[0]:
      for group, task in dict.fromkeys(m[:2] for m in table.every_metric):
        if run.group in ("", group) and task in run.scores:
          for index, sample in enumerate(_samples(run, task)):
            samples = by_task.setdefault(f"{group} / {task}", {})
            samples.setdefault(index, {})[run.row] = sample
  for task, samples in by_task.items():
    lines = []
    for by_row in samples.values():
      first = next(iter(by_row.values()))
      answers = [by_row.get(row, {}).get("prediction") for row in study.rows]
      line = [first.get("inputs"), first.get("targets"), *answers]
      lines.append([page.text(_cut(cell)) for cell in line])
    head = ["input", "target", *(info.label for info in study.rows.values())]
    # One is open, to show what there is.
    first_task = task == next(iter(by_task))
    content = page.table(head, lines, kind="words")
    yield page.details(task, content, opened=first_task)


def configurations(study: StudyResults) -> Iterator[str]:
  """What each row has other than the baseline, and the baseline's own."""
  base = study.rows[study.baseline].label
  yield (
    f'<p class="note">How the operative configurations differ from those of '
    f"{page.text(base)}, first seed: − lines that only it has, + lines that it "
    "does not have. Paths and seeds are not compared.</p>"
  )
  reference = {
    (run.phase, _of_what(run)): _config(run)
    for run in _first_seed(study, study.baseline)
  }
  for row in study.rows:
    if row != study.baseline:
      yield f"<h3>{page.text(cells.label(study, row))}</h3>"
      yield from _compared(reference, _first_seed(study, row))
  for (phase, of_what), lines in reference.items():
    if lines is not None:
      title = f"The whole configuration of {base}: {phase} {of_what}".strip()
      yield page.details(title, page.code("\n".join(lines)))


def runs(study: StudyResults) -> Iterator[str]:
  """Every run: its state, cost, folder, and the command that runs it alone."""
  lines = []
  for run in study.runs:
    if run.shared:
      continue
    result = run.result or {}
    seconds, tokens = result.get("seconds"), result.get("tokens")
    flops = result.get("budget", {}).get("flops")
    lines.append(
      [
        page.text(run.name),
        page.text(run.state),
        _count(result.get("step"), "{:,}".format),
        _count(result.get("best_step"), "{:,}".format),
        _count(tokens, compact),
        _count(flops, compact),
        _count(seconds, duration),
        _linked(study, run.folder, run.folder.name),
      ]
    )
  rules = {
    f"{run.phase}: {run.result['selection']}": None
    for run in study.runs
    if run.result is not None and run.result.get("selection")
  }
  yield page.code(study.command)
  if rules:
    yield f"<p>Selection of checkpoints: {page.text('; '.join(rules))}.</p>"
  head = ["run", "state", "steps", "best step", "tokens", "FLOPs", "time"]
  table = page.table([*head, "folder"], lines, kind="small runs sortable")
  yield page.details(f"{study.progress()}; runs that rows share once", table)
  alone = [
    f"# {run.name}\n{run.command}" for run in study.runs if not run.shared
  ]
  yield page.details("Each run alone", page.code("\n\n".join(alone)))


def machines(study: StudyResults) -> Iterator[str]:
  """Where runs ran, equal environments once."""
  for environment in environments.read(study):
    lines = [[page.text(k), page.text(v)] for k, v in environment.facts()]
    yield page.table(["", ""], lines)


def _samples(run: RunResult, task: str) -> list[dict]:
  """The first predictions of the checkpoint that the scores are of.

  Those that are counts of tokens are nothing to read.
  """
  path = run.predictions(task)
  if not path.exists():
    return []
  with open(path, encoding="utf-8") as lines:
    samples = map(json.loads, itertools.islice(lines, _SAMPLES))
    return [sample for sample in samples if "inputs" in sample]


def _compared(reference, runs) -> Iterator[str]:
  """What differs in the phases of a row, equal differences once."""
  found = {}
  for run in runs:
    mine, theirs = _config(run), reference.get((run.phase, _of_what(run)))
    if mine is not None:
      differs = theirs and "".join(_differences(theirs, mine))
      found.setdefault(differs, []).append(run)
  if not found:
    yield '<p class="note">No run has begun.</p>'
  for differs, of_it in found.items():
    yield f'<p class="note">{page.text(_where(of_it))}: {_said(differs)}</p>'
    if differs:
      yield f"<pre>{differs}</pre>"


def _differences(reference: list[str], mine: list[str]) -> Iterator[str]:
  """The lines that only one of two configurations has, marked."""

  def compared(line):
    # That a run starts from a checkpoint counts; from which folder does not.
    name = line.partition(" ")[0]
    given = name in _PLACES and not line.endswith("= None")
    return name if given else line

  changes = difflib.SequenceMatcher(
    None, [*map(compared, reference)], [*map(compared, mine)], autojunk=False
  )
  for kind, *span in changes.get_opcodes():
    if kind != "equal":
      for line in filter(_says_something, reference[slice(*span[:2])]):
        yield f"<del>- {page.text(line)}</del>\n"
      for line in filter(_says_something, mine[slice(*span[2:])]):
        yield f"<ins>+ {page.text(line)}</ins>\n"


def _says_something(line: str) -> bool:
  return bool(line.strip()) and not line.startswith("#")


def _said(differs: str | None) -> str:
  if differs is None:
    return "a phase that the baseline does not have"
  count = differs.count("\n")
  return f"lines that differ: {count}" if count else "the same"


def _where(runs: list[RunResult]) -> str:
  """Names phases with their groups: `pretrain; finetune (GLUE, SQuAD)`."""
  phases = {}
  for run in runs:
    phases.setdefault(run.phase, {})[_of_what(run)] = None
  return "; ".join(
    phase + (f" ({', '.join(filter(None, of))})" if any(of) else "")
    for phase, of in phases.items()
  )


def _of_what(run: RunResult) -> str:
  """The group that a run is of, and the part of it."""
  return " / ".join(filter(None, (run.group, run.part)))


def _first_seed(study, row) -> list[RunResult]:
  return [run for run in study.of_row(row) if run.seed == study.seeds[0]]


def _config(run: RunResult) -> list[str] | None:
  path = run.folder / "config.gin"
  if not path.exists():
    return None
  return path.read_text(encoding="utf-8").splitlines()


def _address(study: StudyResults, path: os.PathLike[str]) -> str:
  return quote(os.path.relpath(path, study.folder))


def _linked(study, path, label) -> str:
  """A link to what is there; to what is not yet, its name alone."""
  if not path.exists():
    return page.text(label)
  end = "/" if path.is_dir() else ""
  return page.link(_address(study, path) + end, page.text(label))


def _count(value: float | None, written) -> page.Cell:
  return page.Cell("—" if value is None else written(value), value)


def _cut(value: object) -> str:
  value = "—" if value is None else str(value)
  if len(value) <= _MOST_CHARACTERS:
    return value
  return value[:_MOST_CHARACTERS] + " …"
