"""The logits of a model for texts."""

from collections.abc import Iterable, Iterator, Mapping
import dataclasses
import functools
from typing import Any

from flax import linen as nn
import jax
import numpy as np

from transformer_zoo.data.features import converters
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.errors import UserError
from transformer_zoo.runs.answers import answering
from transformer_zoo.runs.answers import encoder_answers
from transformer_zoo.runs.answers.answering import Example
from transformer_zoo.training.sharding import partitioning as partitioning_lib


@dataclasses.dataclass(frozen=True)
class Logits:
  """Logits of targets that are given, or of a head of an encoder.

  Attributes:
    head: The name of the head; None for the only one, and for models that
      write.
  """

  head: str | None = None

  def model_of(self, model: nn.Module) -> nn.Module:
    """Returns the model itself.

    Raises:
      UserError: It has no such head, or several and none is named.
    """
    if not model.offers.has_decoder:
      self.head_of(model)
    elif self.head is not None:
      raise UserError(
        f"head is {self.head!r}, but only encoders have heads to "
        "choose from; leave it out"
      )
    return model

  def head_of(self, model: nn.Module) -> str:
    """Returns the name of the head of an encoder."""
    heads = [*model.offers.heads]
    if self.head in heads or self.head is None and len(heads) == 1:
      return self.head or heads[0]
    raise UserError(
      f"head is {self.head!r}; the model has "
      f"{', '.join(map(repr, heads)) or 'none'}: name one of them"
    )

  def check(
    self, examples: Iterable[Example], vocabulary: Vocabulary
  ) -> Iterator[Example]:
    """Yields the examples."""
    del vocabulary
    yield from examples

  def answering(
    self,
    model: nn.Module,
    vocabulary: Vocabulary,
    *,
    lengths: Mapping[str, int],
    decoding: DecodingOptions,
    converter: converters.Converter,
    **parts: Any,
  ) -> "_OfTargets | _OfHead":
    """Returns what computes them; arguments as of `answering.Answering`."""
    if converter.writes:
      return _OfTargets(
        model,
        vocabulary,
        lengths=lengths,
        decoding=decoding,
        converter=converter,
        **parts,
      )
    return _OfHead(
      model,
      vocabulary,
      head=self.head_of(model),
      length=lengths["inputs"],
      converter=converter,
      **parts,
    )


class _OfTargets:
  """The logits of the tokens of targets, each after those before it."""

  def __init__(self, model: nn.Module, vocabulary: Vocabulary, **parts: Any):
    self._answering = answering.Answering(model, vocabulary, **parts)
    self._params, self._mesh = parts["params"], parts["mesh"]
    self._batch_size = parts["batch_size"]
    self._vocabulary_size = vocabulary.size
    self._compute = jax.jit(functools.partial(_of_batch, model))

  def answers(
    self, examples: Iterable[Example], first: int = 0
  ) -> Iterator[list[dict[str, Any]]]:
    """Yields, for each batch, its examples with `logits`, float32 [T, V]."""
    for batch in answering.batches(examples, self._batch_size):
      arrays = self._answering.pairs(batch, first)
      put = partitioning_lib.put_whole_batch(arrays, self._mesh)
      found_BLV = partitioning_lib.fetch_whole(self._compute(self._params, put))
      weights_BL = np.asarray(arrays["decoder_loss_weights"])
      yield [
        {**example, "logits": found_BLV[row][weights_BL[row] > 0]}
        for row, example in enumerate(batch)
      ]
      first += len(batch)


class _OfHead:
  """The logits of a head of an encoder."""

  def __init__(
    self,
    model: nn.Module,
    vocabulary: Vocabulary,
    *,
    params: Any,
    mesh: jax.sharding.Mesh,
    head: str,
    length: int,
    batch_size: int,
    converter: converters.Encoder,
    report,
  ):
    self._params, self._mesh = params, mesh
    self._batch_size = batch_size
    self._texts = encoder_answers.Texts(
      vocabulary, converter.separators, length, report, converter.cls_place
    )
    alone = converter.of_texts()
    self._batch = encoder_answers.Rows(alone, vocabulary, length, batch_size)
    self._is_pooled = model.offers.heads[head].reads_pooled
    self._compute = jax.jit(functools.partial(_of_head, model, head))

  def answers(
    self, examples: Iterable[Example], first: int = 0
  ) -> Iterator[list[dict[str, Any]]]:
    """Yields, for each batch, its examples with `logits`.

    They are float32 [K] where the head reads the first place, [L, K] of all
    tokens of the text otherwise, special ones too.
    """
    for batch in answering.batches(examples, self._batch_size):
      texts = [example["inputs"].split("\t") for example in batch]
      rows = self._texts.rows(texts, first)
      put = partitioning_lib.put_whole_batch(self._batch(rows), self._mesh)
      found_BLK = partitioning_lib.fetch_whole(self._compute(self._params, put))
      yield [
        {
          **example,
          "logits": found_LK[0]
          if self._is_pooled
          else found_LK[: len(row["inputs"])],
        }
        for example, row, found_LK in zip(batch, rows, found_BLK, strict=False)
      ]
      first += len(batch)


def _of_batch(model, params, batch):
  variables = {"params": params}
  hidden = model.apply(variables, batch, method="hidden")
  return model.apply(variables, hidden, method="logits")


def _of_head(model, head, params, batch):
  variables = {"params": params}
  return model.apply(variables, batch, method="all_logits")[head]
