"""Checkpoints opened whole on one machine: model, parameters, vocabulary."""

import dataclasses
from typing import Any

from flax import linen as nn
from flax import traverse_util
import numpy as np

from transformer_zoo.checkpoints import checkpoint_sources
from transformer_zoo.conversion import sources
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.editing import interventions
from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import directory
from transformer_zoo.runs import inputs


@dataclasses.dataclass(frozen=True)
class LoadedCheckpoint:
  """A checkpoint in memory.

  Attributes:
    name: Its path.
    step: The number of steps that were made.
    model: Its model, whose layers are looped.
    params: Its parameters, float32.
    vocabulary: Its vocabulary.
    start_id: The id that a decoder reads first; None for an encoder, and for a
      language model that is fed the text alone.
  """

  name: str
  step: int
  model: nn.Module
  params: Any
  vocabulary: Vocabulary
  start_id: int | None


def open_checkpoint(
  path: str, vocabulary_path: str | None = None
) -> LoadedCheckpoint:
  """Opens a checkpoint.

  Args:
    path: The path of a run, a step of one, or a Hugging Face directory.
    vocabulary_path: The path of its vocabulary; None for the one beside it, or
      the vocabulary of the task that it was trained on.

  Raises:
    UserError: There is no such checkpoint or vocabulary, or its model reads a
      prompt, which these commands do not put before texts.
  """
  found = sources.open_source(path)
  if found.model is None:
    raise UserError(f"the model of {path!r} is unknown; convert it first")
  if prompt := found.model.offers.prompt_length:
    raise UserError(
      f"{path!r} reads a prompt of {prompt} vectors before each text, which "
      "editing, probes and inspection leave out; name its base, or a run "
      "without a prompt"
    )
  vocabulary = _vocabulary(found, vocabulary_path)
  inputs.check_vocabulary(found.model, vocabulary, repr(vocabulary.path))
  params = {
    name: np.asarray(tensor.read(), np.float32)
    for name, tensor in found.parameters.items()
  }
  return LoadedCheckpoint(
    path,
    found.step,
    interventions.looped(found.model),
    traverse_util.unflatten_dict(params, sep="/"),
    vocabulary,
    _start_id(found, vocabulary) if found.model.offers.has_decoder else None,
  )


def _vocabulary(found: sources.Source, path: str | None) -> Vocabulary:
  if path is not None:
    return Vocabulary(path)
  vocabulary = found.vocabulary
  if vocabulary is None and found.beside is not None:
    vocabulary = checkpoint_sources.vocabulary(found.beside)
  if vocabulary is None:
    raise UserError(
      f"no vocabulary lies beside {found.name!r}; name one with --vocabulary"
    )
  return vocabulary


def _start_id(found: sources.Source, vocabulary: Vocabulary) -> int | None:
  """The id that the decoder reads first; None if it is fed the text alone."""
  first = vocabulary.pad_id if found.start_id is None else found.start_id
  continues = found.model.offers.continues
  if found.decoding is not None:  # A run of ours says it itself.
    begins = found.decoding.start_before_prompt or not continues
    return first if begins else None
  if found.beside is None or not directory.is_directory(found.beside):
    return first
  named = checkpoint_sources.start_id(found.model, found.beside)
  return first if named is None and not continues else named
