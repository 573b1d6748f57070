"""Which runs a study consists of, and which of them are the same run."""

from collections.abc import Iterable
import dataclasses
import hashlib
import os
import pathlib

import gin

from transformer_zoo import config
from transformer_zoo.ablations import results
from transformer_zoo.ablations import study as studies
from transformer_zoo.errors import UserError


@dataclasses.dataclass(frozen=True)
class Run:
  """One phase of one row with one seed.

  Attributes:
    row: the row's name.
    seed: the random seed.
    phase: what to run.
    scored: whether its scores are the row's.
    folder: the run folder; it is another row's where `shared`.
    fingerprint: a hash of the configuration but for the run folder, and of
      the fingerprint of the run it starts from.
    start: the folder of the run it starts from, or None.
    shared: whether an earlier row has the very same run.
  """

  row: str
  seed: int
  phase: studies.Phase
  scored: bool
  folder: pathlib.Path
  fingerprint: str
  start: pathlib.Path | None
  shared: bool

  @property
  def name(self) -> str:
    """What the terminal calls the run."""
    return f"{self.row} / seed {self.seed} / {self.phase.name}"


def plan(
  study: studies.Study,
  *,
  output_dir: str | os.PathLike[str] = "runs",
  search_paths: Iterable[str | os.PathLike[str]] = (),
) -> list[Run]:
  """Lists the runs of a study in their order and finds the shared ones.

  Args:
    study: the study, checked.
    output_dir: where the study's folder will be.
    search_paths: folders for gin files, before the project's own.

  Returns:
    One run per seed, row and phase, in this order of loops.

  Raises:
    UserError: a configuration that cannot be loaded.
  """
  root = pathlib.Path(output_dir) / study.name
  search_paths = tuple(search_paths)
  owners = {}  # Fingerprint -> folder of the first run that has it.
  runs = []
  for seed in study.seeds:
    for row in study.rows:
      done = {}  # Phase name -> its run.
      for phase in row.phases:
        start = done.get(phase.starts_from)
        try:
          mark = _fingerprint(phase, seed, start, search_paths)
        except UserError as error:
          where = f"row {row.name!r}, phase {phase.name!r}"
          raise UserError(f"{where}: {error}") from error
        folder = root / row.name / f"seed_{seed}" / phase.name
        run = Run(
          row=row.name,
          seed=seed,
          phase=phase,
          scored=phase in row.scored_phases(),
          folder=owners.setdefault(mark, folder),
          fingerprint=mark,
          start=start.folder if start else None,
          shared=owners[mark] != folder,
        )
        done[phase.name] = run
        runs.append(run)
  return runs


def run_bindings(
  phase: studies.Phase,
  seed: int,
  folder: str | os.PathLike[str],
  checkpoint: str | os.PathLike[str] | None,
) -> list[str]:
  """Returns the `NAME=VALUE` bindings of a run, those of its phase first.

  Args:
    phase: what to run.
    seed: the random seed.
    folder: the run folder.
    checkpoint: what the run starts from; None to leave it to the gin files.
  """
  bindings = [
    *phase.bindings,
    f"MODEL_DIR={str(folder)!r}",
    f"RANDOM_SEED={seed}",
  ]
  if checkpoint is not None:
    bindings.append(results.checkpoint_binding(checkpoint))
  return bindings


def _fingerprint(phase, seed, start, search_paths) -> str:
  """Hash of a run's configuration, with its ancestors' in place of paths."""
  parent = start.fingerprint if start else None
  bindings = run_bindings(phase, seed, "", parent)
  try:
    config.load(phase.gin_files, bindings, search_paths)
    text = f"{parent} {config.config_hash()}"
  finally:
    gin.clear_config()
  return hashlib.sha256(text.encode()).hexdigest()
