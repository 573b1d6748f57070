"""Heads on a decoder: packed texts, what it sees, one batch learnt."""

import functools

import jax
from jax import flatten_util
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests import tiny_models
from transformer_zoo import config
from transformer_zoo.data.features import converters
from transformer_zoo.objectives import embeddings
from transformer_zoo.objectives import encoder as objectives

LAST = 2
TEXTS = [[0, 7, 9, LAST], [0, 12, 5, 31, 8, LAST]]
OTHER = 3
# What is fed first: the last token of each text, or a token that is named.
STARTS = (None, LAST, OTHER)
FILES = [
  "architectures/bart.gin",
  "parts/reading_decoder.gin",
  "runs/finetune.gin",
]


@functools.cache
def setting(head="classes", start_id=None):
  tiny = {**tiny_models.TINY, "NUM_ENCODER_LAYERS": 1, "NUM_DECODER_LAYERS": 1}
  sizes = [f"{name}={value}" for name, value in tiny.items()]
  model = config.build(
    "MODEL",
    [*FILES, f"heads/{head}.gin"],
    [*sizes, f"EncoderDecoderWithHeads.start_id={start_id}"],
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


@functools.cache
def hidden():
  """By the first token: of texts in rows of their own, and packed."""
  models = {start_id: setting(start_id=start_id)[0] for start_id in STARTS}

  @jax.jit
  def program(params, batches):
    return {
      str(start_id): [
        model.apply({"params": params}, batch, method="hidden")
        for batch in batches
      ]
      for start_id, model in models.items()
    }

  return jax.device_get(program(setting()[1], [in_rows(), packed()]))


@pytest.mark.slow
@pytest.mark.parametrize("start_id", STARTS)
def test_packed_texts_are_read_as_if_alone(start_id):
  alone, together = hidden()[str(start_id)]
  first, second = map(len, TEXTS)
  np.testing.assert_allclose(together[0, :first], alone[0, :first], atol=2e-5)
  np.testing.assert_allclose(
    together[0, first : first + second], alone[1, :second], atol=2e-5
  )
  assert not np.any(together[0, first + second :])


def test_it_begins_with_the_last_token_of_each_text():
  """As with that token named; the two texts end in the same."""
  found = hidden()
  first = len(TEXTS[0])
  names = map(str, STARTS)
  for fed_last, named, other in zip(*map(found.get, names), strict=True):
    # Models of one program round differently; another token is far from it.
    np.testing.assert_allclose(fed_last, named, atol=2e-5)
    assert np.all(np.abs(named - other)[0, :first].max(-1) > 1e-2)


def test_the_last_token_has_seen_the_whole_text_and_the_first_none():
  model, params = setting(start_id=LAST)
  tokens = in_rows()["encoder_input_tokens"]
  embedded = params["token_embedder"]["embedding"][tokens]

  @jax.jit
  @jax.jacrev
  def first_and_last(embedded, params):
    x = model.apply(
      {"params": params},
      embedded,
      {"encoder_input_tokens": tokens},
      method="encoded",
    )
    return jnp.stack([x[1, 0], x[1, 5]])

  # Through the encoder, every place sees every other.
  seen = np.abs(first_and_last(embedded, params))
  assert np.all(seen.max(axis=(1, -1))[:, 1, : len(TEXTS[1])] > 0)
  assert not np.any(seen[:, :, 0])


@pytest.mark.slow
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

  optimizer = optax.adam(3e-3)

  # One vector: an optimizer of hundreds of arrays takes long to compile.
  flat, unravel = flatten_util.ravel_pytree(params)

  def step(carry, _):
    flat, state = carry
    value, slope = jax.value_and_grad(lambda flat: loss(unravel(flat)))(flat)
    updates, state = optimizer.update(slope, state)
    return (optax.apply_updates(flat, updates), state), value

  @jax.jit
  def losses(flat):
    return jax.lax.scan(step, (flat, optimizer.init(flat)), length=40)[1]

  found = np.asarray(losses(flat))
  assert found[-1] < found[0] / 5


@pytest.mark.slow
def test_the_first_output_of_t5s_decoder_is_the_vector_of_a_text():
  """Sentence-T5's: packed texts have those of an encoder-decoder's start."""
  sizes = {"NUM_ENCODER_LAYERS": 1, "NUM_DECODER_LAYERS": 1}
  whole, _ = tiny_models.build("t5_1_1", **sizes)
  made, _ = tiny_models.build(
    *("t5_1_1", "decoder_vectors.gin", "../heads/embedding.gin"),
    **{"POOL": "first", **sizes},
  )
  params = tiny_models.random_parameters(whole)
  batch = packed()
  batch["encoder_input_tokens"] = np.where(
    batch["encoder_segment_ids"] > 0, batch["encoder_input_tokens"] + 3, 0
  )

  @jax.jit
  def program(params):
    apply = functools.partial(made.apply, {"params": params})
    vectors_1TD = embeddings.vectors_of(
      apply, apply(batch, method="hidden"), batch, 0, 2
    )
    apply = functools.partial(whole.apply, {"params": params})
    start_11 = jnp.zeros((1, 1), jnp.int32)
    expected = []
    for text in TEXTS:
      tokens_1L = np.array([text]) + 3
      encoded_1LD = apply(tokens_1L, method="encode")
      hidden_11D = apply(
        *(encoded_1LD, tokens_1L, start_11, start_11 + 1),
        method="decode_hidden",
      )
      expected.append(hidden_11D[0, 0])
    return vectors_1TD[0], jnp.stack(expected)

  found, expected = program(params)
  np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)
