"""Corruptions of text: the input side of the denoising objectives.

A corruption is a frozen dataclass, a `Corruption` (corruption.py) with
`raw_length`, `check` and `__call__`. Manifests keep it as JSON, its spec.
"""

from collections.abc import Mapping
import dataclasses
import importlib
from typing import Any

from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError

# Class -> its module, imported when the class is first used.
MODULES = {
  "Blanks": "blanks",
  "ConcatenatedDocuments": "concatenation",
  "ContextTokens": "word_vectors",
  "Denoiser": "mixture_of_denoisers",
  "Denoising": "denoising",
  "DocSentences": "sentences.sentence_packing",
  "DocumentRotation": "rewrites.sequence_noise",
  "Everything": "masks.noise_masks",
  "FixedNumber": "masks.fixed_number",
  "Fragment": "masks.noise_masks",
  "FullSentences": "sentences.sentence_packing",
  "Iid": "masks.noise_masks",
  "MaskedLanguageModel": "masked_lm",
  "Masking": "masked_lm",
  "MixtureOfDenoisers": "mixture_of_denoisers",
  "NextSentence": "sentences.sentence_pairs",
  "NextTokens": "masked_lm",
  "OwnTokens": "word_vectors",
  "PermutationLanguageModel": "permutation",
  "PreviousTokens": "masked_lm",
  "PlacedDenoising": "denoising",
  "RandomPrefix": "masks.noise_masks",
  "RandomSpans": "masks.noise_masks",
  "RegularSpans": "masks.noise_masks",
  "Replacement": "rewrites.replacement",
  "SentenceOrder": "sentences.sentence_pairs",
  "SentencePair": "sentences.sentence_pairs",
  "SentencePermutation": "rewrites.sequence_noise",
  "SequenceNoise": "rewrites.sequence_noise",
  "SpanCorruption": "span_corruption",
  "TextInfilling": "rewrites.infilling",
  "TokenDeletion": "rewrites.infilling",
  "TokenMasking": "rewrites.infilling",
  "UnifiedLanguageModel": "unified_lm",
  "TaggedSpans": "masks.tagged_spans",
  "UnifiedSentences": "sentences.unified_pairs",
  "WordSpans": "masks.word_spans",
}


def __getattr__(name: str) -> Any:
  """Imports a corruption when it is first asked for."""
  if name not in MODULES:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
  module = importlib.import_module(f"{__name__}.{MODULES[name]}")
  return getattr(module, name)


def to_spec(corruption: Any) -> dict[str, Any]:
  """Returns JSON `{'name': class name, field: value, ...}`, parts included."""

  def written(value):
    if dataclasses.is_dataclass(value):
      return to_spec(value)
    return [*map(written, value)] if isinstance(value, tuple) else value

  fields = dataclasses.fields(corruption)
  values = {f.name: written(getattr(corruption, f.name)) for f in fields}
  return {"name": type(corruption).__name__, **values}


def from_spec(spec: Mapping[str, Any]) -> Any:
  """Returns the corruption that `to_spec` wrote down.

  Raises:
    UserError: no corruption has that name, or it has no such field.
  """
  fields = dict(spec)
  name = fields.pop("name", None)
  if name not in MODULES:
    raise UserError(
      f"No corruption is named {name!r}" + nearest(str(name), MODULES)
    )
  cls = __getattr__(name)
  allowed = {field.name for field in dataclasses.fields(cls)}
  for field, value in fields.items():
    if field not in allowed:
      raise UserError(
        f"Corruption {name} has no field {field!r}" + nearest(field, allowed)
      )
    fields[field] = _read(value)
  return cls(**fields)


def _read(value: Any) -> Any:
  if isinstance(value, Mapping):
    return from_spec(value)
  return tuple(map(_read, value)) if isinstance(value, list) else value
