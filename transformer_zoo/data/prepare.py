"""Runs the deterministic steps of SeqIO tasks once, into record files.

Everything of a task but its corruption is run here: source, text-to-text
formatting, tokenisation, EOS. The training machine then needs neither SeqIO nor
TensorFlow. A task is written aside and renamed at the end, under a lock: an
interrupted `prepare` leaves nothing that is later read, and of several
processes one prepares while the others wait and reuse.
"""

from collections.abc import Callable, Sequence
import contextlib
import dataclasses
import functools
import importlib
import os
import pathlib
import shutil
import sys
import time
from typing import Any, TYPE_CHECKING

from transformer_zoo import corruption
from transformer_zoo.data import definitions
from transformer_zoo.data import folders
from transformer_zoo.data import manifest
from transformer_zoo.data import mixing
from transformer_zoo.data import reading
from transformer_zoo.data import shards
from transformer_zoo.data import trimming
from transformer_zoo.data import user_modules
from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError

if TYPE_CHECKING:
  import seqio


def prepare(
  name: str,
  *,
  prepared_dir: str | os.PathLike[str],
  data_dir: str | None = None,
  splits: Sequence[str] | None = None,
  report: Callable[[str], None] = lambda line: None,
) -> manifest.PreparedMixture:
  """Prepares a task or all tasks of a mixture; reuses what is unchanged.

  Args:
    name: a registered task or mixture.
    prepared_dir: folder of the prepared files, made if absent.
    data_dir: folders with raw data, separated as in PATH; exported as
      ZOO_DATA_DIR (tasks/data_folders.py), and to SeqIO's TFDS sources where
      a folder has `tfds/`.
    splits: the splits to prepare; all that a task has if None.
    report: called with one line for each split written.

  Returns:
    The prepared tasks and their rates.

  Raises:
    UserError: no task or mixture has the name; a task lacks an asked split, or
      has an empty one, or unreadable files, or ids outside its vocabulary.
  """
  register_tasks(data_dir)
  provider = _find(name)
  members = _members(provider)
  has = {
    task.name: reading.explain(lambda task=task: task.splits, task, "splits")
    for task in members
  }
  for split in splits or ():
    if not any(split in of_task for of_task in has.values()):
      _refuse_split(members[0], split, has[members[0].name])
  prepared_dir = pathlib.Path(prepared_dir)
  prepared_dir.mkdir(parents=True, exist_ok=True)
  tasks = []
  for task in members:
    for split in getattr(task.source, "declared_splits", ()):
      if split not in has[task.name]:
        report(f"{task.name}: no split {split!r} on disk")
    wanted = [s for s in has[task.name] if splits is None or s in splits]
    try:
      tasks.append(_prepare_task(task, wanted, prepared_dir, report))
    except UserError as error:
      if task.name in str(error):
        raise
      raise UserError(f"Task {task.name!r}: {error}") from error
  if len({task.vocabulary for task in tasks}) > 1:
    raise UserError(
      f"Mixture {name!r} has tasks with different vocabularies; one model has "
      "one vocabulary."
    )
  rates = _rates(provider, members, tasks)
  for task, rate in zip(members, rates, strict=True):
    for split in splits or ():
      # A task of rate 0 is in the mixture for evaluation only.
      if split not in has[task.name] and rate > 0:
        _refuse_split(task, split, has[task.name])
  mixture = manifest.PreparedMixture(name, tuple(tasks), rates)
  if [task.name for task in tasks] != [name]:
    manifest.save_mixture(mixture, prepared_dir)
  return mixture


def register_tasks(data_dir: str | None = None) -> None:
  """Imports SeqIO and all tasks and points them to `data_dir`.

  Raises:
    UserError: a folder of `data_dir` does not exist, or a module of the user's
      cannot be imported.
  """
  _import_quietly()
  import seqio  # pylint: disable=g-import-not-at-top

  if data_dir is not None:
    for folder in reversed(data_dir.split(os.pathsep)):
      if not os.path.isdir(folder):
        raise UserError(f"The data folder {folder!r} does not exist.")
      tfds_dir = os.path.join(folder, "tfds")
      if os.path.isdir(tfds_dir):
        seqio.set_tfds_data_dir_override(tfds_dir)
    os.environ["ZOO_DATA_DIR"] = data_dir
  for package in ("tasks", "mixtures"):
    importlib.import_module(package)
  user_modules.import_all()


def _prepare_task(
  task: "seqio.Task",
  splits: Sequence[str],
  prepared_dir: pathlib.Path,
  report: Callable[[str], None],
) -> manifest.PreparedTask:
  """Returns the prepared task, from earlier files where they are current."""
  vocabulary = folders.store_vocabulary(task, prepared_dir)
  steps, step, eos_after_trim = reading.divide_steps(task)
  definition = functools.partial(
    definitions.hash_definition, task, steps, vocabulary
  )
  template = manifest.PreparedTask(
    name=task.name,
    folder=str(prepared_dir / task.name),
    kind="examples" if step is None else "tokens",
    features=tuple(task.output_features),
    vocabulary=vocabulary,
    eos_after_trim=eos_after_trim,
    corruption=step and corruption.to_spec(step.corruption),
    corruption_seed=step.seed if step else 0,
    splits={},
    scoring=definitions.describe_scoring(task),
    definition=reading.explain(definition, task, "source"),
    trimming=trimming.find(task.preprocessors),
  )
  with folders.lock(prepared_dir / f".{task.name}.lock"):
    old = folders.find_reusable(template, prepared_dir)
    if old is not None:
      new = dataclasses.replace(template, splits=old.splits)
      if set(splits) <= set(old.splits):
        if new != old:  # the same records under another scoring or corruption
          manifest.save_task(new, new.folder)
        return new
      splits = [*old.splits, *(s for s in splits if s not in old.splits)]
    return _write_task(task, template, steps, splits, report)


def _write_task(
  task: "seqio.Task",
  template: manifest.PreparedTask,
  steps: Sequence[Callable[..., Any]],
  splits: Sequence[str],
  report: Callable[[str], None],
) -> manifest.PreparedTask:
  """Writes records and manifest into a temporary folder and renames it."""
  folder = pathlib.Path(template.folder)
  partial = folder.with_name(f".{task.name}.partial")
  shutil.rmtree(partial, ignore_errors=True)  # of a killed process
  partial.mkdir()
  try:
    infos = {}
    for split in splits:
      start = time.monotonic()
      examples = reading.read_split(
        task, steps, split, targets_only=template.kind == "tokens"
      )
      examples = reading.with_progress(examples, f"{task.name} {split}", report)
      info = shards.write_split(examples, split, template, partial)
      skipped = getattr(task.source, "skipped_rows", lambda _: [])(split)
      infos[split] = info = dataclasses.replace(info, num_skipped=len(skipped))
      if skipped:
        report(
          f"skipped {len(skipped):,} bad rows of {task.name} {split}, first: "
          f"{skipped[0]}"
        )
      report(
        f"prepared {task.name} {split}: {info.num_examples:,} examples, "
        f"{info.num_tokens:,} tokens in {time.monotonic() - start:.1f} s"
      )
    new = dataclasses.replace(template, splits=infos)
    manifest.save_task(new, partial)
    folders.move(partial, folder)
    return new
  finally:
    shutil.rmtree(partial, ignore_errors=True)


def _members(provider: Any) -> list["seqio.Task"]:
  """Returns the tasks of a task or mixture in order of name."""
  import seqio  # pylint: disable=g-import-not-at-top

  if isinstance(provider, seqio.Task):
    return [provider]
  if not provider.tasks:
    raise UserError(
      f"Mixture {provider.name!r} has no task whose data is on disk; name a "
      "folder that has tfds/ with --data_dir."
    )
  return list(provider.tasks)


def _rates(
  provider: Any,
  members: Sequence["seqio.Task"],
  prepared: Sequence[manifest.PreparedTask],
) -> tuple[float, ...]:
  """Returns the rate of each member; a task alone has rate 1."""
  if provider in members:
    return (1.0,)
  # A training split that was not prepared is counted by the rates.
  counts = {
    new.name: mixing.train_count(new)
    for task, new in zip(members, prepared, strict=True)
    if "train" in new.splits or "train" not in task.splits
  }
  rates = []
  with mixing.known_counts(counts):
    for task in members:
      rate = functools.partial(provider.get_rate, task)
      try:
        rates.append(reading.explain(rate, task, "number of examples"))
      except TypeError as error:  # SeqIO calculates with None
        raise UserError(
          f"SeqIO does not know how many examples task {task.name!r} has; use "
          "ExamplesProportional (data/mixing.py), which counts them, as the "
          f"rate in mixture {provider.name!r}."
        ) from error
      except UserError:
        raise
      except ValueError as error:  # SeqIO: a mixture within it has no number
        raise UserError(
          f"Mixture {provider.name!r} has no rate for {task.name!r}: {error}"
        ) from error
  return tuple(rates)


def _refuse_split(task: "seqio.Task", split: str, has: Sequence[str]) -> None:
  raise UserError(
    f"Task {task.name!r} has no split {split!r}" + nearest(split, has)
  )


def _find(name: str) -> Any:
  """Returns the registered task or mixture of that name."""
  import seqio  # pylint: disable=g-import-not-at-top

  names = [*seqio.TaskRegistry.names(), *seqio.MixtureRegistry.names()]
  if name not in names:
    raise UserError(
      f"No task or mixture is named {name!r}{nearest(name, names)}"
      f"{user_modules.HINT}"
    )
  return seqio.get_mixture_or_task(name)


def _import_quietly() -> None:
  """Imports TensorFlow and SeqIO without their start-up lines or accelerators.

  TensorFlow writes some lines from C++ before it reads its settings, so the
  file descriptor of stderr is away during the imports; an exception still has
  its traceback.
  """
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
  sys.stderr.flush()
  saved = os.dup(2)
  try:
    with open(os.devnull, "wb") as nowhere:
      os.dup2(nowhere.fileno(), 2)
    import tensorflow as tf  # pylint: disable=g-import-not-at-top

    with contextlib.suppress(RuntimeError):  # devices are in use already
      tf.config.set_visible_devices([], "GPU")
      tf.config.set_visible_devices([], "TPU")
    tf.constant(0)  # the first operation writes lines as well
  finally:
    os.dup2(saved, 2)
    os.close(saved)
