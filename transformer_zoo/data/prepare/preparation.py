"""Preparation: the deterministic steps of SeqIO tasks, run once into files.

Everything of a task but its corruption is run here: source, text-to-text
formatting, tokenisation, EOS. The training machine then needs neither SeqIO nor
TensorFlow. A task is written aside and renamed at the end, under a lock: an
interrupted `prepare` leaves nothing that is later read but goes on where it
was, and of several of them one prepares while the others wait and reuse.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
import dataclasses
import functools
import os
import pathlib
from typing import Any, TYPE_CHECKING

from transformer_zoo import corruption
from transformer_zoo.data import trimming
from transformer_zoo.data import user_modules
from transformer_zoo.data import vocabularies
from transformer_zoo.data.features import forms
from transformer_zoo.data.prepare import fingerprints
from transformer_zoo.data.prepare import reading
from transformer_zoo.data.prepare import registration
from transformer_zoo.data.prepare import task_steps
from transformer_zoo.data.prepare import task_writer
from transformer_zoo.data.storage import folders
from transformer_zoo.data.storage import freshness
from transformer_zoo.data.storage import function_references
from transformer_zoo.data.storage import manifest
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
  required_splits: Sequence[str] = (),
  first: int | None = None,
  processes: int | None = None,
  beam_runner: str | None = None,
  beam_options: Sequence[str] = (),
  report: Callable[[str], None] = lambda line: None,
) -> manifest.PreparedMixture:
  """Prepares a task or all tasks of a mixture; reuses what is unchanged.

  Args:
    name: a registered task or mixture, or `MIXTURE:FORM` for the forms of the
      tasks of a mixture.
    prepared_dir: folder of the prepared files, made if absent.
    data_dir: folders with raw data, separated as in PATH; exported as
      ZOO_DATA_DIR (tasks/sources/data_folders.py), and to SeqIO's TFDS
      sources where a folder has `tfds/`.
    splits: The splits to prepare, which each task of a rate above 0 must have;
      every split of each task if None.
    required_splits: Splits that at least one of the tasks must have, and the
      others may lack. They are checked before anything is prepared.
    first: The number of examples that are prepared of each split, of tasks of
      examples; all if None. Such data needs a folder of its own.
    processes: The number of processes that write the shards of large sources,
      and of threads that tokenise a single shard; the number of cores if None.
      The files do not depend on it.
    beam_runner: runner of Apache Beam that writes the shards instead, 'local'
      or one that Beam knows; its workers need the raw data and `prepared_dir`.
    beam_options: flags for Beam.
    report: called with one line for each split written, and now and then with
      how far it is.

  Returns:
    The prepared tasks and their rates.

  Raises:
    UserError: no task or mixture has the name; a task lacks an asked split or
      form, or has an empty split, or unreadable files, or ids outside its
      vocabulary.
  """
  if processes is not None and processes < 1:
    raise UserError(f"The number of processes is {processes}; give 1 or more.")
  registration.register_tasks(data_dir)
  writer = task_writer.Writer(
    processes=processes or len(os.sched_getaffinity(0)),
    beam_runner=beam_runner,
    beam_options=tuple(beam_options),
    first=first,
    report=report,
  )
  provider, form = _find(name)
  named = _members(provider)
  members = [_in_form(task, form) for task in named]
  for known in (name, *(task.name for task in members)):
    manifest.folder_of(known, prepared_dir)
  has = {
    task.name: reading.explain(lambda task=task: task.splits, task, "splits")
    for task in members
  }
  for split in (*(splits or ()), *required_splits):
    if not any(split in of_task for of_task in has.values()):
      _refuse_split(
        provider, split, sorted({s for v in has.values() for s in v})
      )
  prepared_dir = pathlib.Path(prepared_dir)
  prepared_dir.mkdir(parents=True, exist_ok=True)
  tasks = []
  for task in members:
    for split in getattr(task.source, "declared_splits", ()):
      if split not in has[task.name]:
        report(f"{task.name}: no split {split!r} on disk")
    wanted = [s for s in has[task.name] if splits is None or s in splits]
    try:
      tasks.append(_prepare_task(task, wanted, prepared_dir, writer))
    except UserError as error:
      if task.name in str(error):
        raise
      raise UserError(f"Task {task.name!r}: {error}") from error
  if len({task.vocabulary for task in tasks}) > 1:
    raise UserError(
      f"Mixture {name!r} has tasks with different vocabularies; one model has "
      "one vocabulary."
    )
  rates = _rates(provider, named, tasks)
  for task, rate in zip(members, rates, strict=True):
    for split in set(splits or ()).difference(required_splits):
      # A task of rate 0 is in the mixture for evaluation only.
      if split not in has[task.name] and rate > 0:
        _refuse_split(task, split, has[task.name])
  mixture = manifest.PreparedMixture(name, tuple(tasks), rates)
  if [task.name for task in tasks] != [name]:
    manifest.save_mixture(mixture, prepared_dir)
  if all(_is_silent(task) for task in members):
    files = {*fingerprints.described_files, *_vocabulary_files(members)}
    freshness.save(mixture, prepared_dir, files, splits)
  return mixture


def _vocabulary_files(tasks: Iterable["seqio.Task"]) -> Iterator[str]:
  """Yields the files of vocabularies, and those beside them."""
  for task in tasks:
    for feature in task.output_features.values():
      path = pathlib.Path(vocabularies.from_seqio(feature.vocabulary).path)
      folder = path if path.is_dir() else path.parent
      if path.exists():
        yield from (str(file) for file in folder.iterdir() if file.is_file())


def _is_silent(task: "seqio.Task") -> bool:
  """Whether all data of a task is known and no remark on it is reported."""
  source, (steps, *_) = task.source, task_steps.divide_steps(task)
  if hasattr(source, "fingerprint"):
    known = getattr(source, "describes_files", False)
  else:
    known = fingerprints.find_unknown_reader(source) is None
  declared = set(getattr(source, "declared_splits", ()))
  missing = declared.difference(task.splits)
  return known and not missing and not [*task_steps.find_random(steps)]


def _prepare_task(
  task: "seqio.Task",
  splits: Sequence[str],
  prepared_dir: pathlib.Path,
  writer: task_writer.Writer,
) -> manifest.PreparedTask:
  """Returns the prepared task, from earlier files where they are current."""
  folder = manifest.folder_of(task.name, prepared_dir)
  vocabulary = folders.store_vocabulary(task, prepared_dir)
  steps, step, eos_after_trim = task_steps.divide_steps(task)
  for name in task_steps.find_random(steps):
    writer.report(
      f"{task.name}: the step {name} draws at random; it draws once, now, and "
      "all epochs of all runs have the same examples"
    )
  definition = functools.partial(
    fingerprints.hash_definition, task, steps, vocabulary
  )
  template = manifest.PreparedTask(
    name=task.name,
    folder=str(folder),
    kind="examples" if step is None else "tokens",
    features=tuple(task.output_features),
    vocabulary=vocabulary,
    eos_after_trim=eos_after_trim,
    corruption=step and corruption.to_spec(step.corruption),
    corruption_seed=step.seed if step else 0,
    splits={},
    scoring=function_references.describe_scoring(task),
    definition=reading.explain(definition, task, "source"),
    trimming=trimming.find(task.preprocessors),
    form=task_steps.find_form(task.preprocessors),
    template_of=task_steps.find_template(task),
  )
  with folders.lock(folder.with_name(f".{task.name}.lock")):
    old = folders.find_reusable(template, prepared_dir)
    if old is not None:
      new = dataclasses.replace(template, splits=old.splits)
      if set(splits) <= set(old.splits):
        if new != old:  # the same records under another scoring or corruption
          manifest.save_task(new, new.folder)
        _tell_unknown(task, new, writer.report)
        return new
      splits = [*old.splits, *(s for s in splits if s not in old.splits)]
    return writer.write(task, template, splits)


def _tell_unknown(
  task: "seqio.Task",
  prepared: manifest.PreparedTask,
  report: Callable[[str], None],
) -> None:
  """Reports reused records that may be out of date."""
  reader = fingerprints.find_unknown_reader(task.source)
  if reader is not None:
    report(
      f"{task.name}: reused, although the data that {reader} reads may have "
      f"changed since; remove {prepared.folder} to prepare it anew, or "
      "give the source a method fingerprint()"
    )


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
    new.name: new.splits["train"].num_examples if "train" in new.splits else 0
    for task, new in zip(members, prepared, strict=True)
    if "train" in new.splits or "train" not in task.splits
  }
  rates = []
  with reading.known_counts(counts):
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


def _refuse_split(provider: Any, split: str, has: Sequence[str]) -> None:
  """Raises UserError for a split that a task or mixture lacks."""
  kind = "Mixture" if hasattr(provider, "tasks") else "Task"
  raise UserError(
    f"{kind} {provider.name!r} has no split {split!r}" + nearest(split, has)
  )


def _find(name: str) -> tuple[Any, str | None]:
  """Returns the registered task or mixture of a name, and its tasks' form."""
  import seqio  # pylint: disable=g-import-not-at-top

  names = [*seqio.TaskRegistry.names(), *seqio.MixtureRegistry.names()]
  if name in names:
    return seqio.get_mixture_or_task(name), None
  base, form = forms.split_name(name)
  if form is None or base not in names:
    raise UserError(
      f"No task or mixture is named {name!r}{nearest(name, names)}"
      f"{user_modules.HINT}"
    )
  return seqio.get_mixture_or_task(base), form


def _in_form(task: "seqio.Task", form: str | None) -> "seqio.Task":
  """Returns the form of a task; the task itself if none is asked for."""
  import seqio  # pylint: disable=g-import-not-at-top

  if form is None:
    return task
  has = _forms_of(task.name, seqio.TaskRegistry.names())
  if form == forms.OF_EACH_TASK:
    form = next(iter(has), form)
  name = forms.name_in_form(task.name, form)
  if name in seqio.TaskRegistry.names():
    return seqio.TaskRegistry.get(name)
  raise UserError(
    f"Task {task.name!r} has no form {form!r}; "
    + (f"it has {', '.join(map(repr, has))}." if has else "it has none.")
  )


def find_forms(task_name: str) -> list[dict[str, Any]]:
  """Returns the forms of an encoder that a registered task has.

  Args:
    task_name: The name of the text-to-text task, or of one of its forms.

  Returns:
    For each its `task`, by name, and what a manifest says of it.
  """
  import seqio  # pylint: disable=g-import-not-at-top

  task_name, _ = forms.split_name(task_name)
  found = []
  for form in _forms_of(task_name, seqio.TaskRegistry.names()):
    name = forms.name_in_form(task_name, form)
    steps = seqio.TaskRegistry.get(name).preprocessors
    found.append({"task": name, **task_steps.find_form(steps)})
  return found


def class_names(name: str) -> tuple[str, ...]:
  """Returns the names of the classes or tags of a task or mixture in a form.

  Args:
    name: The name `NAME:FORM`, registered or not.

  Returns:
    An empty tuple for a form without names, and for tasks that differ.

  Raises:
    UserError: Nothing has the name, or a task does not have the form.
  """
  registration.register_tasks(os.environ.get("ZOO_DATA_DIR") or None)
  provider, form = _find(name)
  found = {
    manifest.class_names(
      task_steps.find_form(_in_form(task, form).preprocessors)
    )
    for task in _members(provider)
  }
  return found.pop() if len(found) == 1 else ()


def _forms_of(task_name: str, names: Container[str]) -> list[str]:
  """Returns the forms that a task has.

  Args:
    task_name: The name of the text-to-text task.
    names: The names of all registered tasks.
  """
  return [
    form for form in forms.FORMS if forms.name_in_form(task_name, form) in names
  ]
