"""The step of few-shot tasks that makes long inputs fit."""

from collections.abc import Mapping

import seqio
import tensorflow as tf

from transformer_zoo.data import vocabularies
from transformer_zoo.data.features.trimming import FewerDemonstrations


class FittingStep:
  """A SeqIO preprocessor after tokenisation: demonstrations fit or go.

  Attributes:
    trimming: what does it where prepared examples are read.
  """

  trimming = FewerDemonstrations()

  def __call__(
    self,
    dataset: tf.data.Dataset,
    output_features: Mapping[str, seqio.Feature],
    sequence_length: Mapping[str, int] | None = None,
  ) -> tf.data.Dataset:
    """Returns the examples with `inputs` that fit, with room for EOS."""
    length = (sequence_length or {}).get("inputs")
    if length is None:
      return dataset
    feature = output_features["inputs"]
    vocabulary = vocabularies.from_seqio(feature.vocabulary)

    def cut(ids, text, starts):
      room = length - int(feature.add_eos)
      return self.trimming.cut(ids, text, starts, room, vocabulary)

    def fit(example):
      ids = tf.numpy_function(
        cut,
        [
          example[name]
          for name in ("inputs", "inputs_pretokenized", "demonstration_starts")
        ],
        tf.int32,
        stateful=False,
      )
      return {**example, "inputs": tf.ensure_shape(ids, (None,))}

    return dataset.map(fit)
