"""A study as data: a question, and rows that each differ in one thing.

A study is `gin_configs/studies/<name>/study.gin`, with a README beside it:

    Study.question = "Does the corruption rate matter?"
    Study.rows = (@baseline/Row(), @rate_25/Row())
    Study.published = "t5/table06_corruption_rates"

    baseline/Row.published = "15%"
    rate_25/Row.published = "25%"
    rate_25/Row.changes = {"pretrain": ("objectives/iid_25.gin",)}

It says nothing about models, data and budgets: those are the suite's
(`suite.py`), and the same rows run on every suite.
"""

from collections.abc import Mapping, Sequence
import dataclasses

import gin

from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError
from transformer_zoo.studies import published as published_tables
from transformer_zoo.studies.design import checks

ALL_PHASES = "all"
# Changes of all phases that come before a group's changes.
MODEL = "model"
# A phase that scores the members of an ensemble together.
ENSEMBLE = "ensemble"


@gin.register
@dataclasses.dataclass(frozen=True)
class Row:
  """One line of the table: what differs from the baseline.

  Attributes:
    name: The name of the row, unique in the study; in a gin file the name of
      the scope by default.
    label: The label of the row in the table, which may contain `$(...)`; by
      default the label of the published row, else the name.
    changes: The gin files and `NAME=VALUE` bindings that follow the suite's, by
      the name of a phase, or "all" for every phase. Those of "model" are of
      every phase too, and come before the changes of the group, whose heads
      follow an architecture. Later ones win; a string that ends in `.gin` is a
      file.
    phases: The names of phases of the suite; each starts from the one before.
      The scores of the last one are the row's.
    copies: The number of runs of a phase, by its name, with different seeds.
      They are the members of an ensemble, which the suite's phase "ensemble"
      scores together.
    published: The label of the row in the published table, or "".
  """

  name: str = dataclasses.field(default_factory=gin.current_scope_str)
  label: str = ""
  changes: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
  phases: Sequence[str] = ("pretrain", "finetune")
  copies: Mapping[str, int] = dataclasses.field(default_factory=dict)
  published: str = ""

  @property
  def shown(self) -> str:
    """The label of the row in the table."""
    return self.label or self.published or self.name

  @property
  def chain(self) -> tuple[str, ...]:
    """The phases in their order, the scoring of an ensemble last."""
    return (*self.phases, *([ENSEMBLE] if self.copies else []))

  def check(self) -> None:
    """Checks the row by itself.

    Raises:
      UserError: If the name is unfit for a folder, a label is no text, there
        are no phases, or changes or copies name no phase of the row.
    """
    checks.check_name(self.name, "the name of a row, as @name/Row(),")
    where = f"row {self.name!r}"
    for field in ("label", "published"):
      checks.check_text(getattr(self, field), f"{field} of {where}")
    checks.check_strings(self.phases, f"phases of {where}")
    if not self.phases:
      raise UserError(
        f"{where} has no phases; list them in {self.name}/Row.phases as "
        "('pretrain', 'finetune')"
      )
    checks.check_unique(list(self.phases), where, "phase")
    checks.check_mapping(self.changes, f"changes of {where}")
    phases = (*self.chain, ALL_PHASES, MODEL)
    checks.check_known(self.changes, phases, f"changes of {where}: phase")
    for phase, changes in self.changes.items():
      checks.check_changes(changes, f"the {phase!r} changes of {where}")
    checks.check_mapping(self.copies, f"copies of {where}")
    checks.check_known(self.copies, self.phases, f"copies of {where}: phase")
    for phase, copies in self.copies.items():
      if not isinstance(copies, int) or copies < 2:
        raise UserError(
          f"{where} has {copies!r} copies of {phase!r}; an ensemble has 2 or "
          "more"
        )


@gin.register
@dataclasses.dataclass(frozen=True)
class Study:
  """A question and the rows that answer it.

  Attributes:
    name: The name of the study and of its folders; by default the name of the
      gin file's folder.
    question: The question that the table answers, one or two sentences.
    rows: The rows of the table.
    seeds: The seeds that every row runs with. Five by default: tiny models are
      chaotic to rounding, each seed is one more draw, and three do not see 3
      points (docs/log/experiments.md).
    baseline: The name of the row that the others are compared with; the first
      row by default.
    published: The key of the published table, as "t5/table06_corruption_rates"
      (`published/<key>.csv`), or "".
    columns: The columns of the suite that the study's table has, each with the
      name of the published column beside it, or "" for its own name. The rows
      are run for the groups of these columns alone; empty for all columns.
    grids: The alternatives of a phase, each gin files and bindings, by the name
      of the phase; in place of the suite's for this phase (`Suite.grids`).
    missing: A sentence that names the part that does not exist yet; "" if the
      study can be run.
  """

  name: str = ""
  question: str = ""
  rows: Sequence[Row] = ()
  seeds: Sequence[int] = (0, 1, 2, 3, 4)
  baseline: str = ""
  published: str = ""
  columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
  grids: Mapping[str, Sequence[Sequence[str]]] = dataclasses.field(
    default_factory=dict
  )
  missing: str = ""

  @property
  def baseline_name(self) -> str:
    """The name of the row that the others are compared with."""
    return self.baseline or self.rows[0].name

  def check(self) -> None:
    """Checks that the study can be run as it is written.

    Raises:
      UserError: If a name is missing, repeated or unfit for a folder, a list is
        empty, `Row.check` refuses a row, a grid has no alternatives, or a
        published table, row or column does not exist.
    """
    checks.check_name(self.name, "Study.name")
    where = f"study {self.name!r}"
    for field in ("question", "baseline", "published", "missing"):
      checks.check_text(getattr(self, field), f"Study.{field}")
    if not self.rows:
      raise UserError(
        f"{where} has no rows; list them in Study.rows as "
        "(@first/Row(), @second/Row())"
      )
    checks.check_kind(self.rows, Row, "Study.rows")
    checks.check_seeds(self.seeds, where)
    for row in self.rows:
      row.check()
    rows = [row.name for row in self.rows]
    checks.check_unique(rows, where, "row")
    if self.baseline_name not in rows:
      raise UserError(
        f"the baseline of {where} is {self.baseline!r}, which is no row of it"
        f"{nearest(self.baseline, rows)}"
      )
    checks.check_mapping(self.columns, "Study.columns")
    for column, published in self.columns.items():
      checks.check_text(published, f"Study.columns[{column!r}]")
    checks.check_grids(self.grids, "Study.grids")
    checks.check_known(
      self.grids,
      {row.chain[-1] for row in self.rows},
      f"Study.grids of {where}: last phase of a row",
    )
    self._check_published(where)

  def _check_published(self, where: str) -> None:
    labels = [row.published for row in self.rows if row.published]
    if labels and not self.published:
      raise UserError(
        f"{where} says which published row is {labels[0]!r} but not of which "
        "table; bind Study.published"
      )
    if not self.published:
      return
    table = published_tables.load(self.published)
    if not labels:
      raise UserError(
        f"{where} stands beside table {self.published!r} and no row of it says "
        "beside which line; bind NAME/Row.published to its label there, as "
        f"{next(iter(table.rows))!r}"
      )
    for label in labels:
      table.row(label)
    checks.check_unique(labels, where, "published row")
    checks.check_known(
      filter(None, self.columns.values()),
      table.columns,
      f"Study.columns of {where}: column of {self.published!r}",
    )


def with_seeds(study: Study, seeds: Sequence[int]) -> Study:
  """Returns the same study with other seeds.

  Raises:
    UserError: If a seed is repeated or not a whole number from 0 up.
  """
  seeds = tuple(seeds)
  checks.check_seeds(seeds, f"study {study.name!r}")
  return dataclasses.replace(study, seeds=seeds)
