"""Which runs a study consists of on a suite, and which of them are the same."""

from collections.abc import Iterable, Iterator, Mapping
import dataclasses
import functools
import hashlib
import os
import pathlib

import gin

from transformer_zoo import config
from transformer_zoo.errors import UserError
from transformer_zoo.studies.design import checks
from transformer_zoo.studies.design import column_tasks
from transformer_zoo.studies.design import data_marks
from transformer_zoo.studies.design import expressions
from transformer_zoo.studies.design import run_bindings
from transformer_zoo.studies.design.study import ALL_PHASES
from transformer_zoo.studies.design.study import ENSEMBLE
from transformer_zoo.studies.design.study import Row
from transformer_zoo.studies.design.study import Study
from transformer_zoo.studies.design.suite import Suite

POOL = "runs"
RUN_FILE = "run.gin"
# Seeds of the other members of an ensemble: the first is the row's own run, and
# no seed that a study is likely to have is used for two.
MEMBER_STRIDE = 1000


@dataclasses.dataclass(frozen=True)
class Run:
  """One phase of one row with one seed, for one group or for all of them.

  Attributes:
    row: the row's name.
    seed: the row's seed.
    group: the group it is for, or "" where it is the same for all groups.
    part: the part of the group, or "" where it is all of it.
    phase: the phase's name.
    member: which member of an ensemble, from 0.
    random_seed: the row's seed, or another one for the other members.
    changes: gin files and bindings in their order, without `$(...)`.
    command: what runs it, "train" or "evaluate".
    mixture: the mixture or task that it reads.
    scored: whether its scores are the row's.
    folder: the run folder, in the pool of all studies.
    fingerprint: a hash of all that the run computes from: the configuration
      but for where it is written, the prepared data, and the fingerprints of
      its starts.
    starts: folders of the runs whose checkpoints it starts from: none, one, or
      the members of an ensemble.
    shared: whether an earlier run of the study is the very same.
    prepared_dir: where the mixture lies, prepared.
  """

  row: str
  seed: int
  group: str
  phase: str
  member: int
  random_seed: int
  changes: tuple[str, ...]
  command: str
  mixture: str
  scored: bool
  folder: pathlib.Path
  fingerprint: str
  starts: tuple[pathlib.Path, ...]
  shared: bool
  part: str = ""
  prepared_dir: str = ""

  @property
  def name(self) -> str:
    """What the terminal calls the run."""
    return run_name(
      self.row, self.seed, self.group, self.phase, self.member, self.part
    )


def as_gin(run: Run) -> str:
  """Returns a run as a gin file, but for its seed, folder and checkpoints."""
  lines = [
    f"include {change!r}"
    if change.endswith(".gin")
    else " = ".join(map(str.strip, change.split("=", 1)))
    for change in run.changes
  ]
  return "\n".join(lines) + "\n"


def run_name(
  row: str, seed: int, group: str, phase: str, member: int = 0, part: str = ""
) -> str:
  """What a run is called: `rate_25 / seed 0 / GLUE / finetune`."""
  words = [row, f"seed {seed}", group, phase, part]
  words.append(f"member {member}" * bool(member))
  return " / ".join(filter(None, words))


def plan(
  study: Study,
  suite: Suite,
  *,
  output_dir: str | os.PathLike[str] = "runs",
  search_paths: Iterable[str | os.PathLike[str]] = (),
  prepare: bool = True,
) -> list[Run]:
  """Lists the runs of a study in their order and finds the shared ones.

  Args:
    study: the study, checked.
    suite: what it is run on, checked.
    output_dir: where the pool of runs lies.
    search_paths: folders for gin files, before the project's own.
    prepare: whether data that is not prepared is. Where not, the folders of
      runs that read such data are not the ones that they will have.

  Returns:
    The runs by seed, row, group and phase, in this order of loops; a run that
    is the same for all groups stands with the first.

  Raises:
    UserError: a part that the study needs does not exist yet, a phase is not
      the suite's, a configuration cannot be loaded or trains for no step, data
      cannot be prepared, a column wants a task that no run reads, or two rows
      have one label.
  """
  if study.missing:
    raise UserError(f"study {study.name!r} cannot be run yet: {study.missing}")
  suite.check_study(study)
  _check_member_seeds(study)
  data_mark = data_marks.made if prepare else data_marks.found
  pool = pathlib.Path(output_dir) / POOL
  planner = _Planner(suite, pool, search_paths, data_mark)
  for seed in study.seeds:
    for row in study.rows:
      for group in suite.groups_of(row):
        planner.add_chain(row, seed, group)
  column_tasks.check(suite, suite.columns_of(study), planner.runs)
  labels = [expressions.expand(row.shown, suite.values) for row in study.rows]
  checks.check_unique(labels, f"study {study.name!r}", "row label")
  return planner.runs


def _check_member_seeds(study: Study) -> None:
  """Raises UserError where members of one seed are those of another."""
  left = {seed % MEMBER_STRIDE for seed in study.seeds}
  if len(left) < len(study.seeds) and any(row.copies for row in study.rows):
    raise UserError(
      f"study {study.name!r} has ensembles and the seeds {list(study.seeds)}, "
      f"of which some differ by a multiple of {MEMBER_STRIDE}; their members "
      "would be the same runs, so take other seeds"
    )


class _Planner:
  """Collects runs; equal ones get one folder."""

  def __init__(self, suite: Suite, pool: pathlib.Path, search_paths, data_mark):
    self._runs: dict[str, Run] = {}  # By name.
    self._suite = suite
    self._pool = pool
    self._search_paths = tuple(search_paths)
    self._folders = _folders_by_hash(pool)
    self._seen = set()  # Folders of runs.
    self._configuration = functools.cache(self._configuration_uncached)
    self._data_mark = functools.cache(data_mark)

  @property
  def runs(self) -> list[Run]:
    """The runs so far, in their order."""
    return list(self._runs.values())

  def add_chain(self, row: Row, seed: int, group: str) -> None:
    """Adds the runs of a row with a seed for a group."""
    ends = [None]
    for phase in row.phases:
      copies = row.copies.get(phase, 1)
      ends = [
        self._add(row, seed, group, part, phase, copies * number + copy, start)
        for number, start in enumerate(ends)
        for copy in range(copies)
        for part in self._suite.parts_of(phase, group)
      ]
    if row.copies:
      self._add(row, seed, group, "", ENSEMBLE, 0, *ends)

  def _add(self, row, seed, group, part, phase, member, *starts) -> Run:
    """Adds a run, unless the row has it for all groups already."""
    starts = tuple(filter(None, starts))
    random_seed = seed + MEMBER_STRIDE * member
    command = self._suite.commands.get(phase, "train")
    try:
      changes, grouped = self._changes(row, phase, group, part)
      mark, *data = self._identify(command, changes, random_seed, starts)
    except UserError as error:
      where = f"row {row.name!r}, phase {phase!r}, group {group!r}"
      raise UserError(f"{where}: {error}") from error
    short = mark[:12]
    folder = self._folders.setdefault(short, self._pool / f"{phase}-{short}")
    grouped = grouped or any(start.group for start in starts)
    run = Run(
      row=row.name,
      seed=seed,
      group=group if grouped else "",
      phase=phase,
      member=member,
      random_seed=random_seed,
      changes=changes,
      command=command,
      mixture=data[0],
      prepared_dir=data[1],
      scored=phase == row.chain[-1],
      folder=folder,
      fingerprint=mark,
      starts=tuple(start.folder for start in starts),
      shared=folder in self._seen,
      part=part,
    )
    self._seen.add(folder)
    return self._runs.setdefault(run.name, run)

  def _changes(
    self, row: Row, phase: str, group: str, part: str
  ) -> tuple[tuple[str, ...], bool]:
    """A run's changes without `$(...)`, and whether the group matters."""
    suite = self._suite
    of_group = suite.changes_of_group(phase, group, part)
    changes = (
      *suite.phases[phase],
      *(of_group or ()),
      *row.changes.get(ALL_PHASES, ()),
      *row.changes.get(phase, ()),
      *suite.after.get(phase, ()),
    )
    names = set().union(*map(expressions.names, changes))
    for name in sorted(names & suite.missing.keys()):
      raise UserError(
        f"suite {suite.name!r} cannot run it: {suite.missing[name]}"
      )
    grouped = of_group is not None or "group" in names
    values = {**suite.values, "group": group}
    expanded = tuple(expressions.expand(one, values) for one in changes)
    checks.check_changes(expanded, "its changes")
    return expanded, grouped

  def _identify(
    self, command: str, changes: tuple[str, ...], random_seed: int, starts
  ) -> tuple[str, str, str]:
    """A run's fingerprint; the mixture that it reads, and from where."""
    configuration, *data = self._configuration(command, changes, len(starts))
    parts = [command, configuration, str(random_seed), self._data_mark(*data)]
    parts += [start.fingerprint for start in starts]
    return hashlib.sha256(" ".join(parts).encode()).hexdigest(), *data

  def _configuration_uncached(
    self, command: str, changes: tuple[str, ...], num_starts: int
  ) -> tuple[str, str, str]:
    """A checked configuration's hash; the mixture it reads, and from where.

    Seeds and checkpoints are in the fingerprint apart, so that a configuration
    is looked at once for all of them.
    """
    bindings = run_bindings.of_run(command, 0, "", ["start"] * num_starts)
    try:
      config.load(
        (), bindings, self._search_paths, changes=changes, root=command
      )
      if command == "train" and (steps := config.setting("train_steps")) < 1:
        raise UserError(f"TRAIN_STEPS={steps} must be at least 1")
      settings = map(config.setting, ("mixture_or_task_name", "prepared_dir"))
      return config.config_hash(), *settings
    finally:
      gin.clear_config()


def distinct(runs: Iterable[Run]) -> Iterator[Run]:
  """Yields each run that is not the same as an earlier one."""
  return (run for run in runs if not run.shared)


def _folders_by_hash(pool: pathlib.Path) -> Mapping[str, pathlib.Path]:
  """Folders of earlier runs, whatever their study called the phase."""
  return {path.name.rpartition("-")[2]: path for path in pool.glob("*-*")}
