"""Our searches against those of `transformers`, live: make test-oracles."""

import functools

import jax
import numpy as np
import pytest
import torch
import transformers

from tests import programs
from tests.golden import t5_beams
from tests.oracles.pytorch import huggingface
from transformer_zoo.decoding import constraints
from transformer_zoo.decoding import sampling
from transformer_zoo.decoding.generate import generate
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.objectives.sequence_to_sequence import example_sums


@functools.cache
def both():
  model, params, inputs = t5_beams.setting(t5_beams.PROMPTS)
  theirs = huggingface.build("t5_1_1", params, **t5_beams.SIZES)
  return model, params, inputs, theirs


def ours(options):
  model, params, inputs, _ = both()
  return jax.jit(
    functools.partial(
      generate, model, max_length=t5_beams.MADE, options=options
    )
  )(params, inputs)


@pytest.mark.parametrize("way", t5_beams.WAYS)
def test_beams_of_200_prompts(way, report):
  _, _, inputs, theirs = both()
  expected, expected_scores = huggingface.beam_search(
    theirs, inputs, t5_beams.MADE, **t5_beams.their_options(way)
  )
  tokens, scores = t5_beams.by_rows(ours(t5_beams.options(way)))
  np.testing.assert_array_equal(tokens, expected)
  np.testing.assert_allclose(scores, expected_scores, rtol=2e-5)
  report("scores", np.max(np.abs(scores / expected_scores - 1)))
  # The comparison saw rows that end and rows that do not.
  assert 0 < (expected == 1).any(-1).mean() < 1


def test_constrained_greedy_search():
  _, _, inputs, theirs = both()
  constrained = {
    "no_repeat_ngram_size": 1,
    "min_length": 6,
    "repetition_penalty": 1.4,
  }
  expected = huggingface.generate(theirs, inputs, t5_beams.MADE, **constrained)
  made = ours(DecodingOptions(**constrained)).tokens[:, 0]
  np.testing.assert_array_equal(made, expected)


@pytest.mark.parametrize(
  ("options", "warpers"),
  [
    ({"top_k": 7}, [transformers.TopKLogitsWarper(7)]),
    ({"top_p": 0.8}, [transformers.TopPLogitsWarper(0.8)]),
    ({"min_p": 0.2}, [transformers.MinPLogitsWarper(0.2)]),
    ({"typical_p": 0.6}, [transformers.TypicalLogitsWarper(0.6)]),
    (
      {
        "temperature": 0.7,
        "top_k": 20,
        "top_p": 0.9,
        "min_p": 0.02,
        "typical_p": 0.7,
      },
      [
        transformers.TemperatureLogitsWarper(0.7),
        transformers.TopKLogitsWarper(20),
        transformers.TopPLogitsWarper(0.9),
        transformers.MinPLogitsWarper(0.02),
        transformers.TypicalLogitsWarper(0.7),
      ],
    ),
  ],
)
def test_truncated_distributions(options, warpers):
  logits = 3 * np.random.RandomState(0).standard_normal((300, 50))
  logits = logits.astype(np.float32)
  expected = torch.tensor(logits)
  for warp in warpers:
    expected = warp(None, expected)
  found = programs.run(
    sampling.truncate,
    logits[:, None],
    DecodingOptions(**({"temperature": 1.0} | options)),
  )
  np.testing.assert_allclose(
    np.asarray(found)[:, 0], expected.numpy(), rtol=1e-6
  )


@pytest.mark.parametrize("size", [1, 2, 3])
def test_forbidden_ngrams(size):
  tokens = np.random.RandomState(size).randint(0, 4, (40, 12), np.int32)
  process = transformers.NoRepeatNGramLogitsProcessor(size)
  for position in range(12):
    expected = process(
      torch.tensor(tokens[:, : position + 1], dtype=torch.long),
      torch.zeros(40, 4),
    )
    found = programs.run(
      constraints.no_repeated_ngram,
      np.zeros((40, 1, 4), np.float32),
      tokens[:, None],
      np.int32(position),
      size,
    )
    np.testing.assert_array_equal(np.asarray(found)[:, 0], expected.numpy())


def test_log_likelihoods_are_those_of_teacher_forcing():
  """Of our beams: by our loss, and by the sums of their log-probabilities."""
  model, params, inputs, theirs = both()
  outputs = ours(DecodingOptions(num_beams=4))
  targets = np.asarray(outputs.tokens[:, 0])
  batch = {
    "encoder_input_tokens": inputs,
    "decoder_input_tokens": np.pad(targets, ((0, 0), (1, 0)))[:, :-1],
    "decoder_target_tokens": targets,
    "decoder_loss_weights": (targets > 0).astype(np.int32),
  }
  after_eos = np.cumsum(targets == 1, axis=1) - (targets == 1) > 0
  # Random weights make the id of padding too, which a loss leaves out.
  whole = ~np.any((targets == 0) & ~after_eos, axis=1)
  assert whole.mean() > 0.8
  found = np.asarray(outputs.log_likelihoods[:, 0])[whole]
  sums = jax.jit(functools.partial(example_sums, model))(params, batch)
  np.testing.assert_allclose(-sums["loss_sum"][whole], found, rtol=1e-5)
  with torch.no_grad():
    logits = huggingface.forward(theirs, batch).logits
  log_probs = torch.log_softmax(logits, dim=-1).numpy()
  each = np.take_along_axis(log_probs, targets[..., None], axis=-1)[..., 0]
  sums = (each * (targets > 0)).sum(-1)[whole]
  np.testing.assert_allclose(sums, found, rtol=1e-5)
