"""Corruptions of text: the input side of the denoising objectives.

A corruption is a frozen dataclass with `raw_length`, `check` and `__call__`
(see `Denoising`). Manifests keep it as JSON, its spec. One whose class says
`layout = "encoder"` makes whole rows of an encoder (see `MaskedLanguageModel`).
"""

from collections.abc import Mapping
import dataclasses
from typing import Any

from transformer_zoo.corruption.concatenation import ConcatenatedDocuments
from transformer_zoo.corruption.denoising import Denoising
from transformer_zoo.corruption.masked_lm import MaskedLanguageModel
from transformer_zoo.corruption.masked_lm import Masking
from transformer_zoo.corruption.masks.fixed_number import FixedNumber
from transformer_zoo.corruption.masks.noise_masks import Everything
from transformer_zoo.corruption.masks.noise_masks import Fragment
from transformer_zoo.corruption.masks.noise_masks import Iid
from transformer_zoo.corruption.masks.noise_masks import RandomPrefix
from transformer_zoo.corruption.masks.noise_masks import RandomSpans
from transformer_zoo.corruption.masks.noise_masks import RegularSpans
from transformer_zoo.corruption.masks.word_spans import WordSpans
from transformer_zoo.corruption.rewrites.infilling import TextInfilling
from transformer_zoo.corruption.rewrites.infilling import TokenDeletion
from transformer_zoo.corruption.rewrites.infilling import TokenMasking
from transformer_zoo.corruption.rewrites.replacement import Replacement
from transformer_zoo.corruption.rewrites.sequence_noise import DocumentRotation
from transformer_zoo.corruption.rewrites.sequence_noise import (
  SentencePermutation,
)
from transformer_zoo.corruption.rewrites.sequence_noise import SequenceNoise
from transformer_zoo.corruption.sentences.sentence_packing import DocSentences
from transformer_zoo.corruption.sentences.sentence_packing import FullSentences
from transformer_zoo.corruption.sentences.sentence_pairs import NextSentence
from transformer_zoo.corruption.sentences.sentence_pairs import SentenceOrder
from transformer_zoo.corruption.sentences.sentence_pairs import SentencePair
from transformer_zoo.corruption.span_corruption import SpanCorruption
from transformer_zoo.corruption.unified_lm import UnifiedLanguageModel
from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError

_CLASSES = {
  cls.__name__: cls
  for cls in (
    ConcatenatedDocuments,
    Denoising,
    DocSentences,
    DocumentRotation,
    Everything,
    FixedNumber,
    Fragment,
    FullSentences,
    Iid,
    MaskedLanguageModel,
    Masking,
    NextSentence,
    RandomPrefix,
    RandomSpans,
    RegularSpans,
    Replacement,
    SentenceOrder,
    SentencePair,
    SentencePermutation,
    SequenceNoise,
    SpanCorruption,
    TextInfilling,
    TokenDeletion,
    TokenMasking,
    UnifiedLanguageModel,
    WordSpans,
  )
}


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
  if name not in _CLASSES:
    raise UserError(
      f"No corruption is named {name!r}" + nearest(str(name), _CLASSES)
    )
  allowed = {field.name for field in dataclasses.fields(_CLASSES[name])}
  for field, value in fields.items():
    if field not in allowed:
      raise UserError(
        f"Corruption {name} has no field {field!r}" + nearest(field, allowed)
      )
    fields[field] = _read(value)
  return _CLASSES[name](**fields)


def _read(value: Any) -> Any:
  if isinstance(value, Mapping):
    return from_spec(value)
  return tuple(map(_read, value)) if isinstance(value, list) else value
