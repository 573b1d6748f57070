"""Sections of the report about the runs behind the scores."""

from collections.abc import Mapping
import itertools
import json
import os
import pathlib
from urllib.parse import quote

from transformer_zoo.studies import published
from transformer_zoo.studies.execution.results import RunResult
from transformer_zoo.studies.execution.results import StudyResults
from transformer_zoo.studies.report import cells
from transformer_zoo.studies.report import environments
from transformer_zoo.studies.report import page
from transformer_zoo.studies.report import tables
from transformer_zoo.studies.statistics import budgets
from transformer_zoo.studies.statistics.budgets import Budget
from transformer_zoo.studies.statistics.scores import decimals
from transformer_zoo.studies.statistics.scores import Table
from transformer_zoo.studies.statistics.wording import compact
from transformer_zoo.studies.statistics.wording import number
from transformer_zoo.training.monitoring.progress import duration

_SAMPLES = 3
_MOST_CHARACTERS = 400


def budget_table(
  study: StudyResults, found: Mapping[str, Budget]
) -> dict[str, object]:
  """Returns the cost of each row, and whether rows cost the same."""
  if not found:
    return {}
  phases = dict.fromkeys(p for budget in found.values() for p in budget.phases)
  quantities = budgets.quantities(found)
  names = [*(n.replace(" ", "\n") for n in quantities), "time"]
  details = _published_details(study)
  shown = list(dict.fromkeys(name for row in details.values() for name in row))
  base = found.get(study.baseline)
  rows = list(found)
  return {
    "sentences": budgets.sentences(study, found),
    "note": budgets.NOTE,
    "table": tables.Table(
      head=["row", *names, *["steps", "tokens", "FLOPs"] * len(phases), *shown],
      lines=[
        [
          *_costs(study, row, budget, base, phases, quantities),
          *(details.get(row, {}).get(name, "—") for name in shown),
        ]
        for row, budget in found.items()
      ],
      kind="numbers sortable wide",
      marked=rows.index(study.baseline) if study.baseline in rows else None,
      spans=[
        ("", 1),
        ("one seed", len(names)),
        *((phase, 3) for phase in phases),
        *([("published", len(shown))] if shown else []),
      ],
    ),
  }


def sources(study: StudyResults, table: Table) -> list[dict[str, object]]:
  """Returns the runs, configurations and predictions of each row and group."""
  return [
    {
      "label": cells.label(study, row),
      "groups": [
        {
          "place": page.anchor("source", row, group),
          "title": f"{cells.label(study, row)} · {group}",
          "table": _source(study, row, group, metrics),
        }
        for group, metrics in table.metrics.items()
      ],
    }
    for row in study.rows
  ]


def search(study: StudyResults) -> dict[str, object]:
  """Returns the scores of the alternatives of grids, the chosen ones bold."""
  searches = study.searches()
  if not searches:
    return {}
  every = dict.fromkeys(run.alternative for s in searches for run in s.runs)
  lines = []
  for one in searches:
    first = one.runs[0]
    is_loss = any(c.is_loss for c in one.columns)
    shown = {
      run.alternative: tables.Cell(
        text="—" if score is None else number(score, decimals(is_loss)),
        order=score,
        href=_linked(study, run.folder, "").href,
        bold=index == one.chosen,
      )
      for index, (run, score) in enumerate(
        zip(one.runs, one.scores, strict=True)
      )
    }
    of_what = " / ".join(filter(None, (first.group, first.part)))
    line = [cells.label(study, first.row), of_what, f"{first.seed}"]
    lines.append([*line, *(shown.get(text, tables.Cell()) for text in every)])
  head = ["row", "group", "seed", *every]
  return {
    "table": tables.Table(head=head, lines=lines, kind="numbers wide"),
    "note": (
      "Scores on validation with one seed, in the columns of the group. Bold: "
      "the best, of equals the first, with which all seeds are run; so the "
      "number of this seed is the best of several. —: not finished, diverged, "
      "or the same as another one. Budgets leave the search out."
    ),
  }


def predictions(study: StudyResults, table: Table) -> dict[str, tables.Table]:
  """Returns a few examples of each task, from the first seed of every row."""
  by_task = {}
  for run in study.runs:
    if run.scored and run.seed == study.seeds[0]:
      for group, task in dict.fromkeys(m[:2] for m in table.every_metric):
        if run.group in ("", group) and task in run.scores:
          for index, sample in enumerate(_samples(run, task)):
            samples = by_task.setdefault(f"{group} / {task}", {})
            samples.setdefault(index, {})[run.row] = sample
  head = ["input", "target", *(info.label for info in study.rows.values())]
  found = {}
  for task, samples in by_task.items():
    lines = []
    for by_row in samples.values():
      first = next(iter(by_row.values()))
      answers = [by_row.get(row, {}).get("prediction") for row in study.rows]
      line = [first.get("inputs"), first.get("targets"), *answers]
      lines.append([*map(_shortened, line)])
    found[task] = tables.Table(head=head, lines=lines, kind="words")
  return found


def runs(study: StudyResults) -> dict[str, object]:
  """Returns every run: state, cost, folder, and the command that repeats it."""
  alone = [run for run in study.runs if not run.shared]
  lines = []
  for run in alone:
    result = run.result or {}
    flops = result.get("budget", {}).get("flops")
    lines.append(
      [
        run.name,
        run.state,
        _count(result.get("step"), "{:,}".format),
        _count(result.get("best_step"), "{:,}".format),
        _count(result.get("tokens"), compact),
        _count(flops, compact),
        _count(result.get("seconds"), duration),
        _linked(study, run.folder, run.folder.name),
      ]
    )
  head = ["run", "state", "steps", "best step", "tokens", "FLOPs", "time"]
  return {
    "command": study.command,
    "selection": list(
      dict.fromkeys(
        f"{run.phase}: {run.result['selection']}"
        for run in study.runs
        if run.result is not None and run.result.get("selection")
      )
    ),
    "progress": study.progress(),
    "table": tables.Table(
      head=[*head, "folder"], lines=lines, kind="small runs sortable"
    ),
    "alone": "\n\n".join(f"# {run.name}\n{run.command}" for run in alone),
  }


def machines(study: StudyResults) -> list[tables.Table]:
  """Returns the environments of the runs, equal ones once."""
  return [
    tables.Table(head=["", ""], lines=environment.facts())
    for environment in environments.read(study)
  ]


def _costs(
  study, row, budget, base, phases, quantities
) -> list[str | tables.Cell]:
  line = [cells.label(study, row)]
  for quantity in quantities.values():
    value = quantity(budget)
    share = budgets.share(value, base and quantity(base))
    line.append(
      tables.Cell(
        text=compact(value), order=value, small=[share] if share else []
      )
    )
  line.append(tables.Cell(text=duration(budget.seconds), order=budget.seconds))
  for phase in phases:
    cost = budget.phases.get(phase)
    if cost is None:
      line += [tables.Cell()] * 3
    else:
      line.append(tables.Cell(text=f"{cost.steps:,.0f}", order=cost.steps))
      line += [
        tables.Cell(text=compact(value), order=value)
        for value in (cost.tokens, cost.flops)
      ]
  return line


def _published_details(study) -> dict[str, Mapping[str, str]]:
  """By row, published details other than scores: parameters, cost."""
  if not study.published:
    return {}
  details = published.load(study.published).details
  return {
    row: details[info.published]
    for row, info in study.rows.items()
    if info.published in details
  }


def _source(study, row, group, metrics) -> tables.Table:
  """The runs of one row and group, one a line."""
  lines = []
  for run in study.of_row(row):
    if run.scored and run.group in ("", group):
      starts = [_linked(study, start, start.name) for start in run.starts]
      lines.append(
        [
          f"seed {run.seed} {run.part}".rstrip(),
          _linked(study, run.folder, run.folder.name),
          _linked(study, run.folder / "config.gin", "config.gin"),
          starts or "from scratch",
          *(_score(study, run, metric) for metric in metrics),
        ]
      )
  head = ["", "run", "configuration", "starts from"]
  head += [metric.name.replace(": ", ":\n") for metric in metrics]
  return tables.Table(head=head, lines=lines, kind="small")


def _score(study, run, metric) -> str | tables.Cell:
  """A score of a run, linked to its predictions."""
  value = metric.of(run.scores)
  if value is None:
    return "—"
  path = run.predictions(metric.task)
  text = number(value, metric.decimals)
  if not path.exists():
    return text
  return tables.Cell(
    text=text, order=value, href=_address(study, path), kind="number"
  )


def _samples(run: RunResult, task: str) -> list[dict]:
  """The first predictions of the checkpoint that was scored, if they are text.

  Predictions of losses are counts of tokens.
  """
  path = run.predictions(task)
  if not path.exists():
    return []
  with open(path, encoding="utf-8") as lines:
    samples = map(json.loads, itertools.islice(lines, _SAMPLES))
    return [sample for sample in samples if "inputs" in sample]


def _address(study: StudyResults, path: os.PathLike[str]) -> str:
  return quote(os.path.relpath(path, study.folder))


def _linked(study, path: pathlib.Path, label: str) -> tables.Cell:
  """A link to a file or folder; its name alone while it does not exist."""
  if not path.exists():
    return tables.Cell(text=label)
  end = "/" if path.is_dir() else ""
  return tables.Cell(text=label, href=_address(study, path) + end)


def _count(value: float | None, written) -> tables.Cell:
  return tables.Cell(text="—" if value is None else written(value), order=value)


def _shortened(value: object) -> str:
  value = "—" if value is None else str(value)
  if len(value) <= _MOST_CHARACTERS:
    return value
  return value[:_MOST_CHARACTERS] + " …"
