"""Text that a decoder writes, and the likelihood of given targets."""

from collections.abc import Callable, Mapping
import dataclasses
from typing import Any

import jax
import numpy as np

from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.decoding.options import GREEDY

# (params, inputs_BM=, lengths_B=, example_ids_B= numbers of the examples,
# limits_B= the most tokens of each) -> [B, L] ids.
Generate = Callable[..., jax.Array]
# (params, batch) -> `loss_sum`, `correct_sum` and `weight_sum`, each [B].
ExampleSums = Callable[[Any, Mapping[str, jax.Array]], dict[str, jax.Array]]


@dataclasses.dataclass(frozen=True)
class TextScorer:
  """Scores targets with teacher forcing, and decodes answers.

  Attributes:
    example_sums: teacher-forced sums of each example of a batch.
    generate: decodes a batch; None for a model that writes nothing, whose
      masked tokens alone are scored.
    decoding: the options that `generate` follows.
  """

  example_sums: ExampleSums
  generate: Generate | None = None
  decoding: DecodingOptions = GREEDY

  def settings(self, *, answered):
    """As `Scorer.settings`."""
    return {
      "decoding": str(answered and self.decoding),
      # Log-likelihoods depend on it as well.
      "start before prompt": str(self.decoding.start_before_prompt),
    }

  def compute(self, params, batch, put, *, answered):
    """As `Scorer.compute`."""
    outputs = [self.example_sums(params, put(batch.arrays))]
    if answered:
      outputs.append(self.generate(params, **put(self._read(batch))))
    return outputs

  def _read(self, batch) -> dict[str, np.ndarray]:
    """Returns arguments of `generate`; rows without an example end at once."""
    numbers_B, limits_B = np.zeros((2, len(batch.inputs)), np.int32)
    lengths = [len(ids.get("targets", ())) for ids in batch.ids]
    numbers_B[: len(lengths)] = batch.places
    limits_B[: len(lengths)] = self.decoding.limits(np.array(lengths, np.int32))
    return {
      "inputs_BM": batch.inputs,
      "lengths_B": batch.input_lengths,
      "example_ids_B": numbers_B,
      "limits_B": limits_B,
    }

  def rows(self, task, batch, outputs):
    """As `Scorer.rows`."""
    sums, *written = outputs
    rows = [
      {
        "log_likelihood": -float(loss),
        "correct_tokens": int(correct),
        "target_tokens": int(weight),
      }
      for loss, correct, weight, _ in zip(
        sums["loss_sum"],
        sums["correct_sum"],
        sums["weight_sum"],
        batch.places,  # the rows after them are filling
        strict=False,
      )
    ]
    for ids_BL in written:
      for row, ids in zip(rows, ids_BL.tolist(), strict=False):
        row["prediction"] = task.vocabulary.decode(
          self.decoding.before_end(ids),
          skip_special_tokens=self.decoding.skip_special_tokens,
        )
    return rows

  def joined(self, task, examples, rows):
    """As `Scorer.joined`: each is a question of its own."""
    del task
    return list(examples), list(rows)
