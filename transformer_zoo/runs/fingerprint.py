"""Fingerprints of predictions: all that they depend on, by name."""

from collections.abc import Mapping, Sequence
import functools
import hashlib
import json
import pathlib
import re
import types
from typing import Any

from flax import linen as nn
import jax

import transformer_zoo
from transformer_zoo.data.features import converters
from transformer_zoo.data.storage import manifest
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.evaluation.evaluator import decodes
from transformer_zoo.evaluation.evaluator import Evaluator
from transformer_zoo.training.checkpoints import checksums

# Rooms whose code makes the predictions. Metrics are computed anew each time.
_ROOMS = (
  "architectures",
  "corruption",
  "data/features",
  "data/loader",
  "decoding",
  "evaluation/scorers",
  "modules",
  "objectives",
  "peft",
)
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def of_evaluation(
  model: nn.Module,
  evaluator: Evaluator,
  task: manifest.PreparedTask,
  split: str,
  checkpoint: Sequence[pathlib.Path],
  *,
  measured: bool,
) -> Mapping[str, str]:
  """Returns the fingerprint of an evaluation, as texts by name.

  Equal fingerprints make equal predictions.

  Args:
    model: The architecture.
    evaluator: The evaluator, with its lengths, batch size and scorer.
    task: The task that is evaluated.
    split: The name of the split.
    checkpoint: The folders of the checkpoint, several for an ensemble.
    measured: Whether the predictions are scored.
  """
  info = task.split(split)
  return {
    "model": _digest(_ADDRESS.sub("", repr(model))),
    "checkpoint": _digest(" ".join(map(checksums.identity, checkpoint))),
    "lengths": str(sorted(evaluator.lengths.items())),
    "batch size": str(evaluator.batch_size),
    "number of examples": str(evaluator.max_examples),
    **evaluator.scorer.settings(answered=decodes(task, measured)),
    "converter": str(evaluator.converter),
    "data": _digest(
      f"{split} {info.checksum} {task.features} "
      f"{task.vocabulary.checksum} {task.vocabulary.extra_ids} "
      f"{task.eos_after_trim} {evaluator.corruption or task.corruption} "
      f"{task.corruption_seed} {task.trimming}"
    ),
    "devices": f"{jax.device_count()} x {jax.devices()[0].device_kind}",
    "code": _code(),
  }


def of_inference(
  model: nn.Module,
  checkpoint: Sequence[pathlib.Path],
  vocabulary: Vocabulary,
  examples: Sequence[Mapping[str, Any]],
  *,
  lengths: Mapping[str, int],
  batch_size: int,
  converter: converters.Converter,
  decoding: DecodingOptions,
  scored: bool,
  settings: Mapping[str, str] = types.MappingProxyType({}),
) -> Mapping[str, str]:
  """Returns the fingerprint of answers to texts, as texts by name.

  Args:
    model: The architecture.
    checkpoint: The folders of the checkpoint, several for an ensemble.
    vocabulary: The vocabulary of inputs and targets.
    examples: The examples to answer.
    lengths: The number of tokens of each feature.
    batch_size: The number of examples of a batch.
    converter: The layout of a batch.
    decoding: The options of the search.
    scored: Whether targets are scored and nothing is decoded.
    settings: What answers depend on beside these, in parts.
  """
  return {
    "model": _digest(_ADDRESS.sub("", repr(model))),
    "checkpoint": _digest(" ".join(map(checksums.identity, checkpoint))),
    "vocabulary": f"{vocabulary.checksum} {vocabulary.extra_ids}",
    "lengths": str(sorted(lengths.items())),
    "batch size": str(batch_size),
    "decoding": "scores" if scored else str(decoding),
    "start before prompt": str(decoding.start_before_prompt),
    "converter": str(converter),
    "examples": _digest(json.dumps(examples)),
    **{name: _ADDRESS.sub("", text) for name, text in settings.items()},
    "devices": f"{jax.device_count()} x {jax.devices()[0].device_kind}",
    "code": _code(),
  }


@functools.cache
def _code() -> str:
  root = pathlib.Path(transformer_zoo.__file__).parent
  files = sorted(p for room in _ROOMS for p in (root / room).rglob("*.py"))
  return _digest("".join(path.read_text(encoding="utf-8") for path in files))


def _digest(text: str) -> str:
  return hashlib.sha256(text.encode()).hexdigest()[:16]
