"""A suite as data: the models, data and budgets on which studies are run.

A suite is `gin_configs/suites/<name>.gin`:

    Suite.phases = {
      "pretrain": ("sizes/tiny.gin", "runs/pretrain.gin"),
      "finetune": ("sizes/tiny.gin", "runs/finetune.gin"),
    }
    Suite.groups = {"GLUE": ("MIXTURE_OR_TASK_NAME='glue_real_small'",)}
    Suite.values = {"pretrain_steps": 6000}
    Suite.columns = (@GLUE/Column(),)
    GLUE/Column.scores = ("glue_cola_v002", "glue_mrpc_v002: f1")

In every change, the suite's and the rows', `$(...)` stands for one of its
`values` or arithmetic with them, as "TRAIN_STEPS=$(pretrain_steps // 4)"
(`expressions.py`).
"""

from collections.abc import Collection, Mapping, Sequence
import dataclasses
import math
import statistics

import gin

from transformer_zoo.errors import UserError
from transformer_zoo.evaluation import averages
from transformer_zoo.evaluation.metrics.classification import LOSSES
from transformer_zoo.studies.design import checks
from transformer_zoo.studies.design import study as studies
from transformer_zoo.studies.design.study import ENSEMBLE

MEDIAN = "median"
# The name of the mean of columns, losses apart.
MEAN = "mean of columns"
AVERAGES = ("", "glue", "super_glue", MEDIAN)
COMMANDS = ("train", "evaluate")

_BENCHMARKS = {
  "glue": averages.glue_average,
  "super_glue": averages.super_glue_average,
}
_Scores = Mapping[str, Mapping[str, float]]  # {task: {metric: value}}
_Changes = Sequence[str]
_Parts = Mapping[str, _Changes]  # by the name of the part


@gin.register
@dataclasses.dataclass(frozen=True)
class Column:
  """A column of the table: one number of a group of tasks.

  Attributes:
    name: The name of the column in the table; in a gin file the name of the
      scope by default.
    group: The group whose runs score the column; the column's name by default.
    scores: The tasks, each with the mean of its metrics, or "task: metric". The
      metric "loss" is the cross entropy of text without metrics, in nats; of it
      and of perplexities less is better.
    average: "" for the mean of the scores; "glue" or "super_glue" for the
      average of that benchmark, which exists only with all its members;
      "median" for the median of the scores, as over the templates of a set, of
      which the table then has the quartiles too.
    published: The name of the column in published tables; the same name by
      default. A subset of a benchmark is not named like the benchmark.
  """

  name: str = dataclasses.field(default_factory=gin.current_scope_str)
  group: str = ""
  scores: Sequence[str] = ()
  average: str = ""
  published: str = ""

  @property
  def of_group(self) -> str:
    """The group whose runs score it."""
    return self.group or self.name

  @property
  def is_loss(self) -> bool:
    """True if the number is a loss, of which less is better."""
    return any(_is_loss(score) for score in self.scores)

  @property
  def tasks(self) -> tuple[str, ...]:
    """The tasks whose scores the column has, each once."""
    return tuple(dict.fromkeys(s.partition(":")[0] for s in self.scores))

  def score(self, scores: _Scores) -> float | None:
    """Returns the number of the column, None if a part of it is missing.

    A number that is not finite, as of a diverged run, counts as missing.

    Args:
      scores: The scores of a row with a seed, {task: {metric: value}}.
    """
    value = self._average(scores)
    return value if value is not None and math.isfinite(value) else None

  def _average(self, scores: _Scores) -> float | None:
    if self.average in _BENCHMARKS:
      return _BENCHMARKS[self.average](scores)
    parts = self.parts(scores)
    if None in parts:
      return None
    median = self.average == MEDIAN
    return statistics.median(parts) if median else statistics.fmean(parts)

  def parts(self, scores: _Scores) -> list[float | None]:
    """Returns the score of each of `scores`, None for what is missing."""
    parts = []
    for name in self.scores:
      task, _, metric = name.partition(":")
      metrics = scores.get(task, {})
      if metric:
        parts.append(metrics.get(metric.strip()))
      else:
        has = averages.has_score(metrics)
        parts.append(averages.task_score(metrics) if has else None)
    return parts


@gin.register
@dataclasses.dataclass(frozen=True)
class Suite:
  """The models, data and budgets that the rows of any study run on.

  The changes of a run are, in this order: the phase's, an alternative of its
  grid, the row's model's, the group's (for phases per group), the row's for all
  phases, the row's for this phase, and the changes of `after`.

  Attributes:
    name: The name of the suite and of folders; by default the name of the gin
      file.
    version: The version of the suite, a whole number from 1. Raise it with any
      change of the data, models, budgets or columns: runs of two versions are
      never the same run, and reports refuse to compare them.
    phases: The changes (gin files and bindings) of the baseline's run, by the
      name of the phase.
    groups: The changes of phases per group, by the name of the group: a
      benchmark that is trained on and scored apart.
    columns: The columns of the table from left to right.
    values: The values that `$(...)` in changes may refer to, by name.
    missing: A sentence for each value, phase or column that other suites have
      and this one lacks, with the reason why what refers to it cannot be run.
    per_group: The phases that run once for each group, as do the phases after
      them in a row.
    own_groups: The groups of a phase that replace `groups` for rows that end in
      this phase. A group may have parts, `{part: changes}` in place of changes,
      each a run of its own, as for a benchmark whose tasks are fine-tuned on
      one by one.
    grids: The alternatives of a phase, each gin files and bindings, by the name
      of the phase. Where a row ends in it, each group is trained with every
      alternative and the study's first seed, and then with all seeds and the
      alternative that is best in the group's columns. Alternatives that come to
      one configuration, because a row or a group binds the same, count once.
    after: The changes that come after the row's, by phase, such as lengths that
      follow from a row's objective.
    commands: The command of each phase that is not run by `train`, by its name,
      or by "phase/group" for one of its groups, whose changes then leave out
      the suite's and the row's for the phase. A row without an earlier phase
      has no run for such a group.
    rounding: How far the rounding of a machine moves scores: the standard
      deviation, in points, between runs of one seed under other vector
      instructions, threads and kernels, by the name of a column or "mean of
      columns", as `benchmarks/rounding.py` measures it. Empty if unknown.
  """

  name: str = ""
  version: int = 1
  phases: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
  groups: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
  columns: Sequence[Column] = ()
  values: Mapping[str, float | str] = dataclasses.field(default_factory=dict)
  missing: Mapping[str, str] = dataclasses.field(default_factory=dict)
  per_group: Sequence[str] = ("finetune", ENSEMBLE)
  own_groups: Mapping[str, Mapping[str, _Changes | _Parts]] = dataclasses.field(
    default_factory=dict
  )
  grids: Mapping[str, Sequence[_Changes]] = dataclasses.field(
    default_factory=dict
  )
  after: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
  commands: Mapping[str, str] = dataclasses.field(
    default_factory=lambda: {ENSEMBLE: "evaluate"}
  )
  rounding: Mapping[str, float] = dataclasses.field(default_factory=dict)

  def check(self) -> None:
    """Checks the suite by itself.

    Raises:
      UserError: If the version is no whole number from 1, there are no phases,
        groups or columns, a change is no change, or a name refers to nothing.
    """
    checks.check_name(self.name, "Suite.name")
    where = f"suite {self.name!r}"
    if type(self.version) is not int or self.version < 1:
      raise UserError(
        f"Suite.version of {where} is {self.version!r}; it is a whole number "
        "from 1 up"
      )
    for field in ("phases", "groups", "after"):
      _check_named(getattr(self, field), f"Suite.{field}")
    checks.check_mapping(self.own_groups, "Suite.own_groups")
    for phase, groups in self.own_groups.items():
      own = f"Suite.own_groups[{phase!r}]"
      checks.check_mapping(groups, own)
      whole = {g: c for g, c in groups.items() if not isinstance(c, Mapping)}
      _check_named(whole, own)
      for group in groups.keys() - whole.keys():
        _check_named(groups[group], f"{own}[{group!r}]")
    for field in ("phases", "groups", "columns"):
      if not getattr(self, field):
        raise UserError(f"{where} has no {field}; bind Suite.{field}")
    checks.check_mapping(self.values, "Suite.values")
    checks.check_mapping(self.missing, "Suite.missing")
    checks.check_grids(self.grids, "Suite.grids")
    for field in ("after", "grids"):
      checks.check_known(
        getattr(self, field), self.phases, f"Suite.{field} of {where}: phase"
      )
    checks.check_strings(self.per_group, "Suite.per_group")
    known = (*self.phases, ENSEMBLE)
    for field in ("per_group", "own_groups", "commands"):
      of_field = [name.partition("/")[0] for name in getattr(self, field)]
      checks.check_known(of_field, known, f"Suite.{field} of {where}: phase")
    commands = self.commands.values()
    checks.check_known(commands, COMMANDS, f"Suite.commands of {where}:")
    checks.check_kind(self.columns, Column, "Suite.columns")
    for column in self.columns:
      if not column.name:
        raise UserError(f"{where} has a column without a name: @name/Column()")
    names = [column.name for column in self.columns]
    checks.check_unique(names, where, "column")
    for column in self.columns:
      self._check_column(column)
    checks.check_mapping(self.rounding, "Suite.rounding")
    checks.check_known(
      self.rounding, (*names, MEAN), f"Suite.rounding of {where}: column"
    )
    for column, points in self.rounding.items():
      if not isinstance(points, (int, float)) or not 0 <= points < math.inf:
        raise UserError(
          f"Suite.rounding[{column!r}] of {where} is {points!r}; it is a "
          "standard deviation in points, 0 or more"
        )

  def _check_column(self, column: Column) -> None:
    where = f"column {column.name!r} of suite {self.name!r}"
    known = list(self.groups)
    for groups in self.own_groups.values():
      known += groups
    checks.check_known([column.of_group], known, f"{where}: group")
    checks.check_strings(column.scores, f"scores of {where}")
    if not column.scores:
      raise UserError(f"{where} has no scores; name tasks in Column.scores")
    if column.is_loss and not all(map(_is_loss, column.scores)):
      raise UserError(
        f"{where} has losses beside scores; give losses a column of their own"
      )
    checks.check_known([column.average], AVERAGES, f"{where}: average")

  def groups_of(
    self, row: studies.Row, study: studies.Study
  ) -> Collection[str]:
    """Returns the groups that a row is run for, as its last phase has them.

    A study that names its columns has the groups of these alone.
    """
    phase = row.chain[-1]
    groups = self.own_groups.get(phase, self.groups)
    if row.chain == (phase,):
      groups = [g for g in groups if not self.has_own_command(phase, g)]
    if not study.columns:
      return groups
    wanted = {c.of_group for c in self.columns if c.name in study.columns}
    return [group for group in groups if group in wanted]

  def columns_of(self, study: studies.Study) -> tuple[Column, ...]:
    """Returns the columns that the rows of a study can have scores in.

    Those that the study names are in its order, beside the published columns
    that it gives.
    """
    columns = self.columns
    if study.columns:
      by_name = {column.name: column for column in columns}
      columns = [
        dataclasses.replace(by_name[name], published=published)
        for name, published in study.columns.items()
      ]
    groups = {g for row in study.rows for g in self.groups_of(row, study)}
    return tuple(c for c in columns if c.of_group in groups)

  def command_of(self, phase: str, group: str) -> str:
    """Returns the command that runs a phase for a group."""
    whole = self.commands.get(phase, "train")
    return self.commands.get(f"{phase}/{group}", whole)

  def has_own_command(self, phase: str, group: str) -> bool:
    """Returns whether a group has a command of its own in a phase."""
    return f"{phase}/{group}" in self.commands

  def parts_of(self, phase: str, group: str) -> tuple[str, ...]:
    """Returns the parts that a phase runs a group in; "" is all of it."""
    own = self.own_groups.get(phase, {}).get(group, ())
    return tuple(own) if isinstance(own, Mapping) else ("",)

  def changes_of_group(
    self, phase: str, group: str, part: str = ""
  ) -> Sequence[str] | None:
    """Returns a group's changes of a phase, None if it is not per group."""
    others = self.groups if phase in self.per_group else {}
    changes = self.own_groups.get(phase, others).get(group)
    return changes[part] if part else changes

  def check_study(self, study: studies.Study) -> None:
    """Checks that the suite has the phases and columns of a study.

    Raises:
      UserError: If it lacks one, or a row continues from parts of a group.
    """
    for row in study.rows:
      where = f"row {row.name!r} of study {study.name!r}"
      for phase in row.chain:
        if phase in self.missing:
          raise UserError(
            f"{where} needs the phase {phase!r}, which suite {self.name!r} "
            f"does not have: {self.missing[phase]}"
          )
        if phase not in self.phases:
          raise UserError(
            f"{where} needs the phase {phase!r}, which suite {self.name!r} "
            f"does not have; it has {', '.join(self.phases)}"
          )
      for phase in row.chain[: None if row.copies else -1]:
        groups = self.groups_of(row, study)
        if any(self.parts_of(phase, g) != ("",) for g in groups):
          raise UserError(
            f"{where}: the phase {phase!r} has groups in parts on suite "
            f"{self.name!r}, so that it must be the row's last one, without "
            "copies"
          )
    for name in study.columns:
      if name in self.missing:
        raise UserError(
          f"study {study.name!r} has the column {name!r}, which suite "
          f"{self.name!r} does not have: {self.missing[name]}"
        )
    checks.check_known(
      study.columns,
      [column.name for column in self.columns],
      f"Study.columns of study {study.name!r} on suite {self.name!r}: column",
    )


def _is_loss(score: str) -> bool:
  return score.partition(":")[2].strip() in LOSSES


def _check_named(named: Mapping[str, Sequence[str]], where: str) -> None:
  checks.check_mapping(named, where)
  for name, changes in named.items():
    checks.check_name(name, f"a name in {where}")
    checks.check_changes(changes, f"{where}[{name!r}]")
