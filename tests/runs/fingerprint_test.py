"""Fingerprints of a journal's predictions."""

import types

import pytest

from transformer_zoo.data.features.converters import LanguageModel
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.evaluation.scorers.text import TextScorer
from transformer_zoo.runs import fingerprint

VOCABULARY = types.SimpleNamespace(checksum="a", extra_ids=0)
WITHOUT_START = DecodingOptions(start_before_prompt=False)


def of_evaluation(decoding, metrics):
  split = types.SimpleNamespace(checksum="b")
  task = types.SimpleNamespace(
    split=lambda name: split,
    scoring=types.SimpleNamespace(metrics=metrics),
    features=("inputs", "targets"),
    vocabulary=VOCABULARY,
    eos_after_trim=True,
    corruption=None,
    corruption_seed=0,
    trimming=None,
  )
  evaluator = types.SimpleNamespace(
    lengths={"inputs": 4, "targets": 4},
    batch_size=8,
    max_examples=None,
    corruption=None,
    scorer=TextScorer(None, None, decoding),
    converter=LanguageModel(),
  )
  return fingerprint.of_evaluation(
    None, evaluator, task, "validation", (), measured=True
  )


def of_inference(decoding, scored):
  return fingerprint.of_inference(
    None,
    (),
    VOCABULARY,
    [{"inputs": "red"}],
    lengths={"inputs": 4, "targets": 4},
    batch_size=8,
    converter=LanguageModel(),
    decoding=decoding,
    scored=scored,
  )


@pytest.mark.parametrize(
  "of, decoded, scored",
  [(of_evaluation, ("accuracy",), ()), (of_inference, False, True)],
)
def test_scores_depend_on_the_start_and_not_on_the_search(of, decoded, scored):
  beams = DecodingOptions(num_beams=4)
  assert of(DecodingOptions(), decoded) != of(beams, decoded)
  assert of(DecodingOptions(), scored) == of(beams, scored)
  assert of(DecodingOptions(), scored) != of(WITHOUT_START, scored)
