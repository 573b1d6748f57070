"""The commands that run one run of a study alone."""

from collections.abc import Sequence
import re
import shlex

from transformer_zoo.studies.design import plan
from transformer_zoo.studies.design import run_bindings

# What a shell leaves as it is within double quotes.
_PLAIN_IN_QUOTES = re.compile(r"[^\"$`\\!]*")


def of_run(run: plan.Run, options: Sequence[str]) -> str:
  """Returns a run's command, but for the checkpoints that it starts from.

  Args:
    run: the run, whose gin file lies in its folder.
    options: words that it needs too.
  """
  words = ["zoo", run.command, f"--gin_file={run.folder / plan.RUN_FILE}"]
  if run.command == "train":
    bindings = run_bindings.of_run(run.command, run.random_seed, run.folder)
    words += [f"--gin.{binding}" for binding in bindings]
  else:
    words += [f"--mixture={run.mixture}", f"--output_dir={run.folder}"]
  return join([*words, *options])


def with_checkpoints(command: str, checkpoints: Sequence[str]) -> str:
  """Returns the whole command of a run.

  Args:
    command: as `of_run` gives it.
    checkpoints: what the run starts from.
  """
  kind = command.split()[1]
  if kind == "train":
    bindings = run_bindings.of_starts(kind, checkpoints)
    words = [f"--gin.{binding}" for binding in bindings]
  else:
    words = [f"--checkpoint={checkpoint}" for checkpoint in checkpoints]
    if len(checkpoints) == 1:
      # By itself it would be evaluated into a folder of its step.
      words += [
        f"--gin.{one}" for one in run_bindings.of_starts(kind, checkpoints)
      ]
  return " ".join([command, *map(_quoted, words)])


def join(words: Sequence[str]) -> str:
  """Returns words as a shell reads them."""
  return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
  """As `shlex.quote`, but double quotes around the single ones of gin."""
  if "'" in word and _PLAIN_IN_QUOTES.fullmatch(word):
    return f'"{word}"'
  return shlex.quote(word)
