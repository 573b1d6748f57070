"""A study as data: rows that differ in one thing, phases that make a row.

A study is one gin file, `gin_configs/studies/<name>.gin`:

    Study.name = "quickstart"
    Study.question = "Does pre-training help?"
    Study.seeds = (0, 1, 2)
    Study.rows = (@baseline/Row(), @no_pretraining/Row())

    baseline/Row.name = "baseline"
    baseline/Row.phases = (@pretrain/Phase(), @finetune/Phase())

    pretrain/Phase.name = "pretrain"
    pretrain/Phase.gin_files = ("runs/pretrain.gin",)
    pretrain/Phase.bindings = ("TRAIN_STEPS=1000",)

    finetune/Phase.name = "finetune"
    finetune/Phase.gin_files = ("runs/finetune.gin",)
    finetune/Phase.starts_from = "pretrain"
"""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import os
import pathlib
import re

import gin

from transformer_zoo import config
from transformer_zoo.config import reading
from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError


@gin.register
@dataclasses.dataclass(frozen=True)
class Phase:
  """One training run of a row.

  Attributes:
    name: unique in its row; also the name of the run folder.
    gin_files: the run's configuration, later files winning over earlier ones.
    bindings: `NAME=VALUE` strings over the files.
    starts_from: an earlier phase of the row whose best checkpoint (the last
      one where none was selected) this phase starts from; None for none.
  """

  name: str = ""
  gin_files: Sequence[str] = ()
  bindings: Sequence[str] = ()
  starts_from: str | None = None


@gin.register
@dataclasses.dataclass(frozen=True)
class Row:
  """One line of the table.

  Attributes:
    name: unique in the study; also the name of a folder.
    phases: in the order in which they run. The scores of the row are those of
      the phases that no other phase starts from.
    published: the scores of the publication by column (`average`, or the name
      of a task), shown beside ours; None for none.
  """

  name: str = ""
  phases: Sequence[Phase] = ()
  published: Mapping[str, float] | None = None

  def scored_phases(self) -> tuple[Phase, ...]:
    """Returns the phases whose scores are the row's."""
    inner = {phase.starts_from for phase in self.phases}
    return tuple(phase for phase in self.phases if phase.name not in inner)


@gin.register
@dataclasses.dataclass(frozen=True)
class Study:
  """A question and the table of runs that answers it.

  Attributes:
    name: also the name of the study's folder.
    question: what the table is to answer, one or two sentences.
    rows: the lines of the table.
    seeds: every row runs once with each.
    baseline: the row that the others are compared with; the first by default.
  """

  name: str = ""
  question: str = ""
  rows: Sequence[Row] = ()
  seeds: Sequence[int] = (0,)
  baseline: str = ""

  @property
  def baseline_name(self) -> str:
    """The name of the row that the others are compared with."""
    return self.baseline or self.rows[0].name

  def check(self) -> None:
    """Checks that the study can be run as it is written.

    Raises:
      UserError: a name that is missing, repeated or unfit for a folder, an
        empty list, or a phase that starts from a phase not before it.
    """
    _check_name(self.name, "Study.name")
    if not self.rows:
      raise UserError(
        f"study {self.name!r} has no rows; list them in Study.rows as "
        "(@first/Row(), @second/Row())"
      )
    _check_seeds(self.seeds, f"study {self.name!r}")
    _check_kind(self.rows, Row, "Study.rows")
    rows = [row.name for row in self.rows]
    for row in self.rows:
      _check_name(row.name, "Row.name")
      _check_row(row)
    _check_unique(rows, f"study {self.name!r}", "row")
    if self.baseline_name not in rows:
      raise UserError(
        f"the baseline of study {self.name!r} is {self.baseline!r}, which is "
        f"no row of it{nearest(self.baseline, rows)}"
      )


def load_study(
  name_or_path: str, search_paths: Iterable[str | os.PathLike[str]] = ()
) -> Study:
  """Reads a study from its gin file. Gin's configuration is empty afterwards.

  Args:
    name_or_path: the name of a file in a `studies/` folder, without `.gin`, or
      the path of a gin file. It may include others, as
      `include 'studies/quickstart.gin'`.
    search_paths: folders that hold `studies/`, looked at before the current
      one and the gin files that the package ships.

  Returns:
    The study, checked.

  Raises:
    UserError: no such study, a file that gin cannot parse, or a study that
      cannot be run as it is written (`Study.check`).
  """
  path = _find(name_or_path, search_paths)
  gin.clear_config()
  try:
    for binding in reading.read_file(str(path), tuple(search_paths)):
      gin.bind_parameter(binding.key, binding.value)
    study = gin.get_configurable("Study")()
  except (ValueError, TypeError, RuntimeError, SyntaxError, OSError) as error:
    reason = str(error).strip().splitlines() or [type(error).__name__]
    raise UserError(f"{path} is not a study: {reason[0]}") from error
  finally:
    gin.clear_config()
  study.check()
  return study


def study_names(
  search_paths: Iterable[str | os.PathLike[str]] = (),
) -> list[str]:
  """Returns the names that `load_study` knows, sorted."""
  return sorted(_files(search_paths))


def with_seeds(study: Study, seeds: Sequence[int]) -> Study:
  """Returns the same study with other seeds.

  Raises:
    UserError: a seed that is repeated or not a whole number from 0 up.
  """
  _check_seeds(seeds, f"study {study.name!r}")
  return dataclasses.replace(study, seeds=tuple(seeds))


def _files(search_paths) -> dict[str, pathlib.Path]:
  files = {}
  for folder in config.folders(search_paths):
    for path in sorted(pathlib.Path(folder).glob("studies/*.gin")):
      files.setdefault(path.stem, path)
  return files


def _find(name_or_path, search_paths) -> pathlib.Path:
  path = pathlib.Path(name_or_path)
  if path.suffix == ".gin":
    for folder in config.folders(search_paths):
      if (pathlib.Path(folder) / path).is_file():
        return pathlib.Path(folder) / path
    raise UserError(f"there is no study file {str(path)!r}")
  files = _files(search_paths)
  if name_or_path not in files:
    raise UserError(
      f"unknown study {name_or_path!r}{nearest(name_or_path, files)}"
    )
  return files[name_or_path]


def _check_row(row: Row) -> None:
  where = f"row {row.name!r}"
  if not row.phases:
    raise UserError(
      f"{where} has no phases; list them in {row.name}/Row.phases as "
      "(@first/Phase(), @second/Phase())"
    )
  _check_kind(row.phases, Phase, f"{row.name}/Row.phases")
  names = [phase.name for phase in row.phases]
  for phase in row.phases:
    _check_name(phase.name, f"Phase.name in {where}")
  _check_unique(names, where, "phase")
  for index, phase in enumerate(row.phases):
    here = f"phase {phase.name!r} of {where}"
    for field in ("gin_files", "bindings"):
      _check_strings(getattr(phase, field), f"{field} of {here}")
    for binding in phase.bindings:
      if "=" not in binding:
        raise UserError(
          f"the binding {binding!r} of {here} is not of the form NAME=VALUE"
        )
    _check_start(phase, names, index, here)


def _check_start(phase, names, index, here) -> None:
  start = phase.starts_from
  if start is None or start in names[:index]:
    return
  if start == phase.name:
    raise UserError(f"{here} starts from itself; name an earlier phase")
  if start in names:
    raise UserError(
      f"{here} starts from {start!r}, which comes later; list {start!r} first"
    )
  raise UserError(
    f"{here} starts from {start!r}, which is no phase of that row"
    f"{nearest(str(start), names[:index])}"
  )


def _check_kind(values, kind, what) -> None:
  for value in values:
    if not isinstance(value, kind):
      raise UserError(
        f"{what} holds {value!r}, which is no {kind.__name__}; write "
        f"@name/{kind.__name__}() with its parentheses"
      )


def _check_name(name, what) -> None:
  if not isinstance(name, str) or not re.fullmatch(r"\w[\w.+-]*", name):
    raise UserError(
      f"{what} is {name!r}; it names a folder, so use letters, digits and "
      "_ . + - only"
    )


def _check_unique(names, where, what) -> None:
  for name in names:
    if names.count(name) > 1:
      raise UserError(
        f"{where} has {names.count(name)} {what}s named {name!r}; names must "
        "differ"
      )


def _check_strings(value, what) -> None:
  if isinstance(value, str) or not all(isinstance(one, str) for one in value):
    raise UserError(
      f"{what} must be a list of strings, like ['...'], not {value!r}"
    )


def _check_seeds(seeds, where) -> None:
  seeds = tuple(seeds)
  if not seeds:
    raise UserError(f"{where} has no seeds; give at least one, like (0,)")
  for seed in seeds:
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
      raise UserError(
        f"seed {seed!r} of {where} is not a whole number from 0 up"
      )
    if seeds.count(seed) > 1:
      raise UserError(f"seed {seed} of {where} is given twice")
