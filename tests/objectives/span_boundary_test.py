"""SpanBERT's objective: boundaries by hand, packing, padding, its weight."""

import functools

import jax
import numpy as np
import pytest
import scipy.special

from tests import programs
from tests import tiny_models
from transformer_zoo.objectives import encoder
from transformer_zoo.objectives import terms as terms_lib

HEADS = "../heads/tokens_span_boundary.gin"
SIZES = (9, 14)


def build(**macros):
  macros = {
    "DROPOUT_RATE": 0.0,
    "MAX_POSITIONS": 32,
    "NUM_ENCODER_LAYERS": 1,
    **macros,
  }
  model, _ = tiny_models.build("bert", HEADS, **macros)
  return model, tiny_models.random_parameters(model)


def texts():
  """Two texts whose ends are not hidden: tokens, and which are hidden."""
  random = np.random.RandomState(0)
  for size in SIZES:
    hidden = random.rand(size) < 0.8
    hidden[[0, -1]] = False
    yield random.randint(5, 48, size), hidden


def laid_out(rows, segments=None, positions=None):
  """A batch of rows [(tokens, hidden)] of one width."""
  tokens = np.stack([tokens for tokens, _ in rows]).astype(np.int32)
  hidden = np.stack([hidden for _, hidden in rows])
  places = np.argsort(~hidden, axis=1, kind="stable")
  batch = {
    "encoder_input_tokens": np.where(hidden, 4, tokens),
    "encoder_target_tokens": tokens,
    "encoder_loss_weights": hidden.astype(np.int32),
    "encoder_predicted_places": places[:, : hidden.sum(1).max() + 1],
  }
  if segments is not None:
    batch["encoder_segment_ids"] = segments
    batch["encoder_positions"] = positions
  return batch


def in_rows(width):
  return laid_out(
    [
      (np.pad(t, (0, width - len(t))), np.pad(h, (0, width - len(h))))
      for t, h in texts()
    ]
  )


def packed():
  tokens, hidden = (np.concatenate(parts) for parts in zip(*texts()))  # noqa: B905
  segments = np.repeat([1, 2], SIZES)
  positions = np.concatenate([np.arange(size) for size in SIZES])
  return laid_out(
    [(np.pad(tokens, (0, 3)), np.pad(hidden, (0, 3)))],
    np.pad(segments, (0, 3))[None],
    np.pad(positions, (0, 3))[None],
  )


def terms_of(model, params, batch, *losses):
  objective = encoder.EncoderObjective(losses)
  return jax.jit(functools.partial(objective, model))(params, batch)


@pytest.mark.slow
def test_by_hand():
  """Each masked token by a loop over the places around it."""
  model, params = build()
  batch = in_rows(16)
  (found,) = terms_of(
    model, params, batch, encoder.SpanBoundaryLoss(longest=3)
  ).values()
  hidden_BLD = np.asarray(
    programs.apply(model, {"params": params}, batch, method="hidden")
  )
  weights = batch["encoder_loss_weights"]
  total, count = 0.0, 0
  for row, place in np.argwhere(weights):
    left = next(i for i in range(place, -1, -1) if not weights[row, i])
    right = next(i for i in range(place, 99) if not weights[row, i])
    if place - left > 3:
      continue
    x_1TD = np.stack([hidden_BLD[row, left], hidden_BLD[row, right]])[None]
    logits = programs.apply(
      model,
      {"params": params},
      x_1TD,
      "span_boundary",
      offsets_BP=np.array([[place - left - 1]]),
      method="logits",
    )
    likelihoods = scipy.special.log_softmax(np.asarray(logits)[0, 0])
    total -= likelihoods[batch["encoder_target_tokens"][row, place]]
    count += 1
  assert 0 < count < weights.sum()
  assert found.weight == count
  np.testing.assert_allclose(found.total, total, rtol=1e-5)


@pytest.mark.slow
def test_packed_texts_count_as_padded_ones():
  model, params = build()
  losses = encoder.MaskedTokenLoss(), encoder.SpanBoundaryLoss()
  expected, found = (
    terms_of(model, params, batch, *losses) for batch in (in_rows(19), packed())
  )
  for name, term in expected.items():
    assert found[name].weight == term.weight
    np.testing.assert_allclose(found[name].total, term.total, rtol=1e-5)


@pytest.mark.parametrize("hide_first", [True, False])
def test_spans_without_both_boundaries_do_not_count(hide_first):
  """At the end of a row, or beside another text or padding."""
  batch = packed()
  first, last = SIZES[0] - 1, SIZES[0]
  weights = np.zeros_like(batch["encoder_loss_weights"])
  weights[0, 3] = 1
  weights[0, last if hide_first else first] = 1
  batch["encoder_loss_weights"] = weights
  batch["encoder_real"] = batch["encoder_input_tokens"] != 0
  left, right = encoder.span_boundaries(batch)
  assert (left[0, 3], right[0, 3]) == (2, 4)
  place = last if hide_first else first
  assert (left if hide_first else right)[0, place] == -1
  del batch["encoder_segment_ids"]
  weights[0, [sum(SIZES) - 1, 0]] = 1
  left, right = encoder.span_boundaries(batch)
  assert (right[0, sum(SIZES) - 1], left[0, 0]) == (-1, -1)


def test_the_weight_is_a_binding():
  model, params = build()
  batch = in_rows(16)
  masked = encoder.MaskedTokenLoss()

  @jax.jit
  def of_both(params):
    return [
      encoder.EncoderObjective((masked, encoder.SpanBoundaryLoss(scale=scale)))(
        model, params, batch
      )
      for scale in (1.0, 0.5)
    ]

  one, half = jax.device_get(of_both(params))
  boundary = one["span_boundary"]
  np.testing.assert_allclose(
    terms_lib.loss(one) - terms_lib.loss(half),
    0.5 * boundary.total / boundary.weight,
    rtol=1e-5,
  )
