"""One planned run of a study: its name, gin file, bindings and command."""

from collections.abc import Sequence
import dataclasses
import os
import pathlib
import re
import shlex
from typing import Any

from transformer_zoo.studies.design.suite import Column

RUN_FILE = "run.gin"
# Characters that a shell does not interpret within double quotes.
_PLAIN_IN_QUOTES = re.compile(r"[^\"$`\\!]*")


@dataclasses.dataclass(frozen=True)
class Run:
  """One phase of one row with one seed, for one group or for all of them.

  Attributes:
    row: The name of the row.
    seed: The seed of the row.
    group: The name of the group that the run belongs to, or "" if the run is
      the same for all groups.
    phase: The name of the phase.
    member: The index of the member of an ensemble, from 0.
    random_seed: The seed of the training: `seed` for the first member of an
      ensemble, another one for each other member.
    changes: The gin files and bindings in their order, `$(...)` expanded.
    command: The command that executes the run, "train" or "evaluate".
    mixture: The name of the mixture or task that the run reads.
    scored: True if the scores of the run are the row's scores.
    folder: The run folder, in the pool that all studies share.
    fingerprint: A hash of everything that determines the result: the
      configuration without output paths, the prepared data, the version of the
      suite, and the fingerprints of the runs it starts from.
    starts: The folders of the runs whose checkpoints it starts from: none, one,
      or the members of an ensemble.
    shared: True if an earlier run of the study is identical.
    part: The name of the part of the group, or "" for the whole group.
    prepared_dir: The folder with the prepared mixture.
    probes: The names of the probes that an evaluation asks in place of the
      mixture's examples.
    alternative: The changes of a grid that a run of the search tries, as text;
      "" for any other run.
    choice: The choice among alternatives that the run waits for, or None. Until
      it is made, the changes are those of the first alternative, and the folder
      stands for the one that will be chosen.
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
  probes: tuple[str, ...] = ()
  alternative: str = ""
  choice: "Choice | None" = None

  @property
  def name(self) -> str:
    """The name of the run in messages and tables."""
    return run_name(self)

  @property
  def awaited(self) -> tuple[pathlib.Path, ...]:
    """The folders of the runs that have to end before this one starts."""
    return self.starts + (self.choice.searched if self.choice else ())


@dataclasses.dataclass(frozen=True)
class Choice:
  """The choice of one alternative of a grid by the scores of a search.

  Attributes:
    searched: The folders of the runs of the search, one for each alternative.
    runs: The runs of which one is chosen, in the same order.
    columns: The columns whose scores are compared.
  """

  searched: tuple[pathlib.Path, ...]
  runs: tuple[Run, ...]
  columns: tuple[Column, ...]


def run_name(run: Any) -> str:
  """Returns the name of a run: `rate_25 / seed 0 / GLUE / finetune`.

  Args:
    run: A planned run, or one of `results.RunResult`.
  """
  words = [run.row, f"seed {run.seed}", run.group, run.phase, run.part]
  words += [run.alternative, f"member {run.member}" * bool(run.member)]
  return " / ".join(filter(None, words))


def write_gin(run: Run) -> None:
  """Writes a run as a gin file that can be run alone, `run.gin`."""
  run.folder.mkdir(parents=True, exist_ok=True)
  (run.folder / RUN_FILE).write_text(as_gin(run), encoding="utf-8")


def as_gin(run: Run) -> str:
  """Returns a run as a gin file without its seed, folder and checkpoints."""
  lines = [
    f"include {change!r}"
    if change.endswith(".gin")
    else " = ".join(map(str.strip, change.split("=", 1)))
    for change in run.changes
  ]
  return "\n".join(lines) + "\n"


def bindings(
  command: str,
  random_seed: int,
  folder: str | os.PathLike[str],
  checkpoints: Sequence[str | os.PathLike[str]] = (),
) -> list[str]:
  """Returns the gin bindings of a run that come after its changes.

  Args:
    command: "train", which starts from at most one checkpoint, or "evaluate".
    random_seed: The seed of the training.
    folder: The run folder.
    checkpoints: The checkpoints that the run starts from; empty to leave the
      choice to the gin files.
  """
  if command == "train":
    places = [f"RANDOM_SEED={random_seed}", f"MODEL_DIR={str(folder)!r}"]
  else:
    places = [f"evaluate.output_dir={str(folder)!r}"]
  return places + checkpoint_bindings(command, checkpoints)


def checkpoint_bindings(
  command: str, checkpoints: Sequence[str | os.PathLike[str]]
) -> list[str]:
  """Returns the binding of the checkpoints that a run starts from.

  Args:
    command: "train" or "evaluate".
    checkpoints: The paths of the checkpoints; the result is empty without any.
  """
  paths = [str(path) for path in checkpoints]
  if not paths:
    return []
  if command == "train":
    return [f"INITIAL_CHECKPOINT_PATH={paths[0]!r}"]
  return [f"CHECKPOINT_PATH={paths!r}"]


def shell_command(run: Run, options: Sequence[str]) -> str:
  """Returns the shell command of a run without the checkpoints it starts from.

  Args:
    run: The run, whose gin file lies in its folder.
    options: Further words of the command.
  """
  words = ["zoo", run.command, f"--gin_file={run.folder / RUN_FILE}"]
  if run.command == "train":
    bound = bindings(run.command, run.random_seed, run.folder)
    words += [f"--gin.{binding}" for binding in bound]
  else:
    words += [f"--mixture={run.mixture}", f"--output_dir={run.folder}"]
  return shell_join([*words, *options])


def with_checkpoints(command: str, checkpoints: Sequence[str]) -> str:
  """Returns a shell command with the checkpoints that the run starts from.

  Args:
    command: The result of `shell_command`.
    checkpoints: The paths of the checkpoints.
  """
  kind = command.split()[1]
  bound = [f"--gin.{one}" for one in checkpoint_bindings(kind, checkpoints)]
  if kind == "train":
    words = bound
  else:
    words = [f"--checkpoint={checkpoint}" for checkpoint in checkpoints]
    if len(checkpoints) == 1:
      # A single --checkpoint is evaluated into a folder named after its step.
      words += bound
  return " ".join([command, *map(_quoted, words)])


def shell_join(words: Sequence[str]) -> str:
  """Returns words joined to a line that a shell splits into the same words."""
  return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
  """Quotes as `shlex.quote`, but sets gin's single quotes in double quotes."""
  if "'" in word and _PLAIN_IN_QUOTES.fullmatch(word):
    return f'"{word}"'
  return shlex.quote(word)
