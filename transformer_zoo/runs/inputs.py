"""Inputs of runs: prepared data, lengths and vocabularies, and their checks."""

from collections.abc import Callable, Mapping, Sequence
import contextlib
import dataclasses
import functools
import importlib.util
import json
import os
from typing import Any

from flax import linen as nn
import gin

from transformer_zoo import corruption as corruptions
from transformer_zoo.data.features import converters
from transformer_zoo.data.features import forms
from transformer_zoo.data.storage import freshness
from transformer_zoo.data.storage import manifest
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import UserError
from transformer_zoo.processes import distributed

_PRINT = functools.partial(print, flush=True)


def check_at_least(least: int, **values: int | None) -> None:
  """Raises UserError for a value below the least one; None is passed over."""
  for name, value in values.items():
    if value is not None and value < least:
      raise UserError(f"{name}={value} must be at least {least}")


def prepared(
  name: str,
  prepared_dir: str,
  *,
  form: str | None = None,
  splits: Sequence[str] | None = None,
  required_splits: Sequence[str] = (),
  first: int | None = None,
  report: Callable[[str], None] = _PRINT,
) -> manifest.PreparedMixture:
  """Returns a prepared mixture, and prepares it first where SeqIO is installed.

  In a form of an encoder the tasks keep the names of the text-to-text tasks, so
  that scores, averages and submissions have the same names.

  On a machine without SeqIO the contents of `prepared_dir` are used as they
  are. Raw data is read from the folders of the variable ZOO_DATA_DIR. The first
  of several processes prepares, the others wait.

  Args:
    name: The name of a mixture or a task.
    prepared_dir: The folder of prepared data.
    form: The form of the tasks, as `converters.form_of` returns it; None for
      text to text and for unlabelled text.
    splits: The splits to prepare; every split of each task if None.
    required_splits: Splits that at least one of the tasks must have. They are
      checked before anything is prepared.
    first: The number of examples of each split that are enough; where the
      splits are not prepared, no more of them are, into a folder of their own.
    report: A function that is called with a sentence on each preparation;
      printing by default.

  Raises:
    UserError: There is no such data, a task does not have the form, or the
      processes see different data.
  """
  asked, name = name, forms.name_in_form(name, form)
  found = None
  if first is not None and not _are_there(name, prepared_dir, required_splits):
    prepared_dir = os.path.join(prepared_dir, f"first_{first}")
  else:
    first = None
  if distributed.is_first():
    found = _prepared(
      name, prepared_dir, splits, required_splits, first, report
    )
  distributed.barrier(f"the prepared data of {name!r}")
  found = found or manifest.load(name, prepared_dir)
  if distributed.is_initialized():
    distributed.require_same(
      "data", json.dumps(identity(found)), distributed.changes
    )
  if form is None:
    return found
  return dataclasses.replace(
    found,
    name=asked.removesuffix(f":{form}"),
    tasks=tuple(
      dataclasses.replace(task, name=forms.split_name(task.name)[0])
      for task in found.tasks
    ),
  )


def class_names(
  name: str, prepared_dir: str, form: str | None
) -> tuple[str, ...]:
  """Returns the names of the classes or tags of a task, prepared or not.

  Args:
    name: The name of a mixture or a task.
    prepared_dir: The folder of prepared data.
    form: The form of the tasks; see `prepared`.

  Returns:
    An empty tuple where the form has no names, the tasks differ in theirs, or
    nothing is known of them; `prepared` says what is wrong.
  """
  if form is None:
    return ()
  name = forms.name_in_form(name, form)
  with contextlib.suppress(UserError):
    return manifest.load(name, prepared_dir).class_names
  if importlib.util.find_spec("seqio") is not None:
    from transformer_zoo.data.prepare import preparation

    with contextlib.suppress(UserError):
      return preparation.class_names(name)
  return ()


def identity(mixture: manifest.PreparedMixture) -> dict[str, Any]:
  """Returns the identity of a mixture as JSON values.

  It covers the records, how they are read and how they are scored. It leaves
  out their folder and the times of raw files: files that were copied or mounted
  again have other times and give the same records.
  """
  return {
    "rates": repr(mixture.rates),
    **{
      task.name: {
        "vocabulary": task.vocabulary.checksum,
        "extra_ids": task.vocabulary.extra_ids,
        "kind": task.kind,
        "features": " ".join(task.features),
        "eos_after_trim": task.eos_after_trim,
        "trimming": task.trimming,
        "corruption": task.corruption,
        "corruption_seed": task.corruption_seed,
        "scoring": task.scoring and dataclasses.asdict(task.scoring),
        **({"form": task.form} if task.form else {}),
        **{split: info.checksum[:12] for split, info in task.splits.items()},
      }
      for task in mixture.tasks
    },
  }


def _prepared(
  name: str,
  prepared_dir: str,
  splits: Sequence[str] | None,
  required_splits: Sequence[str],
  first: int | None,
  report: Callable[[str], None],
) -> manifest.PreparedMixture:
  if importlib.util.find_spec("seqio") is None:
    return manifest.load(name, prepared_dir)
  current = freshness.load(name, prepared_dir, required_splits, splits)
  if current is not None:
    return current
  from transformer_zoo.data.prepare import preparation

  return preparation.prepare(
    name,
    prepared_dir=prepared_dir,
    splits=splits,
    required_splits=required_splits,
    first=first,
    report=report,
  )


def _are_there(name: str, prepared_dir: str, splits: Sequence[str]) -> bool:
  """Whether a task has prepared splits, whatever has changed since."""
  try:
    found = manifest.load(name, prepared_dir)
  except UserError:
    return False
  return any(set(splits) <= set(task.splits) for task in found.tasks)


def check_mixture(
  model: nn.Module,
  mixture: manifest.PreparedMixture,
  converter: converters.Converter | None = None,
) -> None:
  """Checks that a model can read a mixture.

  A line is printed for each scored task whose inputs a language model does not
  see in training, because its converter lays out targets alone.

  Args:
    model: The architecture.
    mixture: The prepared mixture.
    converter: The layout of training batches; None for an evaluation.

  Raises:
    UserError: The vocabulary or the classes of a task do not fit the model, or
      the model cannot read what the converter lays out.
  """
  if converter is not None:
    check_converter(model, converter)
  for task in mixture.tasks:
    asked = task.scoring is not None and "inputs" in task.features
    if converter is not None and converters.continues(converter) and asked:
      _PRINT(
        f"train of {task.name}: its inputs are left out, as CONVERTER has it; "
        "CONVERTER = @PrefixLanguageModelFeatures() learns its targets after "
        "them"
      )
    check_vocabulary_of(model, task)
    _check_names(model, task)
    _check_written_ids(model, task, converter)


def check_vocabulary_of(model: nn.Module, task: manifest.PreparedTask) -> None:
  """Raises UserError if the vocabulary of a task does not fit a model."""
  check_vocabulary(
    model,
    task.vocabulary,
    f"task {task.name!r}",
    ", or let ZOO_VOCABULARY name a smaller one if the task has T5's",
  )


def _check_written_ids(
  model: nn.Module,
  task: manifest.PreparedTask,
  converter: converters.Converter | None,
) -> None:
  """Raises UserError for pieces of words where UniLM has [CLS] and [MASK]."""
  if converter is None or not (
    converter.writes and model.offers.writes_in_rows
  ):
    return
  vocabulary = task.vocabulary
  for name, found, piece, special in (
    ("UnifiedFeatures.bos_id", converter.bos_id, "[CLS]", vocabulary.cls_id),
    (
      f"{type(model).__name__}.mask_id",
      model.offers.mask_id,
      "[MASK]",
      vocabulary.mask_id,
    ),
  ):
    sentinels = vocabulary.size - vocabulary.extra_ids  # They are last.
    if found not in (None, special) and found < sentinels:
      raise UserError(
        f"{name} is {found}, which is no {piece} in the vocabulary of task "
        f"{task.name!r}; set it to {special}"
      )


def _check_names(model: nn.Module, task: manifest.PreparedTask) -> None:
  """Raises UserError for a head with another number of classes or tags."""
  kind = (task.form or {}).get("form")
  names = (task.form or {}).get(kind)
  name = task.name if task.name in model.offers.heads else kind
  head = model.offers.heads.get(name)
  if names is None or head is None or head.num_classes == len(names):
    return
  setting = "NUM_CLASSES" if name == kind else "the num_classes of its head"
  raise UserError(
    f"task {task.name!r} has the {len(names)} {kind} {', '.join(names)} but "
    f"the head {name!r} of the model has {head.num_classes}; set {setting} "
    f"to {len(names)}"
  )


def whole_lengths(
  converter: converters.Converter, lengths: Mapping[str, int]
) -> dict[str, int]:
  """Returns the lengths of all features that a model reads or makes.

  The inputs that a language model continues have the length of its targets if
  `lengths` has none for them.

  Args:
    converter: The layout of a batch.
    lengths: The number of tokens of each feature, as a user gives it.

  Raises:
    UserError: A length is missing, below 1, or of an unknown feature.
  """
  needed = {*converter.features, *(("targets",) * converter.writes)}
  for feature in sorted(needed | lengths.keys()):
    # Objectives of an encoder give the length of targets, which are in place.
    if feature not in needed | {"inputs", "targets"}:
      raise UserError(
        f"TASK_FEATURE_LENGTHS={dict(lengths)} has {feature!r}, which no model "
        f"reads; it has {', '.join(map(repr, sorted(needed)))}"
      )
    if not isinstance(lengths.get(feature), int) or lengths[feature] < 1:
      raise UserError(
        f"TASK_FEATURE_LENGTHS={dict(lengths)} has to give {feature!r} 1 token "
        "or more"
      )
  return {"inputs": lengths.get("targets"), **lengths}


def check_vocabulary(
  model: nn.Module, vocabulary: Vocabulary, of: str, another: str = ""
) -> None:
  """Compares a vocabulary with the embedding and padding of a model.

  Args:
    model: The architecture.
    vocabulary: The vocabulary.
    of: The owner of the vocabulary, for the error.
    another: A way to get another vocabulary, for the error.

  Raises:
    UserError: The vocabulary does not fit.
  """
  rows = model.token_embedder.num_embeddings
  if vocabulary.size > rows:
    raise UserError(
      f"the vocabulary of {of} has {vocabulary.size} ids but the embedding "
      f"has {rows} rows; set VOCAB_SIZE to at least {vocabulary.size}"
      f"{another}; a checkpoint gets further rows by `zoo convert "
      f"--vocabulary_size {vocabulary.size}`"
    )
  if vocabulary.pad_id != model.pad_id:
    raise UserError(
      f"the vocabulary of {of} pads with id {vocabulary.pad_id} but the model "
      f"takes {model.pad_id} for padding; " + _same_padding(model, vocabulary)
    )


def _same_padding(model: nn.Module, vocabulary: Vocabulary) -> str:
  """Advises on how a model and a vocabulary get the same padding id."""
  if vocabulary.pad_id == vocabulary.eos_id and not model.offers.continues:
    return (
      "that is its EOS, which an encoder would not see: name the piece of id "
      f"{model.pad_id} as pad_token in a tokenizer_config.json beside its files"
    )
  return f"set {type(model).__name__}.pad_id to {vocabulary.pad_id}"


def check_converter(model: nn.Module, converter: converters.Converter) -> None:
  """Raises UserError if a model cannot read the batches of a converter."""
  if not _reads(model, converter):
    kind = type(next(iter(model.offers.members), model)).__name__
    allowed = " or ".join(
      f"@{one.__name__}Features()"
      for one in (
        converters.EncoderDecoder,
        converters.LanguageModel,
        converters.PrefixLanguageModel,
        converters.Encoder,
        converters.Unified,
      )
      if _reads(model, one())
    )
    raise UserError(
      f"CONVERTER is @{type(converter).__name__}Features(), whose batches the "
      f"model {kind} does not read; set it to {allowed}, and CORRUPTION to an "
      "objective whose examples that lays out"
    )
  _check_token_types(model, converter)
  _check_heads(model, converter)


def _check_heads(model: nn.Module, converter: converters.Converter) -> None:
  """Raises UserError for other tasks than those that a model has heads for."""
  tasks = getattr(converter, "heads", {})
  for member in model.offers.members or (model,):
    if tasks and {*member.offers.heads} != {*tasks}:
      raise UserError(
        f"the model has the heads {', '.join(sorted(member.offers.heads))}, "
        f"and EncoderFeatures.heads are {', '.join(sorted(tasks))}; name the "
        "same tasks in Heads.parts"
      )


def _check_token_types(
  model: nn.Module, converter: converters.Converter
) -> None:
  """Raises UserError for more types of tokens than a model has vectors for."""
  for member in model.offers.members or (model,):
    rows = member.offers.num_token_types
    if rows is None:
      continue
    types = converter.num_token_types
    if rows < types:
      raise UserError(
        f"the converter lays out {types} types of tokens but TokenTypeEmbed "
        f"has {rows} rows; set TokenTypeEmbed.num_types to {types}, or "
        "EncoderFeatures.token_types to False"
      )


def _reads(model: nn.Module, converter: converters.Converter) -> bool:
  """Whether batches have what a model reads, and no side that it does not."""
  offers = model.offers
  if converter.writes and not (offers.has_decoder or offers.writes_in_rows):
    return False
  laid_out = converter.shapes({"inputs": 1, "targets": 1}, 1, False)
  sides = {name.partition("_")[0] for name in laid_out}
  return sides & {"encoder", "decoder"} == set(offers.sides) and (
    laid_out.keys() >= set(offers.reads)
  )


def describe_cuts(
  tasks: Sequence[manifest.PreparedTask],
  lengths: Mapping[str, int],
  corruption: Any,
) -> list[str]:
  """Describes texts that will be cut, and a corruption without effect.

  Args:
    tasks: The tasks of a run.
    lengths: The number of tokens of each feature.
    corruption: The corruption in place of the tasks' own; None for these.
  """
  texts = [task for task in tasks if task.kind == "tokens"]
  lines = []
  if corruption is not None and not texts:
    lines.append(
      f"CORRUPTION, {type(corruption).__name__}, changes nothing: no task of "
      "this run is of unlabelled text"
    )
  for task in texts:
    objective = corruption or corruptions.from_spec(task.corruption)
    if objective.layout == "encoder":
      continue  # whole rows are never cut
    share = objective.check(lengths, task.vocabulary)
    if share:
      lines.append(
        f"train of {task.name}: about {share:.1%} of the examples are longer "
        f"than {dict(lengths)} and lose their end"
      )
  return lines


@gin.register
def fitting_lengths(
  corruption: Any, inputs: int, targets: int = 1
) -> dict[str, int]:
  """Returns the `TASK_FEATURE_LENGTHS` that hold nearly all examples.

  A study whose rows differ in their objective sets the length of inputs once,
  after the file of the objective:

      TASK_FEATURE_LENGTHS = @fitting_lengths()
      fitting_lengths.corruption = %CORRUPTION
      fitting_lengths.inputs = 64

  Span corruption has the lengths of t5's `random_spans_helper`; noise of a
  random size is drawn, and one example in a thousand may lose the end of its
  targets; a language model's targets are as long as the others' inputs;
  everything else has the whole text as its targets, or is an encoder's, with
  one length.

  Args:
    corruption: The corruption of the objective.
    inputs: The number of tokens of the inputs, EOS included.
    targets: The least number of tokens of the targets, which other tasks of
      the mixture need.

  Raises:
    UserError: There is no corruption, or the inputs are too short for it.
  """
  if corruption is None:
    raise UserError(
      "fitting_lengths has no corruption to find lengths for; name a file of "
      "objectives/ before it, or set TASK_FEATURE_LENGTHS by hand"
    )
  if not isinstance(inputs, int) or inputs < 1:
    raise UserError(
      f"fitting_lengths.inputs is {inputs!r}; it must be a number of tokens, 1 "
      "or more"
    )
  lengths = corruption.fitting_lengths(inputs)
  return lengths | {"targets": max(targets, lengths["targets"])}
