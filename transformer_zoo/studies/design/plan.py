"""The plan of a study on a suite: its runs in order, identical ones found.

Each run has a fingerprint of the configuration and data that it computes from,
and of the version of its suite.
Runs with equal fingerprints, of one study or of several in the same output
folder, share one folder of the pool.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
import copy
import dataclasses
import functools
import hashlib
import json
import os
import pathlib
from typing import NamedTuple

import gin

from transformer_zoo import config
from transformer_zoo.data.features import forms
from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError
from transformer_zoo.runs import inputs
from transformer_zoo.studies.design import checks
from transformer_zoo.studies.design import expressions
from transformer_zoo.studies.design import planned_run
from transformer_zoo.studies.design.planned_run import Choice
from transformer_zoo.studies.design.planned_run import Run
from transformer_zoo.studies.design.study import ALL_PHASES
from transformer_zoo.studies.design.study import ENSEMBLE
from transformer_zoo.studies.design.study import MODEL
from transformer_zoo.studies.design.study import Row
from transformer_zoo.studies.design.study import Study
from transformer_zoo.studies.design.suite import Column
from transformer_zoo.studies.design.suite import Suite

POOL = "runs"
# The distance between the seeds of two members of an ensemble, larger than the
# seeds of studies. The first member is the row's own run.
MEMBER_STRIDE = 1000
UNKNOWN_DATA = ""  # The data mark of data that is not prepared.


def plan(
  study: Study,
  suite: Suite,
  *,
  output_dir: str | os.PathLike[str] = "runs",
  search_paths: Iterable[str | os.PathLike[str]] = (),
  prepare: bool = True,
) -> list[Run]:
  """Lists the runs of a study in their order and marks the shared ones.

  Args:
    study: The study, checked.
    suite: The suite that the study runs on, checked.
    output_dir: The folder that contains the pool of runs.
    search_paths: Folders that are searched for gin files before the shipped
      ones.
    prepare: True to prepare missing data. Otherwise the folders of runs that
      read such data differ from those that they have later.

  Returns:
    The runs in the order of nested loops over seeds, rows, groups and phases; a
    run that is the same for all groups is listed with the first group. The
    search of a grid stands before the run of the first seed, which is one of
    it.

  Raises:
    UserError: If a part that the study needs does not exist yet, the suite
      lacks a phase, a configuration cannot be loaded or trains for no step,
      data cannot be prepared, a column names a task that no run reads, an
      alternative of a grid changes no run, or two rows have the same label.
  """
  if study.missing:
    raise UserError(f"study {study.name!r} cannot be run yet: {study.missing}")
  suite.check_study(study)
  _check_member_seeds(study)
  data_mark = mark_of_made_data if prepare else mark_of_found_data
  pool = pathlib.Path(output_dir) / POOL
  planner = _Planner(study, suite, pool, search_paths, data_mark)
  for seed in study.seeds:
    for row in study.rows:
      for group in suite.groups_of(row, study):
        planner.add_chain(row, seed, group)
  planner.check_grids()
  check_columns(suite, suite.columns_of(study), planner.runs)
  labels = [expressions.expand(row.shown, suite.values) for row in study.rows]
  checks.check_unique(labels, f"study {study.name!r}", "row label")
  return planner.runs


def _check_member_seeds(study: Study) -> None:
  """Raises UserError if two seeds have a member in common."""
  left = {seed % MEMBER_STRIDE for seed in study.seeds}
  if len(left) < len(study.seeds) and any(row.copies for row in study.rows):
    raise UserError(
      f"study {study.name!r} has ensembles and the seeds {list(study.seeds)}, "
      f"of which some differ by a multiple of {MEMBER_STRIDE}; their members "
      "would be the same runs, so take other seeds"
    )


class Read(NamedTuple):
  """What a run reads.

  Attributes:
    mixture: The name of the mixture or task.
    prepared_dir: The folder with the prepared mixture.
    probes: The names of the probes that are asked in place of its examples.
    asked: A hash of what the probes ask, "" without any.
  """

  mixture: str
  prepared_dir: str
  probes: tuple[str, ...] = ()
  asked: str = ""


class _Planner:
  """Collects runs; identical ones share a folder."""

  def __init__(
    self,
    study: Study,
    suite: Suite,
    pool: pathlib.Path,
    search_paths,
    data_mark,
  ):
    self._runs: dict[str, Run] = {}  # By name.
    self._study = study
    self._suite = suite
    self._grids = {**suite.grids, **study.grids}
    self._columns = suite.columns_of(study)
    self._searches = {}  # Row, group and part -> the runs of a search.
    self._tried = {phase: set() for phase in self._grids}  # Indices.
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
      is_searched = phase in self._grids and phase == row.chain[-1]
      add = self._add_chosen if is_searched else self._add
      ends = [
        add(row, seed, group, part, phase, copies * number + copy, start)
        for number, start in enumerate(ends)
        for copy in range(copies)
        for part in self._suite.parts_of(phase, group)
      ]
    if row.copies:
      self._add(row, seed, group, "", ENSEMBLE, 0, *ends)

  def check_grids(self) -> None:
    """Raises UserError if an alternative of a grid changes nothing."""
    for phase, tried in self._tried.items():
      # A suite's grid may be of phases and settings that a study has not.
      if not tried and phase not in self._study.grids:
        continue
      for index, alternative in enumerate(self._grids[phase]):
        if index not in tried:
          raise UserError(
            f"the alternative {', '.join(alternative)!r} in the grid of "
            f"{phase!r} changes no run of study {self._study.name!r}: it is "
            "the same as one before it, or groups and rows bind the same names"
          )

  def _add_chosen(self, row, seed, group, part, phase, _, start) -> Run:
    """Adds a run that is chosen, with the first seed after the search."""
    if self._suite.command_of(phase, group) != "train":
      return self._add(row, seed, group, part, phase, 0, start)
    grid = self._grids[phase]
    runs = [
      self._run(row, seed, group, part, phase, 0, [start], one) for one in grid
    ]
    indices = {}  # Of alternatives that come to one configuration, the first.
    for index, run in enumerate(runs):
      indices.setdefault(run.fingerprint, index)
    if len(indices) == 1:
      return self._listed(runs[0])
    self._tried[phase] |= {*indices.values()}
    runs = tuple(runs[index] for index in indices.values())
    columns = tuple(
      c for c in self._columns if runs[0].group in ("", c.of_group)
    )
    if not columns:
      raise UserError(
        f"no column of suite {self._suite.name!r} scores the group {group!r}, "
        f"so the grid of {phase!r} has nothing to choose by"
      )
    search = self._searches.setdefault((row.name, runs[0].group, part), [])
    if not search:
      for run, index in zip(runs, indices.values(), strict=True):
        values = {**self._suite.values, "group": group}
        text = ", ".join(expressions.expand(c, values) for c in grid[index])
        tried = dataclasses.replace(run, alternative=text, scored=False)
        search.append(self._listed(tried))
    folders = tuple(run.folder for run in search)
    chosen = dataclasses.replace(runs[0], choice=Choice(folders, runs, columns))
    if folders[0] != chosen.folder:  # Not of the search's seed.
      marks = [run.fingerprint for run in (*search, *runs)]
      marks += [f"{column.scores} {column.average}" for column in columns]
      mark = _digest(" ".join(marks))
      folder = self._pool / f"{phase}-{mark[:12]}"
      chosen = dataclasses.replace(chosen, fingerprint=mark, folder=folder)
    return self._listed(chosen)

  def _add(self, row, seed, group, part, phase, member, *starts) -> Run:
    """Adds a run, unless the row has it for all groups already."""
    return self._listed(
      self._run(row, seed, group, part, phase, member, starts)
    )

  def _listed(self, run: Run) -> Run:
    run = dataclasses.replace(run, shared=run.folder in self._seen)
    self._seen.add(run.folder)
    return self._runs.setdefault(run.name, run)

  def _run(
    self, row, seed, group, part, phase, member, starts, alternative=()
  ) -> Run:
    starts = tuple(filter(None, starts))
    random_seed = seed + MEMBER_STRIDE * member
    command = self._suite.command_of(phase, group)
    try:
      changes, grouped = self._changes(row, phase, group, part, alternative)
      mark, read = self._identify(command, changes, random_seed, starts)
    except UserError as error:
      where = f"row {row.name!r}, phase {phase!r}, group {group!r}"
      raise UserError(f"{where}: {error}") from error
    short = mark[:12]
    folder = self._folders.setdefault(short, self._pool / f"{phase}-{short}")
    grouped = grouped or any(start.group for start in starts)
    return Run(
      row=row.name,
      seed=seed,
      group=group if grouped else "",
      phase=phase,
      member=member,
      random_seed=random_seed,
      changes=changes,
      command=command,
      mixture=read.mixture,
      prepared_dir=read.prepared_dir,
      probes=read.probes,
      scored=phase == row.chain[-1],
      folder=folder,
      fingerprint=mark,
      starts=tuple(start.folder for start in starts),
      shared=False,
      part=part,
    )

  def _changes(
    self,
    row: Row,
    phase: str,
    group: str,
    part: str,
    alternative: Sequence[str],
  ) -> tuple[tuple[str, ...], bool]:
    """Returns a run's expanded changes, and whether the group matters."""
    suite = self._suite
    of_group = suite.changes_of_group(phase, group, part)
    own = suite.has_own_command(phase, group)
    changes = (
      *(() if own else (*suite.phases[phase], *alternative)),
      *row.changes.get(MODEL, ()),
      *(of_group or ()),
      *row.changes.get(ALL_PHASES, ()),
      *(() if own else row.changes.get(phase, ())),
      *suite.after.get(phase, ()),
    )
    names = set().union(*map(expressions.names, changes))
    # A phase that is missing may have the name of a value: heads.
    for name in sorted((names - suite.values.keys()) & suite.missing.keys()):
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
  ) -> tuple[str, Read]:
    """Returns a run's fingerprint, and what it reads."""
    configuration, read = self._configuration(command, changes, len(starts))
    mark = self._data_mark(read.mixture, read.prepared_dir)
    parts = [command, configuration, str(random_seed), mark]
    parts += [start.fingerprint for start in starts]
    parts += filter(None, [read.asked])
    # Runs from before suites had versions keep their folders.
    if self._suite.version > 1:
      parts.append(f"suite version {self._suite.version}")
    return _digest(" ".join(parts)), read

  def _configuration_uncached(
    self, command: str, changes: tuple[str, ...], num_starts: int
  ) -> tuple[str, Read]:
    """Returns a configuration's hash, and what the run reads.

    The seed and the checkpoints enter the fingerprint separately, so that each
    configuration is loaded once for all of them.
    """
    bindings = planned_run.bindings(command, 0, "", ["start"] * num_starts)
    try:
      config.load(
        (), bindings, self._search_paths, changes=changes, root=command
      )
      steps = config.setting("train_steps") if command == "train" else 1
      if isinstance(steps, int) and steps < 1:  # Others follow from the run.
        raise UserError(f"TRAIN_STEPS={steps} must be at least 1")
      # gin builds a reference when it is copied.
      converter = copy.deepcopy(config.setting("converter"))
      mixture = forms.name_in_form(
        config.setting("mixture_or_task_name"), converter.form
      )
      read = Read(mixture, config.setting("prepared_dir"))
      if command == "train":
        self._check_vocabularies(read)
      if command == "evaluate":
        probes = copy.deepcopy(config.setting("probes"))
        read = _with_probes(read, probes) if probes else read
      return config.config_hash(), read
    finally:
      gin.clear_config()

  def _check_vocabularies(self, read: Read) -> None:
    """Raises UserError if prepared data has ids that the model has not."""
    self._data_mark(read.mixture, read.prepared_dir)
    try:
      mixture = manifest.load(read.mixture, read.prepared_dir)
    except UserError:  # It is not prepared, so nothing is known of it.
      return
    model = copy.deepcopy(config.setting("model"))
    for task in mixture.tasks:
      inputs.check_vocabulary_of(model, task)


def _with_probes(read: Read, probes) -> Read:
  from transformer_zoo.runs.analysis import probe_scores

  probe_scores.check(probes)
  return read._replace(
    probes=tuple(probe.name for probe in probes),
    asked=_digest(repr([probe.content() for probe in probes])),
  )


def distinct(runs: Iterable[Run]) -> Iterator[Run]:
  """Yields the runs that are not identical to an earlier one."""
  return (run for run in runs if not run.shared)


def _folders_by_hash(pool: pathlib.Path) -> Mapping[str, pathlib.Path]:
  """Returns the folders of existing runs by their hash, whatever the phase."""
  return {path.name.rpartition("-")[2]: path for path in pool.glob("*-*")}


def check_columns(
  suite: Suite, columns: Iterable[Column], runs: Collection[Run]
) -> None:
  """Checks that the runs of each column's group read the column's tasks.

  Data that is not prepared yet is not checked.

  Args:
    suite: The suite of the columns.
    columns: The columns that rows of the study can have scores in.
    runs: The runs of the study.

  Raises:
    UserError: If a column names a task that no scored run of its group reads.
  """
  read = {(run.mixture, run.prepared_dir) for run in runs if run.scored}
  tasks = {data: _task_names(*data) for data in read}
  for column in columns:
    known = set()
    for run in runs:
      if run.scored and run.group in ("", column.of_group):
        known |= set(run.probes) or tasks[run.mixture, run.prepared_dir]
    # `evaluate.suffix` may extend the names of tasks, as in "mini_corpus_2x",
    # and facts have a second task, as "kinds_typed".
    names = tuple(f"{name}_" for name in known)
    wrong = [task for task in column.tasks if not f"{task}_".startswith(names)]
    if wrong and "" not in known:
      raise UserError(
        f"column {column.name!r} of suite {suite.name!r} wants the task "
        f"{wrong[0]!r}, which no run for group {column.of_group!r} reads"
        f"{nearest(wrong[0], known)}"
      )


def _task_names(mixture: str, prepared_dir: str) -> set[str]:
  """Returns the tasks of a mixture, {""} if the mixture is not prepared."""
  try:
    found = manifest.load(mixture, prepared_dir)
  except UserError:
    return {""}
  # In a run, a form has the name of its text-to-text task.
  return {forms.split_name(task.name)[0] for task in found.tasks}


def mark_of_made_data(mixture_or_task_name: str, prepared_dir: str) -> str:
  """Prepares data if it is missing or outdated, and returns its mark.

  The mark is a hash of the contents; equal data in another folder has the same.

  Raises:
    UserError: If the data cannot be prepared, or is missing and SeqIO is not
      installed.
  """
  return _data_mark(inputs.prepared(mixture_or_task_name, prepared_dir))


def mark_of_found_data(mixture_or_task_name: str, prepared_dir: str) -> str:
  """Returns the mark of prepared data, `UNKNOWN_DATA` if there is none."""
  try:
    return _data_mark(manifest.load(mixture_or_task_name, prepared_dir))
  except UserError:
    return UNKNOWN_DATA


def _data_mark(mixture: manifest.PreparedMixture) -> str:
  return _digest(json.dumps(inputs.identity(mixture), sort_keys=True))


def _digest(text: str) -> str:
  return hashlib.sha256(text.encode()).hexdigest()
