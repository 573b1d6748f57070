"""The head of a beam: ends depend on starts, and on nothing hidden from it."""

import types

from flax import traverse_util
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from tests import programs
from tests import tiny_models
from tests.evaluation.scorers import spans_test
from tests.evaluation.scorers.heads_test import batch
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.scorers import spans
from transformer_zoo.modules import span_beam
from transformer_zoo.objectives import encoder

HEAD = "../heads/span_beam.gin"
LENGTH = 10


def head_and_params(**macros):
  model, _ = tiny_models.build("bert", HEAD, DROPOUT_RATE=0.0, **macros)
  return model, tiny_models.random_parameters(model)


def vectors(rows=3):
  return np.random.RandomState(0).randn(rows, LENGTH, 24).astype(np.float32)


def logits_of(model, params, x, **inputs):
  return np.asarray(
    programs.apply(
      model, {"params": params}, x, "span_beam", method="logits", **inputs
    )
  )


def by_hand(params, x, start):
  """Logits of starts and of ends for one start of each row."""
  flat = traverse_util.flatten_dict(params["heads"]["span_beam"], sep="/")

  def layer(name, y):
    return y @ flat[f"{name}/kernel"] + flat.get(f"{name}/bias", 0)

  of_start = x[np.arange(len(x)), start]
  both = np.concatenate(
    [x, np.broadcast_to(of_start[:, None], x.shape)], axis=-1
  )
  y = np.tanh(layer("end_dense", both))
  y = (y - y.mean(-1, keepdims=True)) / np.sqrt(
    y.var(-1, keepdims=True) + 1e-12
  )
  y = y * flat["end_norm/scale"] + flat["end_norm/bias"]
  return layer("start_out", x)[..., 0], layer("end_out", y)[..., 0]


def test_ends_given_a_start_by_hand():
  model, params = head_and_params()
  x, start = vectors(), np.array([2, 0, 7])
  found = logits_of(model, params, x, starts_B1=start[:, None])
  starts, ends = by_hand(params, x, start)
  np.testing.assert_allclose(found[..., 0], starts, rtol=1e-4, atol=1e-5)
  np.testing.assert_allclose(found[..., 1], ends, rtol=1e-4, atol=1e-4)


def test_the_likeliest_starts_each_have_ends():
  model, params = head_and_params()
  x = vectors()
  may = np.random.RandomState(1).rand(3, LENGTH) < 0.7
  found = np.asarray(logits_of(model, params, x, may_answer_BL=may))
  assert found.shape == (3, LENGTH, 7)
  order = np.argsort(-found[..., 0], axis=1, kind="stable")
  for column in range(5):
    _, ends = by_hand(params, x, order[:, column])
    expected = np.where(may, ends, span_beam.NEVER)
    np.testing.assert_allclose(
      found[..., 1 + column], expected, rtol=1e-4, atol=1e-4
    )
  assert (np.ptp(found[..., -1], axis=1) == 0).all()


def test_what_may_not_answer_is_not_read_by_the_logit_of_no_answer():
  model, params = head_and_params()
  x, may = vectors(), np.arange(LENGTH)[None] % 2 == 0
  may = np.broadcast_to(may, (3, LENGTH))
  other = np.where(may[..., None], x, 7 * x)
  found, same = (
    logits_of(model, params, each, may_answer_BL=may) for each in (x, other)
  )
  np.testing.assert_allclose(found[..., -1], same[..., -1], rtol=1e-5)


def test_places_that_may_answer():
  real = np.array([[1, 1, 1, 1, 1, 0]], bool)
  types_BL = np.array([[0, 0, 0, 1, 1, 1]])
  found = span_beam.may_answer(
    {"encoder_token_types": jnp.asarray(types_BL)}, real
  )
  np.testing.assert_array_equal(found, [[1, 0, 0, 1, 1, 0]])
  np.testing.assert_array_equal(span_beam.may_answer({}, real), real)


def test_the_loss_by_hand():
  model, params = head_and_params()
  x = vectors()
  rows = {
    "answer_starts": np.array([2, 0, -1]),
    "answer_ends": np.array([4, 0, -1]),
    "encoder_real": np.ones((3, LENGTH), bool),
  }

  @jax.jit
  def term(params, x, rows):
    def logits(head, places, **inputs):
      assert (head, places) == ("span_beam", None)
      return model.apply({"params": params}, x, head, method="logits", **inputs)

    found = encoder.SpanBeamLoss(answer_scale=0.25)(logits, rows)
    return found.total, found.weight

  total, weight = term(params, x, rows)
  start = np.array([2, 0, 0])
  starts, ends = by_hand(params, x, start)
  none = np.asarray(logits_of(model, params, x, starts_B1=start[:, None]))[
    :, 0, 2
  ]
  expected = 0.0
  for row, (first, last) in enumerate([(2, 4), (0, 0)]):
    log_start = scipy.special.log_softmax(starts[row])[first]
    log_end = scipy.special.log_softmax(ends[row])[last]
    label = 1.0 if first == 0 else -1.0
    expected -= (log_start + log_end) / 2
    expected += 0.25 * np.log1p(np.exp(-label * none[row]))
  assert weight == 2
  np.testing.assert_allclose(total, expected, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["electra", "xlnet"])
def test_it_learns_where_an_answer_is(architecture):
  """The answer lies around a token; without the token there is none."""
  import optax

  model, _ = tiny_models.build(
    architecture, HEAD, DROPOUT_RATE=0.0, NUM_ENCODER_LAYERS=1
  )
  random = np.random.RandomState(0)
  tokens = random.randint(8, 48, (32, LENGTH)).astype(np.int32)
  has = np.arange(32) % 2 == 0
  place = random.randint(4, LENGTH - 1, 32)
  tokens[np.arange(32), place] = np.where(has, 7, tokens[:, 4])
  rows = {
    "encoder_input_tokens": tokens,
    "encoder_token_types": (np.arange(LENGTH)[None] >= 3)
    + np.zeros((32, 1), int),
    "answer_starts": np.where(has, place - 1, 0),
    "answer_ends": np.where(has, place, 0),
  }
  rows = {name: jnp.asarray(x) for name, x in rows.items()}
  objective = encoder.EncoderObjective((encoder.SpanBeamLoss(),))
  optimizer = optax.adam(3e-3)
  params = tiny_models.random_parameters(model)

  @jax.jit
  def step(params, state):
    def loss(params):
      (term,) = objective(model, params, rows).values()
      return term.total / term.weight, term.metrics["correct_sum"]

    (value, right), gradient = jax.value_and_grad(loss, has_aux=True)(params)
    updates, state = optimizer.update(gradient, state, params)
    return optax.apply_updates(params, updates), state, value, right

  state = optimizer.init(params)
  for _ in range(150):
    params, state, value, right = step(params, state)
  assert value < 0.2 and right == 32


def scored(texts, logits, num_ends=5, no_answer=None, threshold=None):
  scorer = spans.SpanBeamScorer(None, threshold, num_ends)
  task = types.SimpleNamespace(form={"no_answer": no_answer})
  rows = scorer.rows(
    task,
    batch(
      texts,
      [spans_test.PLACE + text["window"]["pieces"] + 1 for text in texts],
      answer_starts=np.zeros(len(texts), int),
      answer_ends=np.zeros(len(texts), int),
    ),
    logits,
  )
  return rows, scorer.joined(task, texts, rows)


@pytest.mark.parametrize("number", [0, -3])
def test_a_beam_without_ends_is_refused(number):
  with pytest.raises(UserError) as error:
    spans.SpanBeamScorer(None, num_ends=number)
  assert str(error.value) == (
    f"SpanBeamScorer.num_ends is {number}; it must be at least 1"
  )


def test_the_best_span_of_a_beam():
  """Of the starts that were looked at, and the likeliest ends of each."""
  texts = [spans_test.window(0, 0, 4), spans_test.window(1, 2, 4)]
  logits = 3 * np.random.RandomState(4).randn(2, 9, 5)
  logits[:, :, 4] = np.array([[0.5], [-0.5]])
  rows, (_, joined) = scored(texts, logits, num_ends=2)
  expected = {}
  for text, each in zip(texts, logits, strict=True):
    begins = scipy.special.log_softmax(each[:, 0])
    for column, start in enumerate(np.argsort(-each[:, 0])[:3], 1):
      ends = scipy.special.log_softmax(each[:, column])
      for end in np.argsort(-ends)[:2]:
        first, last = start - spans_test.PLACE, end - spans_test.PLACE
        if 0 <= first <= last < 4:
          offset = text["window"]["start"]
          words = spans_test.CONTEXT[
            spans_test.STARTS[offset + first] : spans_test.ENDS[offset + last]
          ]
          score = begins[start] + ends[end]
          expected[words] = max(score, expected.get(words, -np.inf))
  best = sorted(expected, key=expected.get, reverse=True)
  assert len(best) > 1
  assert [span["text"] for span in joined[0]["spans"]] == best
  assert joined[0]["prediction"] == best[0]
  assert [row["null_score"] for row in rows] == [0.5, -0.5]
  assert joined[0]["null_score"] == -0.5
  # The targets are the first token: a right start and a right end together.
  assert [row["correct_tokens"] for row in rows] == [0, 0]
  logits[:, 0, :2] = 20.0
  logits[1, 0, 1] = -20.0
  rows, _ = scored(texts, logits)
  assert [row["correct_tokens"] for row in rows] == [1, 0]
  # The first token is the likeliest start: column 1 has its ends.
  assert [row["log_likelihood"] for row in rows] == pytest.approx(
    scipy.special.log_softmax(logits[:, :, :2], axis=1)[:, 0].sum(axis=1) / 2
  )


def test_no_span_is_longer_than_the_longest(monkeypatch):
  monkeypatch.setattr(spans, "LONGEST", 2)
  logits = np.zeros((1, 9, 4))
  logits[0, spans_test.PLACE, 0] = 9.0
  # The likeliest end is too far.
  logits[0, spans_test.PLACE :, 1] = [3.0, 4.0, 5.0, 0.0, 0.0]
  _, (_, joined) = scored([spans_test.window(0, 0, 4, count=1)], logits)
  found = [span["text"] for span in joined[0]["spans"]]
  assert "the cat" in found and "the cat sat" not in found
  assert max(len(text.split()) for text in found) == 2


def test_no_answer_is_the_logit_of_its_own():
  texts = [spans_test.window(0, 0, 4, count=1)]
  logits = np.zeros((1, 9, 4))
  logits[:, spans_test.PLACE + 1, :3] = 5.0
  logits[:, :, 3] = 0.1
  for threshold, answered in ((0.0, False), (0.2, True)):
    _, (_, joined) = scored(texts, logits, no_answer="", threshold=threshold)
    assert (joined[0]["prediction"] != "") == answered


def test_no_starts_are_refused():
  with pytest.raises(UserError) as caught:
    span_beam.SpanBeamLogits(num_starts=0)
  assert str(caught.value) == (
    "SpanBeamLogits.num_starts is 0; it must be at least 1"
  )
