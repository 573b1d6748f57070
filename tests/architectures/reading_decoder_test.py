"""Heads on a decoder: packed texts, what it sees, one batch learnt."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests import tiny_models
from transformer_zoo import config
from transformer_zoo.data.features import converters
from transformer_zoo.objectives import encoder as objectives

TEXTS = [[0, 7, 9, 2], [0, 12, 5, 31, 8, 2]]
FILES = [
  "architectures/bart.gin",
  "parts/reading_decoder.gin",
  "runs/finetune.gin",
]


@functools.cache
def setting(head="classes", start_id=None):
  sizes = [f"{name}={value}" for name, value in tiny_models.TINY.items()]
  model = config.build(
    "MODEL",
    [*FILES, f"heads/{head}.gin"],
    [*sizes, f"ReadingDecoder.start_id={start_id}"],
  )
  return model, tiny_models.random_parameters(model)


def in_rows():
  tokens = np.full((2, 7), 1)
  for row, text in zip(tokens, TEXTS, strict=True):
    row[: len(text)] = text
  return {"encoder_input_tokens": tokens}


def packed():
  text = np.array([[*TEXTS[0], *TEXTS[1], 1]])
  lengths = [len(each) for each in TEXTS]
  segments = np.repeat([1, 2, 0], [*lengths, 1])[None]
  positions = np.concatenate([np.arange(n) for n in (*lengths, 1)])[None]
  return {
    "encoder_input_tokens": text,
    "encoder_segment_ids": segments,
    "encoder_positions": positions,
  }


@pytest.mark.parametrize("start_id", [None, 3])
def test_packed_texts_are_read_as_if_alone(start_id):
  model, params = setting(start_id=start_id)
  hidden = jax.jit(
    lambda batch: model.apply({"params": params}, batch, method="hidden")
  )
  alone, together = hidden(in_rows()), hidden(packed())
  first, second = map(len, TEXTS)
  np.testing.assert_allclose(together[0, :first], alone[0, :first], atol=2e-5)
  np.testing.assert_allclose(
    together[0, first : first + second], alone[1, :second], atol=2e-5
  )
  assert not np.any(together[0, first + second :])


def test_it_begins_with_the_last_token_of_each_text():
  """As with that token named; the two texts end in the same."""
  fed_last, params = setting()
  named, _ = setting(start_id=2)
  for batch in (in_rows(), packed()):
    np.testing.assert_array_equal(
      *(
        model.apply({"params": params}, batch, method="hidden")
        for model in (fed_last, named)
      )
    )


def test_the_last_token_has_seen_the_whole_text_and_the_first_none():
  model, params = setting(start_id=2)
  tokens = jnp.asarray(in_rows()["encoder_input_tokens"])
  embedded = params["token_embedder"]["embedding"][tokens]

  def first_and_last(embedded, place):
    x = model.apply(
      {"params": params},
      embedded,
      {"encoder_input_tokens": tokens},
      method="encoded",
    )
    return x[1, place]

  # Through the encoder, every place sees every other.
  for place in (0, 5):
    seen = jax.jacobian(first_and_last)(embedded, place)
    assert np.all(np.abs(seen).max(axis=(0, -1))[1, : len(TEXTS[1])] > 0)
    assert not np.any(seen[:, 0])


def test_one_batch_is_learnt():
  model, params = setting()
  converter = converters.Encoder(
    form="classes", separators=2, token_types=False, answering="last"
  )
  assert converter == config.build(
    "CONVERTER", [*FILES, "heads/classes.gin"], ["MODEL=None"]
  )
  labels = np.zeros((2, 7), int)
  labels[0, len(TEXTS[0]) - 1] = 1
  weights = np.zeros((2, 7), int)
  places = np.array([[len(text) - 1, 6] for text in TEXTS])
  weights[np.arange(2), places[:, 0]] = 1
  batch = {
    **in_rows(),
    "encoder_target_tokens": labels,
    "encoder_loss_weights": weights,
    "encoder_predicted_places": places,
  }
  objective = objectives.EncoderObjective([objectives.ClassLoss()])

  def loss(params):
    term = objective(model, params, batch)["classes"]
    return term.total / term.weight

  step = jax.jit(jax.value_and_grad(loss))
  first, _ = step(params)
  optimizer = optax.adam(3e-3)
  state = optimizer.init(params)
  for _ in range(40):
    value, gradient = step(params)
    updates, state = optimizer.update(gradient, state)
    params = optax.apply_updates(params, updates)
  assert value < first / 5
