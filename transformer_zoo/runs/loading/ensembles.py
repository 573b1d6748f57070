"""Checkpoints that answer together (Raffel et al. 2020, section 3.6)."""

from collections.abc import Sequence
import os
import pathlib

from flax import linen as nn

from transformer_zoo.architectures.ensemble import Ensemble
from transformer_zoo.checkpoints import checkpoint_sources
from transformer_zoo.checkpoints.checkpoint_sources import Source
from transformer_zoo.errors import UserError
from transformer_zoo.modules import comparison
from transformer_zoo.runs.loading import restoration

# The checkpoint that is evaluated: one, or one for each member of an ensemble.
Checkpoint = tuple[pathlib.Path, ...]


def locate(paths: str | Sequence[str]) -> Checkpoint:
  """Finds the folders of the checkpoints that a user's paths mean.

  Args:
    paths: A path as `checkpoint_sources.locate` takes it, or several.

  Raises:
    UserError: A checkpoint is missing, or is named twice.
  """
  found = tuple(map(checkpoint_sources.locate, _listed(paths)))
  if not found:
    raise UserError("CHECKPOINT_PATH names no checkpoint")
  for place in found:
    if found.count(place) > 1:
      raise UserError(
        f"{str(place)!r} is named twice; the members of an ensemble have to be "
        "different checkpoints"
      )
  return found


def check_call(
  paths: str | Sequence[str], all_checkpoints: bool, output_dir: str | None
) -> None:
  """Compares the options of a command with the number of its checkpoints.

  Args:
    paths: The path of a checkpoint, or several.
    all_checkpoints: Whether all checkpoints of a run are evaluated.
    output_dir: The folder of the output; None for the run's.

  Raises:
    UserError: An option does not apply to these checkpoints.
  """
  number = len(_listed(paths))
  if number > 1 and all_checkpoints:
    raise UserError(
      f"--all_checkpoints is of one run: name one checkpoint, not {number}"
    )
  if all_checkpoints:
    (path,), (found,) = _listed(paths), locate(paths)
    if found.absolute() == pathlib.Path(path).absolute():
      raise UserError(
        f"--all_checkpoints is of a run, and {path!r} is one checkpoint; give "
        "the run folder, or leave the option out"
      )
  if number > 1 and output_dir is None:
    raise UserError(
      f"an ensemble of {number} checkpoints lies in no run folder: say with "
      "--output_dir where its predictions go"
    )


def shown(checkpoint: Checkpoint) -> str | list[str]:
  """Returns a checkpoint for JSON: its folder, or a list of folders."""
  folders = list(map(str, checkpoint))
  return folders if len(folders) > 1 else folders[0]


def model_of(model: nn.Module, checkpoint: Checkpoint) -> nn.Module:
  """Returns the model itself, or the ensemble of several checkpoints.

  A member whose run had another model than the first checkpoint is computed by
  the model of its run.

  Args:
    model: The model of the first checkpoint.
    checkpoint: The checkpoint, as `locate` returns it.

  Raises:
    UserError: The members do not read or predict the same tokens.
  """
  if len(checkpoint) == 1:
    return model
  sources = list(map(checkpoint_sources.open_source, checkpoint))
  _check_vocabularies(sources)
  _check_starts(sources, model.pad_id)
  first = sources[0].make_model() or model
  members = [model]
  for source in sources[1:]:
    own = source.make_model()
    same = own is None or not comparison.differences(own, first)
    members.append(model if same else own)
    _check_member(members[-1], model, source)
  return Ensemble.of(members)


def _listed(paths: str | Sequence[str]) -> Sequence[str]:
  return [paths] if isinstance(paths, str | os.PathLike) else paths


def _check_vocabularies(sources: Sequence[Source]) -> None:
  """Raises UserError if two sources are known to have different ids."""
  known = {source.name: source.find_vocabulary() for source in sources}
  known = {name: found for name, found in known.items() if found is not None}
  for name, vocabulary in known.items():
    first, expected = next(iter(known.items()))
    if restoration.first_other(expected, [vocabulary]) is not None:
      raise UserError(
        f"{name} has the vocabulary {vocabulary.path!r} and {first} "
        f"{expected.path!r}, whose ids are others; the members of an ensemble "
        "have one vocabulary"
      )


def _check_starts(sources: Sequence[Source], pad_id: int) -> None:
  """Raises UserError if two decoders are known to have other first ids."""
  known = {}
  for source in sources:
    start = source.find_start_id()
    # None of a run is padding; of others it may be unknown.
    if source.of_a_run or start is not None:
      known[source.name] = pad_id if start is None else start
  for name, start in known.items():
    first, expected = next(iter(known.items()))
    if start != expected:
      raise UserError(
        f"the decoder of {name} was first fed id {start} and the decoder "
        f"of {first} id {expected}; the members of an ensemble read the same "
        "batches"
      )


def _check_member(member: nn.Module, first: nn.Module, source: Source) -> None:
  """Raises UserError if it reads or predicts other tokens than the first."""
  if type(member) is not type(first):
    raise UserError(
      f"{source.name} is of a {type(member).__name__} and not of a "
      f"{type(first).__name__}, as the first; the members of an ensemble read "
      "the same batches"
    )
  logits, expected = (
    member.offers.num_outputs,
    first.offers.num_outputs,
  )
  if logits != expected:
    raise UserError(
      f"{source.name} has logits of {logits} tokens and not of {expected}, as "
      "the first; the members of an ensemble have one vocabulary"
    )
  prompt, expected = (each.offers.prompt_length for each in (member, first))
  if prompt != expected:
    raise UserError(
      f"{source.name} reads {prompt} vectors of a prompt before a text and not "
      f"{expected}, as the first; the members of an ensemble read the same rows"
    )
  outputs, expected = map(_outputs_of_heads, (member, first))
  if outputs != expected:
    raise UserError(
      f"{source.name} has the heads {_listed_heads(outputs)} and not "
      f"{_listed_heads(expected)}, as the first; the members of an ensemble "
      "answer alike"
    )


def _outputs_of_heads(member: nn.Module) -> dict[str, int | None]:
  """Returns the number of outputs of each head of an encoder, by its name."""
  return {
    name: getattr(part, "num_classes", None)
    for name, part in member.offers.heads.items()
  }


def _listed_heads(outputs: dict[str, int | None]) -> str:
  return ", ".join(
    name if number is None else f"{name} of {number}"
    for name, number in outputs.items()
  )
