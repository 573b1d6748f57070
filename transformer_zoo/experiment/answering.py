"""A model and its vocabulary on a mesh: answers to texts, scores of targets."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
import functools
import itertools
from typing import Any

from flax import linen as nn
import jax
import numpy as np

from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.decoding.generate import generate
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.errors import UserError
from transformer_zoo.experiment import scoring
from transformer_zoo.objectives.sequence_to_sequence import example_sums
from transformer_zoo.training import partitioning as partitioning_lib

Example = Mapping[str, Any]
# Widths of batches are at least this, and powers of two up to the length.
_NARROWEST = 16


class Answering:
  """Computes answers batch by batch.

  Call it inside of `Partitioning.activate`.
  """

  def __init__(
    self,
    model: nn.Module,
    vocabulary: Vocabulary,
    *,
    params: Any,
    mesh: jax.sharding.Mesh,
    lengths: Mapping[str, int],
    batch_size: int,
    decoding: DecodingOptions,
  ):
    """Compiles nothing yet.

    Args:
      model: an encoder-decoder.
      vocabulary: of inputs and targets.
      params: its parameters, on the mesh.
      mesh: where it lies.
      lengths: feature -> tokens; what is longer is cut.
      batch_size: examples a batch, a multiple of the mesh's data axis.
      decoding: how to search.

    Raises:
      UserError: the options do not fit the length of the targets.
    """
    decoding.with_length(lengths["targets"])
    self._vocabulary = vocabulary
    self._params = params
    self._mesh = mesh
    self._lengths = lengths
    self._batch_size = batch_size
    self._generate = jax.jit(
      functools.partial(
        generate,
        model,
        max_length=lengths["targets"],
        options=decoding,
        **scoring.special_ids(vocabulary),
      )
    )
    self._example_sums = jax.jit(functools.partial(example_sums, model))

  def answers(
    self, examples: Iterable[Example], first: int = 0
  ) -> Iterator[list[dict[str, Any]]]:
    """Yields, for each batch, its examples with their answers.

    Each has `prediction`, `score` and `log_likelihood` of the best output; all
    outputs are listed under `predictions` where several are returned.

    Args:
      examples: with `inputs`.
      first: number of the first example, which draws depend on.
    """
    for batch in _batches(examples, self._batch_size):
      inputs_BM = self._ids(batch, "inputs")
      numbers_B = first + np.arange(self._batch_size, dtype=np.int32)
      first += len(batch)
      put = self._put(inputs=inputs_BM, numbers=numbers_B)
      outputs = self._generate(
        self._params, put["inputs"], example_ids_B=put["numbers"]
      )
      outputs = jax.tree.map(partitioning_lib.fetch_whole, outputs)
      yield [
        {**example, **self._answer(outputs, row)}
        for row, example in enumerate(batch)
      ]

  def scores(self, examples: Iterable[Example]) -> Iterator[list[dict]]:
    """Yields, for each batch, its examples with scores of their targets.

    Each has `log_likelihood`, the sum over the `target_tokens` tokens of its
    targets, EOS included, in nats.

    Args:
      examples: with `inputs` and `targets`.
    """
    for batch in _batches(examples, self._batch_size):
      targets_BL = self._ids(batch, "targets")
      shifted_BL = np.pad(
        targets_BL,
        ((0, 0), (1, 0)),
        constant_values=self._vocabulary.pad_id,
      )[:, :-1]
      put = self._put(
        encoder_input_tokens=self._ids(batch, "inputs"),
        decoder_input_tokens=shifted_BL,
        decoder_target_tokens=targets_BL,
        decoder_loss_weights=(targets_BL != self._vocabulary.pad_id).astype(
          np.int32
        ),
      )
      sums = jax.tree.map(
        partitioning_lib.fetch_whole, self._example_sums(self._params, put)
      )
      yield [
        {
          **example,
          "log_likelihood": -float(sums["loss_sum"][row]),
          "target_tokens": int(sums["weight_sum"][row]),
        }
        for row, example in enumerate(batch)
      ]

  def _put(self, **arrays: np.ndarray) -> dict[str, jax.Array]:
    return partitioning_lib.put_whole_batch(arrays, self._mesh)

  def _ids(self, batch: Sequence[Example], feature: str) -> np.ndarray:
    """Ids with EOS, cut and padded; rows without example repeat the last."""
    end = scoring.special_ids(self._vocabulary)["eos_id"]
    length = self._lengths[feature]
    rows = [
      [*self._vocabulary.encode(example[feature])[: length - 1], end]
      for example in batch
    ]
    rows += rows[-1:] * (self._batch_size - len(rows))
    width = _NARROWEST
    while width < max(map(len, rows)):
      width *= 2
    ids_BM = np.full(
      (len(rows), min(width, length)), self._vocabulary.pad_id, np.int32
    )
    for row, ids in enumerate(rows):
      ids_BM[row, : len(ids)] = ids
    return ids_BM

  def _answer(self, outputs, row: int) -> dict[str, Any]:
    found = [
      {
        "prediction": self._vocabulary.decode(ids),
        "score": float(score),
        "log_likelihood": float(log_likelihood),
      }
      for ids, score, log_likelihood in zip(
        outputs.tokens[row].tolist(),
        outputs.scores[row],
        outputs.log_likelihoods[row],
        strict=True,
      )
    ]
    return found[0] | ({"predictions": found} if len(found) > 1 else {})


def _batches(examples, size):
  examples = iter(examples)
  while batch := list(itertools.islice(examples, size)):
    yield batch


def check(examples: Iterable[Example], features: Sequence[str]):
  """Yields the examples.

  Raises:
    UserError: one lacks a feature, or it is no text.
  """
  for number, example in enumerate(examples, 1):
    for feature in features:
      if not isinstance(example.get(feature), str):
        raise UserError(
          f"example {number} has no text called {feature!r}; it has "
          f"{', '.join(map(repr, example)) or 'nothing'}"
        )
    yield example
