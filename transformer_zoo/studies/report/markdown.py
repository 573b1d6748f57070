"""Markdown: the table of a study, and the parts that its texts share."""

from collections.abc import Iterable

from transformer_zoo.studies.report import cells
from transformer_zoo.studies.report import runs_section
from transformer_zoo.studies.report import scores_section
from transformer_zoo.studies.report import tables
from transformer_zoo.studies.statistics import budgets
from transformer_zoo.studies.statistics.analysis import Analysis
from transformer_zoo.studies.statistics.wording import compact
from transformer_zoo.training.monitoring.progress import duration


def study_table(analysis: Analysis) -> str:
  """Returns `table.md`: the table, its conclusions and what is missing."""
  study, table = analysis.study, analysis.table
  blocks = [f"# {study.name}, suite {study.suite_title}"]
  blocks.append(tables.plain(study.question))
  blocks.append(tables.to_markdown(scores_section.scores(analysis)))
  blocks.append(listed(cells.legend(study, "In brackets", analysis.blind)))
  blocks.append(listed(analysis.gaps))
  if table.others:
    blocks.append(f"## Differences from {table.labels[table.baseline]}")
    drawn = scores_section.differences(analysis)
    blocks.append(tables.to_markdown(drawn))
    lines = [analysis.answer, analysis.summary, analysis.power]
    lines += analysis.concluded
    blocks.append(listed(lines))
    blocks.append(listed(analysis.comparison.notes))
  if analysis.agreements:
    ranks = [one.sentence for one in analysis.agreements.values()]
    blocks.append("## Beside the publication")
    blocks.append(listed([*analysis.beside_published, *ranks]))
    blocks.append(listed(analysis.verdicts))
  if analysis.budgets:
    blocks.append("## Budgets")
    blocks.append(costs(analysis))
    sentences = budgets.sentences(study, analysis.budgets)
    blocks.append(listed([*sentences, budgets.NOTE]))
  searched = runs_section.search(study)
  if searched:
    blocks += ["## Search", tables.to_markdown(searched["table"])]
    blocks.append(listed([searched["note"]]))
  if table.every_metric:
    blocks.append("## Scores of each task")
    every = scores_section.grid(
      study, table, {"": {one: one.group for one in table.every_metric}}
    )
    blocks.append(tables.to_markdown(tables.turned(every)))
  if analysis.open:
    blocks += ["## What cannot be concluded", listed(analysis.open)]
  if study.unfinished():
    runs = [run.sentence for run in study.unfinished()]
    blocks += ["## Not finished", study.progress(), listed(runs)]
  blocks += ["## Command", f"    {study.command}"]
  return joined(blocks)


def costs(analysis: Analysis) -> str:
  """Returns what each row costs with one seed, beside its share.

  The share is the cost over the baseline's, left out where costs are equal.
  """
  found = analysis.budgets
  base = found.get(analysis.study.baseline)
  quantities = budgets.quantities(found)
  lines = [["", *quantities, "time"]]
  for row, budget in found.items():
    line = [cells.label(analysis.study, row)]
    for of in quantities.values():
      share = budgets.share(of(budget), base and of(base))
      line.append(f"{compact(of(budget))} {share}".rstrip())
    lines.append([*line, duration(budget.seconds)])
  return tables.to_markdown(tables.Table(head=lines[0], lines=lines[1:]))


def listed(lines: Iterable[str]) -> str:
  """Returns a list, without the lines that are empty."""
  return "\n".join(f"- {tables.plain(line)}" for line in lines if line)


def joined(blocks: Iterable[str]) -> str:
  """Returns a text of blocks, without those that are empty."""
  return "\n\n".join(filter(None, blocks)) + "\n"
