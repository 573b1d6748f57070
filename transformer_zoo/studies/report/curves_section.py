"""The section of the report that shows how runs learned."""

from collections.abc import Iterator

from transformer_zoo.studies.execution.results import StudyResults
from transformer_zoo.studies.report import page
from transformer_zoo.studies.report import scores_section
from transformer_zoo.studies.statistics import curves


def section(study: StudyResults) -> Iterator[str]:
  """Losses and scores of every phase against what they cost."""
  rows = list(study.rows)
  columns = {column.name for column in study.columns}
  phases = {}  # Phase -> its groups, "" for one that has none.
  for run in study.runs:
    phases.setdefault(run.phase, {})[run.group] = None
  for phase, groups in phases.items():
    by_group = {group: curves.read(study, phase, group) for group in groups}
    if not any(by_group.values()):
      continue
    chief, folded = {}, {}
    for group, found in by_group.items():
      for title, drawn in found.items():
        is_chief = title in columns or (title, group) == (curves.LOSS, "")
        named = f"{group}: {title}" if group and title == curves.LOSS else title
        (chief if is_chief else folded)[named] = drawn
    yield f"<h3>{page.text(phase)}</h3>"
    yield scores_section.legend(study)
    if chief:
      yield _against_each_axis(phase, chief, rows)
    if folded:
      yield page.details(
        "Losses and the metrics of each task",
        page.panels(
          curves.panel(title.replace("/", ": "), drawn, rows)
          for title, drawn in folded.items()
        ),
      )


def _against_each_axis(phase, chief, rows) -> str:
  drawn = {
    axis: "".join(curves.panel(t, c, rows, axis) for t, c in chief.items())
    for axis in curves.AXES
  }
  drawn = {axis: svgs for axis, svgs in drawn.items() if svgs}
  return page.views(
    f"axis-{page.anchor(phase)}",
    [f"against {axis}" for axis in drawn],
    *(
      f'<div class="view view-{index}">'
      + page.panels(
        [svgs],
        "The mean over seeds and the range that they span; scores of the "
        "validation split. A run that rows share is drawn for the first alone.",
      )
      + "</div>"
      for index, svgs in enumerate(drawn.values())
    ),
  )
