"""The folder of a run: its place, its owner, its description, its result."""

from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import re
import shlex
import shutil
import sys
from typing import Any

from flax import linen as nn
import jax

from transformer_zoo import config
from transformer_zoo import environment
from transformer_zoo.checkpoints import run_layout
from transformer_zoo.data.loader.batches import Repeats
from transformer_zoo.data.loader.evaluation_split import EvaluationSplit
from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import UserError
from transformer_zoo.processes import agreement
from transformer_zoo.processes import claims
from transformer_zoo.processes import distributed
from transformer_zoo.runs import reuse
from transformer_zoo.runs import settings
from transformer_zoo.training import loop
from transformer_zoo.training.checkpoints import checksums
from transformer_zoo.training.checkpoints.retention import Checkpointing
from transformer_zoo.training.checkpoints.retention import KEEP_NEWEST_AND_BEST
from transformer_zoo.training.checkpoints.step_folders import is_bucket
from transformer_zoo.training.checkpoints.step_folders import StepFolders
from transformer_zoo.training.monitoring import recorder
from transformer_zoo.training.monitoring import summary
from transformer_zoo.training.monitoring.budget import Budget

DATA = "data.json"
_LOCK = "lock"
LAST = "last step: no task has a metric"
_START = "INITIAL_CHECKPOINT_PATH"


def at_any_place(train: Callable[..., str]) -> Callable[..., str]:
  """Decorates a function of a local `model_dir` so that it accepts a URL.

  A run in a local folder loads nothing for URLs (checkpoints/remote.py).
  """

  @functools.wraps(train)
  def run(*, model_dir: str, **arguments: Any) -> str:
    if not run_layout.is_url(model_dir):
      # An empty name stays one, to be refused: its path is the current folder.
      path = str(pathlib.Path(model_dir)) if model_dir else ""
      return train(model_dir=path, **arguments)
    from transformer_zoo.checkpoints import remote

    if is_bucket(model_dir):
      options = arguments.get("checkpointing", KEEP_NEWEST_AND_BEST)
      arguments["checkpointing"] = _in_bucket(options, model_dir)
    with remote.opened(model_dir) as folder:
      return train(model_dir=str(folder), **arguments)

  return run


def _in_bucket(options: Checkpointing, model_dir: str) -> Checkpointing:
  if options.folder is not None:
    return options
  return dataclasses.replace(options, folder=f"{model_dir}/checkpoints")


def upload(folder: pathlib.Path) -> None:
  """Uploads the new files of a run at a URL; a local run has none to upload."""
  if run_layout.is_of_url(folder):
    from transformer_zoo.checkpoints import remote

    remote.upload(folder)


def check(folder: pathlib.Path, configuration: str) -> None:
  """Checks that a run may start or resume in a folder.

  Settings of speed may differ, and the differences are printed. Folders may be
  spelled another way than before, and may have been moved together.

  Args:
    folder: The run folder.
    configuration: The text of the command's configuration.

  Raises:
    UserError: The folder belongs to a run whose settings of the result differ.
  """
  path = folder / run_layout.CONFIG
  if not path.exists():
    return
  before = _with_start_as_in(configuration, path.read_text())
  changes = config.difference(before, configuration, layout=False)
  if changes:
    raise UserError(
      f"run folder {str(folder)!r} belongs to another configuration "
      f"({changes}); choose another MODEL_DIR or remove the folder"
    )
  layout = config.difference(before, configuration, layout=True)
  if layout:
    print(f"{folder} goes on in another layout: {layout}")


def check_writable(folder: pathlib.Path) -> None:
  """Checks that a run can write its folder, before it does any work.

  Raises:
    UserError: The folder cannot be made or written.
  """
  above = folder.absolute()
  while not above.exists() and above != above.parent:
    above = above.parent
  if above.is_dir() and os.access(above, os.W_OK | os.X_OK):
    return
  what = "cannot be written" if above.is_dir() else "is no folder"
  raise UserError(
    f"MODEL_DIR={str(folder)!r}: {str(above)!r} {what}; name another folder"
  )


def _with_start_as_in(now: str, before: str) -> str:
  """Returns the text `before`, the same initial checkpoint spelled as now."""
  old, new = (_path(text, _START) for text in (before, now))
  if old is None or new is None or old == new:
    return before
  # Or both lead there from the run folder: then all of it has been moved.
  from_folder = {
    os.path.relpath(start, _path(text, "MODEL_DIR") or os.curdir)
    for start, text in ((old, before), (new, now))
  }
  if os.path.realpath(old) != os.path.realpath(new) and len(from_folder) > 1:
    return before
  return before.replace(f"{_START} = {old!r}", f"{_START} = {new!r}")


def _path(configuration: str, macro: str) -> str | None:
  found = re.search(f"^{macro} = '(.*)'$", configuration, re.MULTILINE)
  return found and found.group(1)


@contextlib.contextmanager
def alone(folder: pathlib.Path) -> Iterator[None]:
  """Keeps other programs from training in a folder until the block ends.

  On a file system without locks nothing is kept.

  Raises:
    UserError: Another program trains in the folder.
  """
  with contextlib.ExitStack() as stack:
    mine = True
    if distributed.is_first():
      with contextlib.suppress(claims.NoLocksError):
        mine = stack.enter_context(claims.claim(folder, _LOCK))
      if mine:
        stack.callback(_leave_unclaimed, folder)
    if not mine:
      raise UserError(
        f"{claims.owner(folder, _LOCK)} trains in {str(folder)!r}; wait until "
        "it ends, or choose another MODEL_DIR"
      )
    yield


@contextlib.contextmanager
def continued(checkpoints: str | os.PathLike[str]) -> Iterator[None]:
  """Prints how to continue a run that Ctrl-C ends within the block.

  Args:
    checkpoints: The folder of its checkpoints.
  """
  try:
    yield
  except KeyboardInterrupt:
    steps = StepFolders(checkpoints).steps()
    saved = f"step {max(steps)} is saved" if steps else "no step is saved yet"
    print(f"{saved}; continue with\n  {_command()}", flush=True)
    raise


def _command() -> str:
  """Returns the command of this process, to be pasted into a shell."""
  program, *arguments = sys.argv
  if sys.orig_argv[1:2] == ["-m"]:
    return shlex.join(sys.orig_argv)
  name = os.path.basename(program)
  on_path = shutil.which(name) == program
  return shlex.join([name if on_path else program, *arguments])


def _leave_unclaimed(folder: pathlib.Path) -> None:
  """Removes the lock of a run that was refused."""
  if not (folder / run_layout.CONFIG).exists():
    (folder / _LOCK).unlink(missing_ok=True)


def check_finished(folder: pathlib.Path, checkpoints: str) -> None:
  """Verifies the checkpoint that the result of a finished run is about.

  A checkpoint that was deleted is no error.

  Args:
    folder: The run folder, which has a result.
    checkpoints: The folder of its checkpoints.

  Raises:
    UserError: the checkpoint or the result is damaged.
  """
  from transformer_zoo.training.checkpoints import reading

  result = reading.read_json(folder / run_layout.RESULT, reading.RESULT)
  step = result["step"] if result["best_step"] is None else result["best_step"]
  place = StepFolders(checkpoints).of(step)
  _, reason = agreement.first_failure(
    lambda: (
      place.exists()
      and checksums.verify_share(
        place, jax.process_index(), jax.process_count()
      )
    )
  )
  if reason is not None:
    results = f"{str(folder / run_layout.RESULT)!r}"
    if run_layout.is_of_url(folder):
      results += f" and {run_layout.name_of(folder)}/{run_layout.RESULT}"
    raise UserError(
      f"{str(folder)!r} has finished, but its best checkpoint {str(place)!r} "
      f"is damaged: {reason}. Its scores stay valid. To train it again, delete "
      f"{results} and the checkpoints of step {step} and later, and start the "
      "same command; to do without it, delete the checkpoint"
    )


def claim_data(folder: pathlib.Path, identity: Mapping[str, Any]) -> None:
  """Writes the identity of the data, or compares it with the one written.

  Args:
    folder: The run folder.
    identity: The identity of the data (`inputs.identity`).

  Raises:
    UserError: The run began with other data.
  """
  if not distributed.is_first():
    return
  path, now = folder / DATA, json.dumps(identity, indent=2)
  if not path.exists():
    folder.mkdir(parents=True, exist_ok=True)
    run_layout.replace(path, now + "\n")
    return
  changes = distributed.changes(path.read_text(encoding="utf-8"), now)
  if changes:
    raise UserError(
      f"run folder {str(folder)!r} has read other data ({changes}); bring that "
      "back (ZOO_VOCABULARY, PREPARED_DIR, the task), or choose another "
      "MODEL_DIR"
    )


def claim(
  folder: pathlib.Path,
  configuration: str,
  model: nn.Module,
  lengths: Mapping[str, int],
) -> None:
  """Writes the description of a run; from then on the folder belongs to it.

  The first of several processes writes, the others wait. For a URL each process
  has a folder of its own.

  Args:
    folder: The run folder.
    configuration: The text of the run's configuration.
    model: The architecture.
    lengths: The number of tokens of each feature.

  Raises:
    UserError: The processes do not see the same folder.
  """
  if distributed.is_first() or run_layout.is_of_url(folder):
    _describe(folder, configuration, model, lengths)
  distributed.barrier("the run folder")
  if not (folder / run_layout.CONFIG).exists():
    raise UserError(
      f"the run folder {str(folder)!r} is not the same for all processes: "
      "nothing is here that process 0 has written; give a MODEL_DIR that all "
      "of them share"
    )


def _describe(folder, configuration, model, lengths) -> None:
  folder.mkdir(parents=True, exist_ok=True)
  found = reuse.shared(
    summary.summarize,
    groups=(settings.Step, settings.Examples),
    model=model,
    inputs=lengths["inputs"],
    targets=lengths.get("targets", 0),
  )
  (folder / "model.txt").write_text(summary.as_text(found))
  environment.write_environment(folder / run_layout.ENVIRONMENT)
  with open(folder / "commands.txt", "a", encoding="utf-8") as commands:
    commands.write(_command() + "\n")
  # Last: a folder with a configuration is one that a run has claimed.
  run_layout.replace(folder / run_layout.CONFIG, configuration)


def write_predictions(
  path: pathlib.Path,
  predictions: Sequence[Mapping[str, Any]],
  scoring: manifest.Scoring | None,
) -> None:
  """Writes a line of JSON for each example, all of them or none.

  The first of several processes writes. The functions that score the
  predictions are named in a file beside them (`scoring_path`), so that other
  programs can score them again.
  """
  if not distributed.is_first():
    return
  path.parent.mkdir(parents=True, exist_ok=True)
  if scoring is not None:
    text = json.dumps(dataclasses.asdict(scoring), indent=2)
    run_layout.replace(run_layout.scoring_path(path), text + "\n")
  lines = [json.dumps(line, ensure_ascii=False) for line in predictions]
  run_layout.replace(path, "".join(f"{line}\n" for line in lines))


def write_result(
  folder: pathlib.Path,
  outcome: loop.Outcome,
  train_steps: int,
  splits: Mapping[str, EvaluationSplit],
  repeats: Mapping[str, Repeats],
  selection: str,
  num_bytes: Mapping[str, int] | None = None,
) -> pathlib.Path:
  """Writes `result.json` from the metrics of the best step, or of the last.

  `best_by_task` has each task's scores at the step that is best for it
  (`averages.choose`), as Raffel et al. 2020, section 3.1.2, report them.

  Args:
    folder: The run folder.
    outcome: The outcome of the training loop.
    train_steps: The last step of the run.
    splits: The evaluated splits by task.
    repeats: The number of epochs and examples of each training task.
    selection: The rule by which the best step was chosen, in words.
    num_bytes: `checkpoint_bytes` and `step_bytes`, which the budget has too.
  """
  reported = outcome.best_step or train_steps
  recorded = {}  # Step -> values, of one line or several.
  for line in recorder.read_lines(folder / recorder.METRICS_FILE):
    recorded.setdefault(line["step"], {}).update(line)
  scores, losses, invalid = _validation(recorded.get(reported, {}))
  by_step = {step: _validation(line)[0] for step, line in recorded.items()}
  average, best = None, {}
  if any(by_step.values()):
    from transformer_zoo.evaluation import averages

    average = averages.average(scores)
    best = averages.choose(by_step)["tasks"]
  result = {
    "step": train_steps,
    "best_step": outcome.best_step,
    "selection": LAST if outcome.best_step is None else selection,
    "scores": scores,
    "average": average,
    "best_by_task": best,
    "loss": losses,
    "num_examples": {name: s.num_examples for name, s in splits.items()},
    "truncated": {
      name: split.truncated
      for name, split in splits.items()
      if any(split.truncated.values())
    },
    "invalid": invalid,
    "train_examples": {name: r.examples for name, r in repeats.items()},
    "epochs": {name: r.epochs for name, r in repeats.items()},
    "config_hash": config.config_hash("train"),
    **_costs(train_steps, outcome.budget, num_bytes or {}),
  }
  path = folder / run_layout.RESULT
  if not distributed.is_first():
    return path
  run_layout.replace(path, json.dumps(result, indent=2) + "\n")
  return path


def _costs(steps: int, budget: Budget, num_bytes: Mapping[str, int]) -> dict:
  """Returns the cost of the run, in total and by part."""
  counted = budget.to_json()
  seconds = counted.pop("seconds")
  return {
    "seconds": sum(seconds.values()),
    "seconds_by_part": seconds,
    "tokens": budget.tokens,
    "budget": {
      "parameters": budget.parameters,
      "trained_parameters": budget.trained_parameters,
      "steps": steps,
      **num_bytes,
      **counted,
    },
  }


def _validation(line: Mapping[str, float]) -> tuple[dict, dict, dict]:
  """Scores {task: {metric: value}}, losses and invalid predictions by task."""
  scores, losses, invalid = {}, {}, {}
  for name, value in line.items():
    kind, _, rest = name.partition("/")
    task, _, metric = rest.partition("/")
    if kind != "validation" or not metric:
      continue
    if metric == "loss":
      losses[task] = value
    elif metric == "invalid":
      invalid[task] = int(value)
    elif metric != "token_accuracy":
      scores.setdefault(task, {})[metric] = value
  return scores, losses, invalid
