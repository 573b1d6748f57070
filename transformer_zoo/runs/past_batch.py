"""Reconstruction of a past batch from a run's configuration and its number."""

from collections.abc import Iterator
import dataclasses
import os
import pathlib
from typing import Any

import numpy as np

from transformer_zoo import config
from transformer_zoo.checkpoints import run_layout
from transformer_zoo.corruption.special_tokens import separator_id
from transformer_zoo.data.features import forms
from transformer_zoo.data.storage import manifest
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import UserError
from transformer_zoo.runs import settings

_TOKENS = ("encoder_input_tokens", "decoder_target_tokens")


@dataclasses.dataclass(frozen=True)
class PastBatch:
  """The batch of a past step.

  Attributes:
    origin: The origin of the batch, as `Batches.origin` returns it.
    features: The arrays by SeqIO's keys, int32 [rows of all processes, width].
    vocabulary: The vocabulary of the ids.
  """

  origin: dict[str, Any]
  features: dict[str, np.ndarray]
  vocabulary: Vocabulary

  def texts(self, row: int) -> dict[str, list[str]]:
    """The examples of a row as text, by feature.

    The texts of an encoder's example have [SEP] between them.
    """
    return {
      name: [self._written(ids) for ids in self._examples(name, row)]
      for name in _TOKENS
      if name in self.features
    }

  def _written(self, ids: list[int]) -> str:
    if "encoder_target_tokens" not in self.features:
      return self.vocabulary.decode(ids)
    separator = separator_id(self.vocabulary)
    ends = [place for place, i in enumerate(ids) if i == separator]
    starts = [0, *(end + 1 for end in ends)]
    texts = [
      self.vocabulary.decode(ids[start:end])
      for start, end in zip(starts, [*ends, len(ids)], strict=True)
    ]
    return " [SEP] ".join(filter(None, texts))

  def _examples(self, name: str, row: int) -> Iterator[list[int]]:
    """Yields the ids of each example of a row, packed or not."""
    tokens = self.features[name][row]
    side = name.partition("_")[0]
    segments = self.features.get(
      f"{side}_segment_ids", np.ones_like(self.features[name])
    )[row]
    for segment in range(1, segments.max() + 1):
      yield tokens[segments == segment].tolist()


def rebuild(
  run: str | os.PathLike[str], step: int, *, prepared_dir: str | None = None
) -> PastBatch:
  """Makes the batch of a step again; gin's configuration becomes the run's.

  Args:
    run: The run folder.
    step: The number of the step, from 1, as in metrics and anomalies.
    prepared_dir: The folder of the prepared data; None for the run's.

  Raises:
    UserError: The folder is no run folder, the run has no such step, or its
      data is missing.
  """
  path = pathlib.Path(run) / run_layout.CONFIG
  if not path.is_file():
    raise UserError(f"{str(run)!r} is no run folder: it has no {path.name}")
  config.load([str(path)])
  bound = settings.Run.of_loaded()
  last = bound.course.train_steps
  if not 1 <= step <= last:
    raise UserError(f"step {step} is none of this run's, which has 1 to {last}")
  name = forms.name_in_form(
    bound.data.mixture_or_task_name,
    bound.examples.converter.form,
  )
  mixture = manifest.load(name, prepared_dir or bound.data.prepared_dir)
  batches = bound.open_batches(bound.data.mixture(mixture))
  return PastBatch(
    batches.origin(step - 1), batches[step - 1], mixture.tasks[0].vocabulary
  )
