"""T-Few's losses against sums over answers one by one."""

import functools

from flax import linen as nn
import jax
import numpy as np
import pytest
import scipy.special

from tests import tiny_t5
from transformer_zoo.errors import UserError
from transformer_zoo.modules import dropout
from transformer_zoo.modules.dropout import Dropout
from transformer_zoo.objectives import terms as terms_lib
from transformer_zoo.objectives.few_shot import answer_ids
from transformer_zoo.objectives.few_shot import FewShotObjective

ANSWERS = [[7, 9, 1], [8, 1], [7, 1]]
RIGHT = [1, 0, 2]
LENGTH = 4


def batch():
  rows = [ANSWERS[i] + [0] * (LENGTH - len(ANSWERS[i])) for i in RIGHT]
  targets = np.array(rows, np.int32)
  inputs = tiny_t5.random_batch()["encoder_input_tokens"]
  return {
    "encoder_input_tokens": inputs,
    "decoder_input_tokens": tiny_t5.shift_right(targets),
    "decoder_target_tokens": targets,
    "decoder_loss_weights": (targets > 0).astype(np.int32),
  }


@functools.cache
def setting(**macros):
  model = tiny_t5.build(NUM_ENCODER_LAYERS=1, NUM_DECODER_LAYERS=1, **macros)
  return model, tiny_t5.random_parameters(model)


@functools.cache
def program():
  """Compiled: parameters and a batch -> the terms of `ANSWERS`."""
  model, _ = setting()
  return jax.jit(functools.partial(FewShotObjective([ANSWERS]), model))


def log_likelihoods(features, answers):
  """Of each token of each answer to each input, all in rows of their own."""
  rows = [row for row in range(len(RIGHT)) for _ in answers]
  targets = np.array(
    [answer + [0] * (LENGTH - len(answer)) for answer in answers] * len(RIGHT),
    np.int32,
  )
  found = tiny_t5.logits(
    *setting(),
    {
      "encoder_input_tokens": features["encoder_input_tokens"][rows],
      "decoder_input_tokens": tiny_t5.shift_right(targets),
      "decoder_target_tokens": targets,
    },
  )
  each = scipy.special.log_softmax(found.astype(np.float64), axis=-1)
  each = np.take_along_axis(each, targets[..., None], -1)[..., 0]
  return each.reshape(len(RIGHT), len(answers), LENGTH)


def by_hand(features, templates):
  """What each loss of the paper is of each token or example, by its name.

  An answer is compared with those of its own template.
  """
  every = [answer for answers in templates for answer in answers]
  found = log_likelihoods(features, every)
  losses = {"tokens": [], "unlikelihood": [], "choices": []}
  for row, right in enumerate(RIGHT):
    (answers,) = (some for some in templates if ANSWERS[right] in some)
    of_each = {
      tuple(answer): found[row, every.index(answer)][: len(answer)]
      for answer in answers
    }
    right = tuple(ANSWERS[right])
    losses["tokens"] += [*-of_each[right]]
    for answer, likelihoods in of_each.items():
      if answer != right:
        losses["unlikelihood"] += [*-np.log(1 - np.exp(likelihoods) + 1e-2)]
    scores = [np.mean(likelihoods) for likelihoods in of_each.values()]
    place = [*of_each].index(right)
    losses["choices"].append(-scipy.special.log_softmax(scores)[place])
  return losses


def test_losses_are_those_of_the_paper():
  model, params = setting()
  features = batch()
  terms = jax.device_get(program()(params, features))
  expected = by_hand(features, [ANSWERS])
  assert terms.keys() == expected.keys()
  for name, term in terms.items():
    found = float(term.total / term.divisor)
    assert found == pytest.approx(np.mean(expected[name]), rel=1e-4), name
  loss = float(terms_lib.loss(terms))
  assert loss == pytest.approx(sum(map(np.mean, expected.values())), rel=1e-4)
  alone = FewShotObjective([ANSWERS], unlikelihood_scale=0.0, choices_scale=0.0)
  made = jax.eval_shape(functools.partial(alone, model), params, features)
  assert [*made] == ["tokens"]


class Reader(nn.Module):
  """As an encoder-decoder is called, of one layer of dropout a side."""

  pad_id: int = 0

  def setup(self):
    self.embedder = nn.Embed(96, 8)
    self.dropout = Dropout(0.4)

  def encode(self, inputs_BM, *, deterministic):
    x_BMD = self.embedder(inputs_BM)
    return self.dropout(x_BMD, deterministic=deterministic)

  def decode_hidden(self, encoded_XMD, _, read_XL, __, *, deterministic):
    x_XLD = self.embedder(read_XL) + encoded_XMD.sum(axis=1, keepdims=True)
    return self.dropout(x_XLD, deterministic=deterministic)

  def logits(self, hidden_XLD):
    return self.embedder.attend(hidden_XLD)


@pytest.mark.slow
def test_answers_are_dropped_out_alike_in_any_microbatch():
  model, features = Reader(), batch()
  table = np.random.RandomState(0).standard_normal((96, 8)).astype(np.float32)
  params = {"embedder": {"embedding": 0.3 * table}}

  @functools.partial(jax.jit, static_argnums=2)
  def totals(features, index, number):
    objective = FewShotObjective([ANSWERS])
    with dropout.microbatch(index, number):
      terms = objective(model, params, features, jax.random.key(1))
    return {name: term.total for name, term in terms.items()}

  whole = jax.device_get(totals(features, 0, 1))
  parts = [
    totals({name: x[i : i + 1] for name, x in features.items()}, i, 3)
    for i in range(3)
  ]
  for name, expected in whole.items():
    found = sum(float(part[name]) for part in parts)
    assert found == pytest.approx(float(expected), rel=1e-5), name


@pytest.mark.slow
def test_answers_of_another_template_do_not_count():
  """The terms of a mixture are the sums of those of its templates."""
  model, params = setting()
  features = batch()
  templates = [ANSWERS[:2], [ANSWERS[2], [9, 1]]]

  @functools.partial(jax.grad, has_aux=True)
  def loss(params):
    terms = FewShotObjective(templates)(model, params, features)
    return terms_lib.loss(terms), terms

  gradient, found = jax.device_get(jax.jit(loss)(params))
  each = by_hand(features, templates)
  assert found.keys() == each.keys()
  for name, term in found.items():
    assert float(term.total) == pytest.approx(sum(each[name]), rel=1e-4), name
    assert float(term.weight) == len(each[name]) > 0, name
  assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


def test_an_example_with_another_target_has_no_weight():
  _, params = setting()
  features = batch()
  for name in ("decoder_target_tokens", "decoder_input_tokens"):
    features[name] = np.full_like(features[name], 5)
  terms = program()(params, features)
  assert {float(term.weight) for term in terms.values()} == {0.0}


def test_refusals():
  with pytest.raises(UserError, match="set ANSWERS to the target texts"):
    answer_ids(())
  with pytest.raises(UserError, match="has 1 answers; it takes two or more"):
    FewShotObjective([[[5, 1]]])
  with pytest.raises(UserError, match="has an answer twice"):
    FewShotObjective([ANSWERS, [[3, 1], ANSWERS[0]]])
  model, params = setting()
  objective = FewShotObjective([[*ANSWERS, [3, 3, 3, 3, 1]]])
  with pytest.raises(UserError, match="an answer of 5 tokens, and rows have 4"):
    objective(model, params, batch())
  packed = batch() | {"decoder_segment_ids": np.ones((3, LENGTH), np.int32)}
  with pytest.raises(UserError, match="train.packing = False"):
    FewShotObjective([ANSWERS])(model, params, packed)
