"""A model of ours as a Hugging Face directory.

A config.json is written only if the model that it describes, built again,
computes the same as the given one, field by field. Sinusoids that alternate are
reordered first (`with_sines_first`), because the classes of `transformers` put
all sines before all cosines.
"""

from collections.abc import Mapping, Sequence
import pathlib
from typing import Any

from flax import linen as nn
import numpy as np

from transformer_zoo import config
from transformer_zoo import schemas
from transformer_zoo.checkpoints import model_parameters
from transformer_zoo.data.vocabularies import files
from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import directory
from transformer_zoo.interop.huggingface import FAMILIES
from transformer_zoo.interop.huggingface import family_of
from transformer_zoo.interop.huggingface import sentence_transformers
from transformer_zoo.interop.huggingface import writing
from transformer_zoo.interop.huggingface.family import Family
from transformer_zoo.modules import comparison
from transformer_zoo.modules.positions.absolute import SinusoidalPositions
from transformer_zoo.peft import substitution
from transformer_zoo.tensors import assignment
from transformer_zoo.tensors.lazy_tensors import Tensor

_AXIS = "embed"


def write(
  folder: pathlib.Path,
  model: nn.Module,
  parameters: Mapping[str, Tensor],
  *,
  original: pathlib.Path | None = None,
  model_type: str | None = None,
  cls_place: str | None = None,
  said: Mapping[str, Any] | None = None,
  generation: Mapping[str, Any] | None = None,
  dtype: str = "float32",
  max_shard_bytes: int = writing.MAX_SHARD_BYTES,
) -> None:
  """Writes the configuration and the weights of a model.

  Args:
    folder: The folder, which exists and may hold files of a tokenizer.
    model: The model of the parameters.
    parameters: The parameters by our names, layers unstacked.
    original: The config.json that the model came from, which is written again
      if it still describes the model except for the sizes of its tables. No
      generation_config.json is written then, nor for an encoder.
    model_type: The kind of model to choose where classes of several compute the
      same, as RoBERTa's and XLM-R's do; None for the first.
    cls_place: Where [CLS] stands in the rows of an encoder's run, "first" or
      "last"; None if it is not known.
    said: Attributes of a new config.json that no output depends on:
      `eos_token_id`, `id2label` and others.
    generation: Attributes of a new generation_config.json.
    dtype: The type of the numbers in the files, a key of `writing.DTYPES`.
    max_shard_bytes: The largest size of a file, unless one tensor is larger.

  Raises:
    UserError: No class of `transformers` computes what the model does.
  """
  if substituted := substitution.substitutes(model):
    raise UserError(
      f"no class of `transformers` has {' or '.join(substituted)}; what was "
      "put into a model stays in our format, and its base can be exported from "
      "the run that it started from"
    )
  head = model.offers.heads.get(sentence_transformers.HEAD)
  if head is not None:
    width = model.offers.embedders["encoder"].features
    sentence_transformers.write(folder, head, width, parameters)
    model, parameters = _without_heads(model, parameters)
  model, parameters = without_generator(model, parameters)
  model, parameters = with_sines_first(model, parameters)
  model, parameters = without_unread_decoder(model, parameters)
  content = schemas.read(original, schemas.CONFIG) if original else {}
  content |= _new_sizes(content, model)
  found = original and _by_original(content, model)
  as_before = bool(found)
  if found:
    key = "torch_dtype" if "torch_dtype" in content else "dtype"
    writing.write_json(folder / directory.CONFIG, {**content, key: dtype})
  else:
    family, described = _by_any(model, model_type)
    found = family, {**described, **family.layout(cls_place), **(said or {})}
  writing.write_directory(
    folder,
    *found,
    parameters,
    dtype=dtype,
    max_shard_bytes=max_shard_bytes,
    generation=generation or {}
    if model.offers.has_decoder and not as_before
    else None,
  )


def class_of(model: nn.Module) -> tuple[Family, dict[str, Any]]:
  """The first family whose class computes what a model does, and its config.

  Raises:
    UserError: There is none.
  """
  return _by_any(model, None)


def tokenizer_to_name(folder: pathlib.Path) -> str:
  """A sentence on a tokenizer that `AutoTokenizer` does not choose, or "".

  Args:
    folder: The folder of an exported model, with its config.json.

  Raises:
    UserError: A file is damaged.
  """
  kind = files.tokenizer_config(str(folder)).get("tokenizer_class")
  family = family_of(schemas.read(folder / directory.CONFIG, schemas.CONFIG))
  if kind is None or kind in (family.tokenizer_classes or (kind,)):
    return ""
  return (
    f"AutoTokenizer does not take {kind} for a {family.kind} model; load the "
    f"tokenizer with transformers.{kind}.from_pretrained"
  )


def _new_sizes(content: Mapping[str, Any], model: nn.Module) -> dict[str, Any]:
  """Numbers of tokens and positions in which a model left its original."""
  try:
    family = family_of(content)
    described = family.config(model)
  except UserError:
    return {}
  return {
    name: described[name]
    for name in family.attributes.sizes
    if name in described and content.get(name) is not None
  }


def _by_original(
  content: Mapping[str, Any], model: nn.Module
) -> tuple[Family, dict[str, Any]] | None:
  """The original configuration, completed, where it is still the model's."""
  try:
    family = family_of(content)
    # Spellings of the original (DeBERTa's `legacy`) decide names of tensors.
    links = family.links({**content, **family.config(model)})
    stored = {link.theirs for link in links if not link.only_written}
    described = family.completed(content, stored)
    different = _differences(family, described, model)
  except UserError:
    return None
  return None if different else (family, described)


def _by_any(
  model: nn.Module, model_type: str | None
) -> tuple[Family, dict[str, Any]]:
  """The first family whose class computes what the model does."""
  refusals = {}
  for family in sorted(FAMILIES, key=lambda f: model_type != f.kind):
    kind = family.kind
    try:
      described = family.config(model)
      different = _differences(family, described, model)
    except UserError as error:
      refusals[kind] = str(error)
      continue
    if not different:
      return family, described
    refusals[kind] = ", ".join(f"{k} {v}" for k, v in different.items())
  raise UserError(
    "no class of `transformers` that is known here computes this model: "
    + "; ".join(f"{kind}: {reason}" for kind, reason in refusals.items())
  )


def _differences(
  family: Family, described: Mapping[str, Any], model: nn.Module
) -> dict[str, str]:
  """Differences between what their class and the model compute."""
  architecture = family.architecture(described)
  again = config.build(
    "MODEL", architecture.gin_files, architecture.as_overrides()
  )
  return comparison.differences(model, again)


def _without_heads(
  model: nn.Module, parameters: Mapping[str, Tensor]
) -> tuple[nn.Module, Mapping[str, Tensor]]:
  """The encoder of a model whose vectors are made by a head of their own."""
  bare = model.clone(heads=model.heads.clone(parts={}), pooler=None)
  return bare, {
    name: tensor
    for name, tensor in parameters.items()
    if not name.startswith("heads/")
  }


def without_generator(
  model: nn.Module, parameters: Mapping[str, Tensor]
) -> tuple[nn.Module, Mapping[str, Tensor]]:
  """The discriminator of a pair that was pre-trained on replaced tokens.

  Args:
    model: Any model; one without a generator is returned as it is.
    parameters: All its parameters, layers unstacked.
  """
  if model.offers.fine_tuned is None:
    return model, parameters
  whole = assignment.with_whole_tables(parameters)
  return model.offers.fine_tuned, {
    name: tensor
    for name, tensor in whole.items()
    if not name.startswith("generator/")
  }


def with_sines_first(
  model: nn.Module, parameters: Mapping[str, Tensor]
) -> tuple[nn.Module, Mapping[str, Tensor]]:
  """The same model with all sines before all cosines, if they alternate.

  The paper's positions are sine, cosine, sine, ... along d_model; most code has
  all sines before all cosines (Marian, tensor2tensor). Nothing else in a model
  distinguishes the numbers of d_model: normalizations, connections and
  projections compute the same if all parameters have them in another order.

  Args:
    model: Any model; one without such sinusoids is returned as it is.
    parameters: All its parameters, layers unstacked.

  Returns:
    A model that computes the same logits, and its parameters: the even numbers
    of d_model, then the odd ones.
  """
  if _layouts(model) != {True}:
    return model, parameters
  changed = substitution.rebuilt(model, _sines_first)
  return changed, {
    name: _reordered(parameters[name], parameter.axes)
    for name, parameter in model_parameters.parameters_of(model).items()
  }


def without_unread_decoder(
  model: nn.Module, parameters: Mapping[str, Tensor]
) -> tuple[nn.Module, Mapping[str, Tensor]]:
  """The same model without a mask decoder that none of its heads reads.

  DeBERTa's classes have none, and after fine-tuning nothing depends on it.

  Args:
    model: Any model; one without a mask decoder is returned as it is.
    parameters: All its parameters, layers unstacked.
  """
  encoder = model.offers.transformers.get("encoder")
  if getattr(encoder, "mask_decoder", None) is None or any(
    getattr(part, "reads_masked", False) for part in model.offers.heads.values()
  ):
    return model, parameters
  changed = model.clone(encoder=encoder.clone(mask_decoder=None))
  return changed, {
    name: tensor
    for name, tensor in parameters.items()
    if not name.startswith("encoder/mask_decoder/")
  }


def _layouts(model: nn.Module) -> set[bool]:
  """Values of `interleaved`; encoder and decoder may each have one."""
  return {
    part.interleaved
    for _, part in substitution.named_parts(model)
    if isinstance(part, SinusoidalPositions)
  }


def _sines_first(name: str, part: nn.Module) -> nn.Module:
  del name
  if isinstance(part, SinusoidalPositions):
    return part.clone(interleaved=False)
  return part


def _reordered(tensor: Tensor, axes: Sequence[str | None]) -> Tensor:
  """The tensor with every axis of d_model in the other order."""

  def read():
    array = tensor.read()
    for axis, name in enumerate(axes):
      if name == _AXIS:
        waves = np.arange(0, array.shape[axis], 2)
        array = array.take(np.concatenate([waves, waves + 1]), axis)
    return array

  return Tensor(tensor.shape, tensor.dtype, read)
