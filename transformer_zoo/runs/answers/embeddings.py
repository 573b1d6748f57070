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
from transformer_zoo.modules.text_vectors import POOLS
from transformer_zoo.modules.text_vectors import TextVectors
from transformer_zoo.modules.text_vectors import unit
from transformer_zoo.objectives import embeddings
from transformer_zoo.runs.answers import answering
from transformer_zoo.runs.answers import encoder_answers
from transformer_zoo.training.sharding import partitioning as partitioning_lib

Example = Mapping[str, Any]


@gin.register
@dataclasses.dataclass(frozen=True)
class Embedding:
  """The vector of a text, made of the vectors of its tokens.

  A model with the head `embedding` (modules/text_vectors.py) has learned which
  vector; what is set here takes the place of its settings.

  Attributes:
    pool: 'first' or 'last' for the vector of the token there, 'mean' for the
      mean over all tokens, special ones too; None for that of the head, or else
      the mean.
    normalize: True to divide a vector by its norm; None for what the head does,
      or else False.
    mix: The layers whose vectors are taken, and how they are joined, without
      the head; None for the output of the model.
    width: The number of first features that are kept, before a normalization;
      None for all of them.
    prompts: Texts that are put before each text, by their names.
    prompt: The name of the one that is; None for none.
    place: The place of the texts in the rows of training, 1 for anchors, 2 or
      more for others, which another encoder may read (`TwoEncoders`).
  """

  pool: str | None = None
  normalize: bool | None = None
  mix: LayerMix | None = None
  width: int | None = None
  prompts: Mapping[str, str] = dataclasses.field(default_factory=dict)
  prompt: str | None = None
  place: int = 1

  def __post_init__(self):
    if self.pool is not None and self.pool not in POOLS:
      raise UserError(
        f"Embedding.pool is {self.pool!r}; it must be one of "
        f"{', '.join(map(repr, POOLS))}"
      )
    if self.mix is not None and self.mix.kind == "learned":
      raise UserError(
        "Embedding.mix has the kind 'learned', whose weights nothing has "
        "learned; choose another kind, or leave it out for the model's own mix"
      )
    if self.prompt is not None and self.prompt not in self.prompts:
      known = ", ".join(map(repr, self.prompts)) or "no prompt"
      raise UserError(
        f"Embedding.prompt is {self.prompt!r}, and there is {known}; name one "
        "of them, or write it into Embedding.prompts"
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

  def vectors(
    self, model: nn.Module, params: Any, batch: Mapping[str, jax.Array]
  ) -> jax.Array:
    """Returns the vectors of texts, float32 [B, E].

    Args:
      model: The model of `model_of`.
      params: Its parameters.
      batch: What the converter `Encoder` lays out, a text in each row.

    Raises:
      UserError: Vectors have fewer features than `width`.
    """
    own = model.offers.heads.get(embeddings.HEAD)
    has_own = own is not None and self.mix is None
    part = own if has_own else TextVectors()
    given = {"pool": self.pool, "normalize": self.normalize}
    part = part.clone(**{k: v for k, v in given.items() if v is not None})
    normalizes = part.normalize
    # Of a truncated vector the rest is left out first.
    part = part.clone(normalize=False)
    real_BL = batch["encoder_input_tokens"] != model.pad_id
    if self.place > 1:
      batch = {**batch, "encoder_segment_ids": real_BL * self.place}
    hidden_BLD = model.apply({"params": params}, batch, method="hidden")
    # With a mask decoder there is what it makes of masked tokens besides.
    hidden_BLD = getattr(hidden_BLD, "hidden_BLD", hidden_BLD)
    of_heads = params.get("heads", {}) if has_own else {}
    vectors_B1E = part.apply(
      {"params": of_heads.get(embeddings.HEAD, {})},
      hidden_BLD,
      embedder=None,
      deterministic=True,
      texts_BL=real_BL.astype(jnp.int32),
    )
    features = vectors_B1E.shape[-1]
    if self.width is not None and not 1 <= self.width <= features:
      raise UserError(
        f"Embedding.width is {self.width}, and vectors have {features} "
        f"features; choose one from 1 to {features}"
      )
    vectors_BE = vectors_B1E[:, 0, : self.width]
    return unit(vectors_BE) if normalizes else vectors_BE

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
      vocabulary,
      converter.separators,
      length,
      report,
      converter.cls_place,
      converter.first_new_id,
    )
    converter = converter.of_texts()
    self._batch = encoder_answers.Rows(
      converter, vocabulary, length, batch_size
    )
    self._before = embedding.prompts.get(embedding.prompt, "")
    self._pooled = jax.jit(
      functools.partial(embedding.vectors, embedding.model_of(model))
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
      Lists of examples, each with `embedding`, float32 [E], or [layers * D] of
      concatenated layers.
    """
    for batch in answering.batches(examples, self._batch_size):
      rows = self._texts.rows(
        [(self._before + example["inputs"]).split("\t") for example in batch],
        first,
      )
      put = partitioning_lib.put_whole_batch(self._batch(rows), self._mesh)
      vectors_BD = partitioning_lib.fetch_whole(self._pooled(self._params, put))
      yield [
        {**example, "embedding": vector_D}
        for example, vector_D in zip(batch, vectors_BD, strict=False)
      ]
      first += len(batch)
