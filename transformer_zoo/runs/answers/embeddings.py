"""Vectors of texts by an encoder."""

from collections.abc import Callable, Iterable, Iterator, Mapping
import dataclasses
import functools
from typing import Any

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo.data.features import converters
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.errors import UserError
from transformer_zoo.modules.mixes import LayerMix
from transformer_zoo.runs.answers import answering
from transformer_zoo.runs.answers import encoder_answers
from transformer_zoo.training.sharding import partitioning as partitioning_lib

Example = Mapping[str, Any]

POOLS = ("first", "mean")


@gin.register
@dataclasses.dataclass(frozen=True)
class Embedding:
  """The vector of a text, made of the vectors of its tokens.

  Attributes:
    pool: 'first' is the vector of the first token, 'mean' the mean over all
      tokens, special ones too.
    normalize: True to divide a vector by its norm.
    mix: The layers whose vectors are taken, and how they are joined; None for
      the output of the model.
  """

  pool: str = "mean"
  normalize: bool = False
  mix: LayerMix | None = None

  def __post_init__(self):
    if self.pool not in POOLS:
      raise UserError(
        f"Embedding.pool is {self.pool!r}; it must be one of "
        f"{', '.join(map(repr, POOLS))}"
      )
    if self.mix is not None and self.mix.kind == "learned":
      raise UserError(
        "Embedding.mix has the kind 'learned', whose weights nothing has "
        "learned; choose another kind, or leave it out for the model's own mix"
      )

  def model_of(self, model: nn.Module) -> nn.Module:
    """Returns an encoder whose output is the output of `mix`.

    Raises:
      UserError: The model is no encoder, or several of them.
    """
    if model.offers.has_decoder or model.offers.members:
      raise UserError(
        f"--embeddings needs one encoder such as architectures/bert.gin, and "
        f"the model is {type(model).__name__}"
      )
    if self.mix is None:
      return model
    return model.clone(encoder=model.encoder.clone(mix=self.mix))

  def check(
    self, examples: Iterable[Example], vocabulary: Vocabulary
  ) -> Iterator[Example]:
    """Yields the examples, which have one or two texts."""
    del vocabulary
    return encoder_answers.check_number(examples, 1, 2)

  def answering(
    self,
    model: nn.Module,
    vocabulary: Vocabulary,
    *,
    lengths: Mapping[str, int],
    decoding: DecodingOptions,
    **parts: Any,
  ) -> "Embedder":
    """Returns an `Embedder` of these parts."""
    del decoding
    return Embedder(
      model, vocabulary, embedding=self, length=lengths["inputs"], **parts
    )


class Embedder:
  """Computes vectors batch by batch.

  Call it inside of `Partitioning.activate`.
  """

  def __init__(
    self,
    model: nn.Module,
    vocabulary: Vocabulary,
    *,
    params: Any,
    mesh: jax.sharding.Mesh,
    length: int,
    batch_size: int,
    converter: converters.Encoder,
    embedding: Embedding,
    report: Callable[[str], None],
  ):
    """Prepares the function; nothing is compiled.

    Args:
      model: An encoder.
      vocabulary: The vocabulary of the texts.
      params: The parameters on the mesh.
      mesh: The mesh of devices.
      length: The most tokens of a text; longer ones lose their end.
      batch_size: The number of texts of a batch, a multiple of the data axis of
        the mesh.
      converter: The layout of a batch.
      embedding: The vector of a text.
      report: A function that is called with a sentence on texts that are cut.
    """
    self._params = params
    self._mesh = mesh
    self._batch_size = batch_size
    self._texts = encoder_answers.Texts(
      vocabulary, converter.separators, length, report, converter.cls_place
    )
    # A text alone, whatever the form of what the model was trained on.
    converter = dataclasses.replace(converter, form=None)
    self._batch = encoder_answers.Rows(
      converter, vocabulary, length, batch_size
    )
    self._pooled = jax.jit(
      functools.partial(_vectors, embedding.model_of(model), embedding)
    )

  def answers(
    self, examples: Iterable[Example], first: int = 0
  ) -> Iterator[list[dict[str, Any]]]:
    """Yields, for each batch, its examples with their `embedding`.

    Args:
      examples: The examples, with `inputs`: a text, or two with a tab between
        them.
      first: The number of the first example, for messages.

    Yields:
      Lists of examples, each with `embedding`, float32 [D], or [layers * D] of
      concatenated layers.
    """
    for batch in answering.batches(examples, self._batch_size):
      rows = self._texts.rows(
        [example["inputs"].split("\t") for example in batch], first
      )
      put = partitioning_lib.put_whole_batch(self._batch(rows), self._mesh)
      vectors_BD = partitioning_lib.fetch_whole(self._pooled(self._params, put))
      yield [
        {**example, "embedding": vector_D}
        for example, vector_D in zip(batch, vectors_BD, strict=False)
      ]
      first += len(batch)


def _vectors(model, embedding, params, batch):
  """Returns the vectors of texts, float32 [B, D]."""
  vectors_BD = _pooled(model, embedding.pool, params, batch)
  if not embedding.normalize:
    return vectors_BD
  norm_B1 = jnp.linalg.norm(vectors_BD, axis=-1, keepdims=True)
  return vectors_BD / jnp.maximum(norm_B1, 1e-12)  # As PyTorch's `normalize`.


def _pooled(model, pool, params, batch):
  hidden_BLD = model.apply({"params": params}, batch, method="hidden")
  # With a mask decoder there is what it makes of masked tokens besides.
  hidden_BLD = getattr(hidden_BLD, "hidden_BLD", hidden_BLD)
  hidden_BLD = hidden_BLD.astype(jnp.float32)
  if pool == "first":
    return hidden_BLD[:, 0]
  real_BL = batch["encoder_input_tokens"] != model.pad_id
  number_B1 = jnp.maximum(jnp.sum(real_BL, axis=1, keepdims=True), 1)
  return jnp.sum(hidden_BLD, axis=1) / number_B1  # 0 at padding
