"""A corruption as the step of a SeqIO task."""

from collections.abc import Callable, Mapping
from typing import Any, TYPE_CHECKING

import numpy as np

from transformer_zoo.corruption.concatenation import ConcatenatedDocuments
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data import vocabularies
from transformer_zoo.data.loader import sentence_source
from transformer_zoo.data.prepare import seqio_concatenation
from transformer_zoo.data.prepare import seqio_sentences
from transformer_zoo.errors import UserError

if TYPE_CHECKING:
  import tensorflow as tf


class CorruptionStep:
  """SeqIO preprocessor: joins, cuts and corrupts an unlabelled token stream.

  The `targets` of all documents are joined into one stream, which is cut into
  chunks of `corruption.raw_length(sequence_length)` tokens (the incomplete
  last one is dropped); chunk `index` is corrupted with draws of the key
  `(seed, index)` alone. The loader does the same with the same functions,
  from prepared files, so a task read with SeqIO gives the examples of
  `loader.evaluation_batches`.

  In a task it stands after tokenisation and before `append_eos_after_trim`;
  `prepare` runs the steps before it and leaves the corruption to the loader.
  Objectives on sentences read the whole dataset first (`seqio_sentences.py`).
  An encoder's rows have no EOS added: the features of a task whose corruption
  makes them say `add_eos=False`.

  Not a dataclass: SeqIO would pass lengths and features to one as fields
  (seqio/utils.py, `add_kwargs_to_transform`).

  Attributes:
    corruption: an object of `transformer_zoo.corruption`.
    seed: first word of the key of every chunk's draws.
  """

  def __init__(
    self, corruption: Callable[..., dict[str, Ragged]], seed: int = 0
  ):
    self.corruption = corruption
    self.seed = seed

  @property
  def __name__(self) -> str:
    """What SeqIO writes in its messages about this step."""
    return f"corrupt_{type(self.corruption).__name__}"

  def __call__(
    self,
    dataset: "tf.data.Dataset",
    sequence_length: Mapping[str, int] | None,
    output_features: Mapping[str, Any],
  ) -> "tf.data.Dataset":
    """Returns a dataset of what the corruption makes, int32, without EOS.

    Args:
      dataset: examples with int32 `targets` of any length.
      sequence_length: length of `inputs` and `targets`, EOS included.
      output_features: the task's features; `targets` has the vocabulary.

    Returns:
      examples with `inputs` and `targets`, and what else the layout of the
      corruption has (`weights`, `token_types`, ...).

    Raises:
      UserError: no lengths are given, the corruption does not fit them, or EOS
        would be added to rows that are whole.
    """
    import tensorflow as tf  # pylint: disable=g-import-not-at-top

    if sequence_length is None:
      raise UserError(
        "A corruption needs the lengths of inputs and targets; pass "
        "sequence_length={'inputs': ..., 'targets': ...}."
      )
    self._check_eos(output_features)
    vocabulary = vocabularies.from_seqio(output_features["targets"].vocabulary)
    self.corruption.check(sequence_length, vocabulary)
    if isinstance(self.corruption, sentence_source.Objective):
      return seqio_sentences.examples_of(
        dataset,
        self.corruption,
        sequence_length["inputs"],
        vocabulary,
        self.seed,
      )
    if isinstance(self.corruption, ConcatenatedDocuments):
      return seqio_concatenation.examples_of(
        dataset, self.corruption, sequence_length, vocabulary, self.seed
      )
    raw_length = self.corruption.raw_length(sequence_length)

    def corrupt(index, tokens):
      draws = Draws(self.seed, np.array([index]))
      return self.corruption(tokens[None], draws, vocabulary)

    # What the features are called, from a text of unknown tokens.
    blank = np.full(raw_length, vocabulary.unk_id or 0, np.int32)
    names = tuple(corrupt(0, blank))

    def values_of(index, tokens):
      example = corrupt(index, tokens)
      return [example[name].values for name in names]

    def to_example(index, tokens):
      values = tf.numpy_function(
        values_of, [index, tokens], [tf.int32] * len(names), stateful=False
      )
      return {
        name: tf.ensure_shape(value, [None])
        for name, value in zip(names, values, strict=True)
      }

    stream = dataset.map(lambda example: example["targets"])
    chunks = stream.rebatch(raw_length, drop_remainder=True).enumerate()
    return chunks.map(to_example, num_parallel_calls=tf.data.AUTOTUNE)

  def _check_eos(self, output_features: Mapping[str, Any]) -> None:
    layout = getattr(self.corruption, "layout", "encoder_decoder")
    whole = isinstance(self.corruption, ConcatenatedDocuments)
    ended = [key for key, value in output_features.items() if value.add_eos]
    if ended and (whole or layout == "encoder"):
      raise UserError(
        f"{type(self.corruption).__name__} makes whole rows, but the task "
        f"would add EOS to {', '.join(map(repr, ended))}; give its features "
        "add_eos=False."
      )
