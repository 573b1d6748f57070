"""The attention of a model to a text, head by head.

The model runs op by op, layers looped, with the reference kernel, and what each
attention computes is noted on the way (`tracing.recorded_weights`): training
and answering know nothing of it.
"""

import collections
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import dataclasses
import time
from typing import Any

from flax import linen as nn
import gin
import numpy as np

from transformer_zoo import tracing
from transformer_zoo.data.features import converters
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import UserError
from transformer_zoo.forecast import cost
from transformer_zoo.modules.attention.attention import Attention
from transformer_zoo.modules.attention.dot_product import REFERENCE
from transformer_zoo.modules.stack import Stack
from transformer_zoo.peft import substitution
from transformer_zoo.runs.answers import answering
from transformer_zoo.runs.answers import encoder_answers

Example = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class AttentionMap:
  """The weights of one attention to one text.

  Attributes:
    name: The path of the attention in the parameter tree; with " (2)" and so
      on where parameters are applied again (ALBERT's layers, mask decoders).
    weights_HLM: The share of each key, float32 [H, L, M].
    queries: The tokens that attend, L of them.
    keys: The tokens that are attended to, M of them.
    to_itself: Whether both are the same text, so that they have distances.
  """

  name: str
  weights_HLM: np.ndarray
  queries: tuple[str, ...]
  keys: tuple[str, ...]
  to_itself: bool

  def entropy_H(self) -> np.ndarray:
    """Returns the mean entropy of the weights of each head, in nats."""
    weights = np.maximum(self.weights_HLM, np.finfo(np.float32).tiny)
    return -np.sum(self.weights_HLM * np.log(weights), axis=-1).mean(axis=-1)

  def distance_H(self) -> np.ndarray | None:
    """Returns the mean distance that each head looks, in tokens.

    None for attention to another text.
    """
    if not self.to_itself:
      return None
    places = np.arange(len(self.queries))
    distances_LM = np.abs(places[:, None] - places)
    return np.sum(self.weights_HLM * distances_LM, axis=-1).mean(axis=-1)


@gin.register
@dataclasses.dataclass(frozen=True)
class AttentionMaps:
  """The weights of every attention, read off a model by `infer`.

  An encoder reads one text, or two with a tab between them. Other models read
  an example's `targets` after its `inputs`, or, without any, what they answer.
  """

  def model_of(self, model: nn.Module) -> nn.Module:
    """Returns the model with looped layers and the reference kernel.

    Raises:
      UserError: It is an ensemble, or attends to summaries of tokens.
    """
    if model.offers.members:
      raise UserError(
        "several checkpoints have no attention in common; name one of them"
      )
    return substitution.rebuilt(model, _shown)

  def check(
    self, examples: Iterable[Example], vocabulary: Vocabulary
  ) -> Iterator[Example]:
    """Yields the examples; the texts are cut when they are read."""
    del vocabulary
    return iter(examples)

  def answering(
    self,
    model: nn.Module,
    vocabulary: Vocabulary,
    *,
    params: Any,
    converter: converters.Converter,
    lengths: Mapping[str, int],
    report: Callable[[str], None],
    **parts: Any,
  ) -> "AttentionReader":
    """Returns an `AttentionReader` of these parts."""
    if not converter.writes:
      batches = _OfEncoder(vocabulary, converter, lengths["inputs"], report)
    else:
      batches = _OfText(
        model,
        vocabulary,
        params=params,
        converter=converter,
        lengths=lengths,
        report=report,
        **parts,
      )
    return AttentionReader(self.model_of(model), vocabulary, params, batches)


class AttentionReader:
  """Computes the maps of one text after another.

  Call it inside of `Partitioning.activate`.
  """

  def __init__(
    self,
    model: nn.Module,
    vocabulary: Vocabulary,
    params: Any,
    batch_of: Callable[[Example, int], Mapping[str, np.ndarray]],
  ):
    """Computes nothing.

    Args:
      model: The model, looped (`AttentionMaps.model_of`).
      vocabulary: The vocabulary of the texts.
      params: The parameters.
      batch_of: Makes the batch of an example and its number; the first row is
        read.
    """
    self._model = model
    self._vocabulary = vocabulary
    self._params = params
    self._batch_of = batch_of

  def answers(
    self, examples: Iterable[Example], first: int = 0
  ) -> Iterator[list[dict[str, Any]]]:
    """Yields each example, alone in a list, with `attention` and `cost`.

    Args:
      examples: The examples.
      first: The number of the first example, for messages.

    Yields:
      Lists of one example, whose `attention` is a list of `AttentionMap`s in
      the order of their computation, and whose `cost` has the `seconds` and
      `flops` of the pass that computed them.
    """
    for number, example in enumerate(examples, first):
      # Without them a mask decoder shows what every place attends to.
      batch = {
        name: array
        for name, array in self._batch_of(example, number).items()
        if name != "encoder_predicted_places"
      }
      started = time.monotonic()
      maps = self._maps(batch)
      spent = {
        "seconds": round(time.monotonic() - started, 3),
        "flops": cost.count(self._hidden, self._params, batch).flops,
      }
      yield [{**example, "attention": maps, "cost": spent}]

  def _hidden(self, params: Any, batch: Mapping[str, np.ndarray]) -> Any:
    return self._model.apply({"params": params}, batch, method="hidden")

  def _maps(self, batch: Mapping[str, np.ndarray]) -> list[AttentionMap]:
    names: list[str] = []

    def note_name(next_method, arguments, keywords, context):
      before = len(weights)
      result = next_method(*arguments, **keywords)
      # The innermost module whose call computes weights is the attention.
      path = "/".join(context.module.path)
      names.extend([path] * (len(weights) - max(before, len(names))))
      return result

    with tracing.recorded_weights() as weights:
      with nn.intercept_methods(note_name):
        self._hidden(self._params, batch)
    pieces = self._vocabulary.pieces()
    tokens = {
      side: tuple(pieces[id_] or f"<{id_}>" for id_ in ids)
      for side, ids in _tokens(batch, self._model.pad_id).items()
    }
    return [
      self._map(name, np.asarray(each[0], np.float32), tokens)
      for name, each in zip(_numbered(names), weights, strict=True)
    ]

  @staticmethod
  def _map(name, weights_HLM, tokens) -> AttentionMap:
    queries = keys = tokens["encoder" if "encoder" in tokens else "decoder"]
    if name.startswith("decoder"):
      queries = tokens["decoder"]
      crosses = "encoder_decoder_attention" in name
      keys = tokens["encoder"] if crosses else queries
    weights_HLM = weights_HLM[:, : len(queries), : len(keys)]
    return AttentionMap(
      name,
      weights_HLM,
      queries,
      keys,
      to_itself=queries is keys,
    )


class _OfEncoder:
  """Makes batches of one row for an encoder."""

  def __init__(self, vocabulary, converter, length, report):
    converter = converter.of_texts()
    self._texts = encoder_answers.Texts(
      vocabulary, converter.separators, length, report, converter.cls_place
    )
    self._rows = encoder_answers.Rows(converter, vocabulary, length, 1)

  def __call__(self, example: Example, number: int):
    texts = [example["inputs"].split("\t")]
    return self._rows(self._texts.rows(texts, number))


class _OfText:
  """Makes batches of one row for a model that writes."""

  def __init__(self, *arguments, **parts):
    self._answering = answering.Answering(*arguments, **parts)

  def __call__(self, example: Example, number: int):
    if "targets" not in example:
      ((answer,),) = self._answering.answers([example], number)
      example = {**example, "targets": answer["prediction"]}
    return self._answering.pairs([example], number)


def _shown(name: str, part: nn.Module) -> nn.Module:
  """The rule of `AttentionMaps.model_of`."""
  del name
  if isinstance(part, Stack):
    return part.clone(scan=False, remat="none")
  if isinstance(part, Attention):
    if part.summaries is not None:
      raise UserError(
        "attention to sums of blocks (Attention.summaries) has no map of "
        "tokens by tokens; look at a model without them"
      )
    return part.clone(kernel=REFERENCE)
  return part


def _numbered(names: Sequence[str]) -> list[str]:
  """Returns the names, those that come again with a number."""
  times = collections.Counter()
  numbered = []
  for name in names:
    times[name] += 1
    number = times[name]
    numbered.append(name if number == 1 else f"{name} ({number})")
  return numbered


def _tokens(
  batch: Mapping[str, np.ndarray], pad_id: int
) -> dict[str, list[int]]:
  """Returns the ids that encoder and decoder read in the first row."""
  # The decoder's first token, the start, may have the id of padding.
  read = {
    "encoder": lambda: batch["encoder_input_tokens"][0] != pad_id,
    "decoder": lambda: batch["decoder_loss_weights"][0] != 0,
  }
  tokens = {}
  for side, is_read in read.items():
    if f"{side}_input_tokens" in batch:
      length = np.max(np.flatnonzero(is_read()), initial=0) + 1
      tokens[side] = batch[f"{side}_input_tokens"][0][:length].tolist()
  return tokens
