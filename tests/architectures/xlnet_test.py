"""XLNet: who knows what in two streams, stretches with memory, its examples."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from tests import programs
from tests import tiny_models
from tests.corruption import vocabulary as vocabularies
from transformer_zoo.architectures import xlnet
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.permutation import PermutationLanguageModel
from transformer_zoo.data.features.converters import Encoder
from transformer_zoo.errors import UserError
from transformer_zoo.modules.positions import Positions
from transformer_zoo.modules.positions.relative_table import RelativeSinusoids
from transformer_zoo.objectives import encoder as objectives

LENGTH, VOCABULARY = 8, 48
# Of the places that are predicted, second to last; -1 is seen by all.
ORDER = np.array([[-1, 2, -1, 0, 3, -1, 1, -1]], np.int32)
PLACES = np.array([[1, 3, 4, 6]], np.int32)


def batch_of(tokens):
  return {
    "encoder_input_tokens": tokens,
    "encoder_order": ORDER,
    "encoder_predicted_places": PLACES,
    "encoder_token_types": np.array([[0, 0, 0, 0, 1, 1, 1, 1]], np.int32),
  }


def tokens_of_rows(rows=1, length=LENGTH):
  random = np.random.RandomState(0)
  return random.randint(6, VOCABULARY, (rows, length)).astype(np.int32)


def build(**bindings):
  model, _ = tiny_models.build(
    "xlnet", bindings=tuple(f"{n}={v!r}" for n, v in bindings.items())
  )
  return model, tiny_models.random_parameters(model)


def logits_of(model, params, batch):
  return np.asarray(tiny_models.forward(model)(params, batch))


def test_a_prediction_knows_the_tokens_before_it_in_the_order_alone():
  """Each token is changed, and the logits that move are noted."""
  model, params = build()
  tokens = tokens_of_rows()
  first = logits_of(model, params, batch_of(tokens))
  for place in range(LENGTH):
    changed = tokens.copy()
    changed[0, place] = 6 + (tokens[0, place] - 5) % 40
    found = logits_of(model, params, batch_of(changed))
    moved = np.abs(found - first)[0, PLACES[0]].max(axis=-1) > 1e-6
    later = (ORDER[0, place] < 0) | (ORDER[0, PLACES[0]] > ORDER[0, place])
    np.testing.assert_array_equal(moved, later, err_msg=str(place))


def test_contents_know_themselves_and_what_they_may_see():
  model, params = build()
  tokens = tokens_of_rows()

  def hidden(tokens):
    found = programs.apply(
      model, {"params": params}, batch_of(tokens), method="hidden"
    )
    return np.asarray(found.hidden_BLD)

  first = hidden(tokens)
  changed = tokens.copy()
  changed[0, 6] = 6 + (tokens[0, 6] - 5) % 40
  moved = np.abs(hidden(changed) - first)[0].max(axis=-1) > 1e-6
  np.testing.assert_array_equal(moved, (ORDER[0] > 1) | (np.arange(8) == 6))


def test_scanned_layers_are_looped_ones_in_two_streams():
  model, params = build()
  scanned, _ = tiny_models.build("xlnet", SCAN_LAYERS=True, REMAT="minimal")
  batch = batch_of(tokens_of_rows())
  expected = logits_of(model, params, batch)
  found = logits_of(scanned, tiny_models.stack_layers(params), batch)
  scale = np.abs(expected).max()
  np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * scale)


@pytest.mark.slow
@pytest.mark.parametrize(
  "ordered", [pytest.param(False, marks=pytest.mark.slow), True]
)
def test_stretches(ordered):
  """The first is a text by itself; the second reads it as memory."""
  one = {"NUM_ENCODER_LAYERS": 1}
  model, params = build(**one, **{"XLNet.num_stretches": 2})
  whole, _ = build(**one)
  tokens = tokens_of_rows(rows=1, length=16)
  types = np.zeros((1, 16), np.int32)
  batch = {"encoder_input_tokens": tokens, "encoder_token_types": types}
  half = {name: value[:, :8] for name, value in batch.items()}
  if ordered:
    order = np.concatenate([ORDER, ORDER], axis=1)
    places = np.concatenate([PLACES, PLACES + 8], axis=1)
    batch |= {"encoder_order": order, "encoder_predicted_places": places}
    half |= {"encoder_order": ORDER, "encoder_predicted_places": PLACES}
  found = logits_of(model, params, batch)
  scale = np.abs(found).max()
  np.testing.assert_allclose(
    found[:, :8], logits_of(whole, params, half), rtol=0, atol=1e-5 * scale
  )
  changed = {**batch, "encoder_input_tokens": tokens.copy()}
  changed["encoder_input_tokens"][0, 0] = 6 + (tokens[0, 0] - 5) % 40
  moved = np.abs(logits_of(model, params, changed) - found)[0].max(axis=-1)
  predicted = np.arange(16) if not ordered else 8 + PLACES[0]
  assert (moved[predicted[predicted >= 8]] > 1e-6).all()


@pytest.mark.slow
@pytest.mark.parametrize(
  "scan", [pytest.param(False, marks=pytest.mark.slow), True]
)
def test_stretches_with_all_memory_are_one_pass(scan, monkeypatch):
  """In which no token sees one of a later stretch."""
  bindings = {"XLNet.num_stretches": 3, "SCAN_LAYERS": scan}
  model, params = build(**bindings, **{"XLNet.memory_length": 16})
  whole = model.clone(num_stretches=1)
  batch = {"encoder_input_tokens": tokens_of_rows(rows=2, length=16)}
  found = logits_of(model, params, batch)
  stretch = np.arange(16) // 6
  sees = xlnet._sees

  def sees_no_later(*arguments):
    earlier = (stretch[:, None] >= stretch)[None]
    found = sees(*arguments)
    return {**found, "content": found["content"] & earlier}

  monkeypatch.setattr(xlnet, "_sees", sees_no_later)
  patched = tiny_models.forward.__wrapped__(whole)  # Not for other tests.
  expected = np.asarray(patched(params, batch))
  scale = np.abs(expected).max()
  np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * scale)


@pytest.mark.slow
@pytest.mark.parametrize(
  "memory_length", [pytest.param(2, marks=pytest.mark.slow), 6]
)
def test_memory_is_of_the_last_tokens_before_a_stretch(memory_length):
  """One layer reaches as far as the memory."""
  model, params = build(
    **{
      "XLNet.num_stretches": 4,
      "XLNet.memory_length": memory_length,
      "NUM_ENCODER_LAYERS": 1,
    }
  )
  tokens = tokens_of_rows(length=16)
  first = logits_of(model, params, {"encoder_input_tokens": tokens})
  for place in range(16):
    changed = tokens.copy()
    changed[0, place] = 6 + (tokens[0, place] - 5) % 40
    found = logits_of(model, params, {"encoder_input_tokens": changed})
    moved = np.abs(found - first)[0].max(axis=-1) > 1e-6
    begins = np.arange(16) // 4 * 4
    sees = (begins - memory_length <= place) & (place < begins + 4)
    np.testing.assert_array_equal(moved, sees, err_msg=str(place))


@pytest.mark.slow
def test_no_gradient_goes_through_memory():
  model, params = build(**{"XLNet.num_stretches": 2})
  tokens = tokens_of_rows(length=16)
  # The first half has tokens of its own.
  tokens[:, :8] = 6 + np.arange(8)
  tokens[:, 8:] = 20 + np.arange(8)

  def total(table):
    moved = {**params, "token_embedder": {"embedding": table}}
    batch = {"encoder_input_tokens": tokens}
    hidden = model.apply({"params": moved}, batch, method="hidden")
    return jnp.sum(hidden[:, 8:] ** 2)

  gradient = jax.jit(jax.grad(total))(params["token_embedder"]["embedding"])
  moved = np.abs(np.asarray(gradient)).max(axis=1) > 0
  np.testing.assert_array_equal(np.flatnonzero(moved), np.arange(20, 28))


def test_examples_are_the_text_and_an_order():
  objective = PermutationLanguageModel(partial=7)
  vocabulary = vocabularies.bert()
  tokens = vocabularies.text(500, 126)
  made = objective(tokens, Draws(0, np.arange(500)), vocabulary)
  shaped = {name: v.values.reshape(500, 128) for name, v in made.items()}
  np.testing.assert_array_equal(shaped["inputs"], shaped["targets"])
  np.testing.assert_array_equal(shaped["inputs"][:, 1:-1], tokens)
  assert shaped["weights"].mean() == pytest.approx(1 / 7, abs=0.003)
  np.testing.assert_array_equal(shaped["weights"] > 0, shaped["orders"] >= 0)
  for row in shaped["orders"]:
    numbers = np.sort(row[row >= 0])
    np.testing.assert_array_equal(numbers, np.arange(len(numbers)))
  # No place comes first more often than chance.
  first = np.argmax(shaped["orders"] == 0, axis=1)
  assert np.abs(first.mean() - 63.5) < 4 * 128 / np.sqrt(12 * 500)


def test_spans_of_predicted_tokens_have_one_to_five_of_them():
  """A length n in proportion to 1 / n; spans that meet are few here."""
  objective = PermutationLanguageModel(partial=40)
  made = objective(
    vocabularies.text(200, 4000),
    Draws(0, np.arange(200)),
    vocabularies.bert(),
  )
  edges = np.diff(made["weights"].values, prepend=0)
  lengths = np.flatnonzero(edges == -1) - np.flatnonzero(edges == 1)
  shares = np.bincount(lengths, minlength=6)[1:6] / len(lengths)
  expected = 1 / np.arange(1, 6)
  np.testing.assert_allclose(shares, expected / expected.sum(), atol=0.05)


@pytest.mark.slow
def test_a_batch_has_a_loss_of_the_query_stream():
  objective = PermutationLanguageModel()
  vocabulary = vocabularies.bert()
  tokens = vocabularies.text(4, 30)
  examples = objective(tokens, Draws(0, np.arange(4)), vocabulary)
  batch = Encoder(orders=True, predicted_share=0.25)(
    examples,
    np.arange(4),
    num_rows=4,
    lengths={"inputs": 32},
    packing=False,
    pad_id=vocabulary.pad_id,
  )
  model, params = build(VOCAB_SIZE=3000, NUM_ENCODER_LAYERS=1)
  objective = objectives.EncoderObjective((objectives.MaskedTokenLoss(),))
  terms = jax.jit(functools.partial(objective, model))(params, batch)
  logits = logits_of(model, params, batch)
  chosen = np.take_along_axis(
    scipy.special.log_softmax(logits, axis=-1),
    batch["encoder_target_tokens"][..., None],
    axis=-1,
  )[..., 0]
  expected = -np.sum(chosen * batch["encoder_loss_weights"])
  np.testing.assert_allclose(terms["tokens"].total, expected, rtol=1e-5)
  with pytest.raises(UserError, match="orders is False, but examples have an"):
    Encoder()(
      examples,
      np.arange(4),
      num_rows=4,
      lengths={"inputs": 32},
      packing=False,
      pad_id=0,
    )


def test_distances_beyond_the_clip_have_one_vector():
  table = RelativeSinusoids(features=6, clip=3)
  found = jax.device_get(programs.run(_of_nine, table))
  vectors = found.table_RD[found.row_1LM[0]]
  np.testing.assert_array_equal(vectors[0, 3], vectors[0, 8])
  assert np.abs(vectors[0, 2] - vectors[0, 3]).max() > 0.1
  # Sines first, of i - j.
  np.testing.assert_allclose(vectors[2, 1, 0], np.sin(1.0), rtol=1e-6)


def _of_nine(table):
  return table.apply({}, Positions.of_length(9))


def test_refusals():
  with pytest.raises(UserError, match="num_stretches is 0; it must be at"):
    build(**{"XLNet.num_stretches": 0})
  with pytest.raises(UserError, match="memory_length is 0; it must be at"):
    build(**{"XLNet.memory_length": 0})
  model, _ = tiny_models.build("xlnet", bindings=("Windows.sizes=(3,)",))
  with pytest.raises(UserError, match="; bind Windows.sizes = "):
    batch = batch_of(tokens_of_rows())
    jax.eval_shape(
      lambda key: model.init(key, batch, method="hidden"), jax.random.key(0)
    )
  with pytest.raises(UserError, match="features is 5; a sine and a cosine"):
    RelativeSinusoids(features=5)
  with pytest.raises(UserError, match="clip is 0; it must be a distance"):
    RelativeSinusoids(features=4, clip=0)
  with pytest.raises(UserError, match="partial is 1; one token in so many"):
    PermutationLanguageModel(partial=1)
