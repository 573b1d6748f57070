"""T-Few's losses against sums over answers one by one."""

import functools

import jax
import numpy as np
import pytest
import scipy.special

from tests import tiny_t5
from transformer_zoo.errors import UserError
from transformer_zoo.modules import dropout
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


def log_likelihoods(model, params, features, row, answer):
  """Of each token of one answer to one input, by a call of its own."""
  targets = np.array([answer], np.int32)
  found = tiny_t5.logits(
    model,
    params,
    {
      "encoder_input_tokens": features["encoder_input_tokens"][row][None],
      "decoder_input_tokens": tiny_t5.shift_right(targets),
      "decoder_target_tokens": targets,
    },
  )
  each = scipy.special.log_softmax(found[0].astype(np.float64), axis=-1)
  return each[np.arange(len(answer)), answer]


def test_losses_are_those_of_the_paper():
  model = tiny_t5.build()
  params = tiny_t5.random_parameters(model)
  features = batch()
  terms = jax.jit(
    lambda params, features: FewShotObjective([ANSWERS])(
      model, params, features
    )
  )(params, features)
  likelihood, unlikelihood, choices = [], [], []
  for row, right in enumerate(RIGHT):
    of_each = [
      log_likelihoods(model, params, features, row, answer)
      for answer in ANSWERS
    ]
    likelihood += [*-of_each[right]]
    for place, found in enumerate(of_each):
      if place != right:
        unlikelihood += [*-np.log(1 - np.exp(found) + 1e-2)]
    scores = [np.mean(found) for found in of_each]
    choices.append(-scipy.special.log_softmax(scores)[right])
  expected = {
    "tokens": np.mean(likelihood),
    "unlikelihood": np.mean(unlikelihood),
    "choices": np.mean(choices),
  }
  assert terms.keys() == expected.keys()
  for name, term in terms.items():
    found = float(term.total / term.divisor)
    assert found == pytest.approx(expected[name], rel=1e-4), name
  loss = float(terms_lib.loss(terms))
  assert loss == pytest.approx(sum(expected.values()), rel=1e-4)
  alone = FewShotObjective([ANSWERS], unlikelihood_scale=0.0, choices_scale=0.0)
  assert [*alone(model, params, features)] == ["tokens"]


def test_answers_are_dropped_out_alike_in_any_microbatch():
  model = tiny_t5.build(
    DROPOUT_RATE=0.3, NUM_ENCODER_LAYERS=1, NUM_DECODER_LAYERS=1
  )
  params = tiny_t5.random_parameters(model)
  features = batch()

  @functools.partial(jax.jit, static_argnums=(1, 2))
  def totals(features, index, number):
    objective = FewShotObjective([ANSWERS])
    with dropout.microbatch(index, number):
      terms = objective(model, params, features, jax.random.key(1))
    return {name: term.total for name, term in terms.items()}

  whole = totals(features, 0, 1)
  parts = [
    totals({name: x[i : i + 1] for name, x in features.items()}, i, 3)
    for i in range(3)
  ]
  for name, expected in whole.items():
    found = sum(float(part[name]) for part in parts)
    assert found == pytest.approx(float(expected), rel=1e-5), name


def test_answers_of_another_template_do_not_count():
  """The terms of a mixture are the sums of those of its templates."""
  model = tiny_t5.build()
  params = tiny_t5.random_parameters(model)
  features = batch()
  lists = [ANSWERS[:2], [ANSWERS[2], [9, 1]]]
  found = jax.jit(
    lambda params, features: FewShotObjective(lists)(model, params, features)
  )(params, features)
  each = [FewShotObjective([some])(model, params, features) for some in lists]
  for name, term in found.items():
    total, weight = (
      sum(float(getattr(terms[name], field)) for terms in each)
      for field in ("total", "weight")
    )
    assert float(term.total) == pytest.approx(total, rel=1e-4), name
    assert float(term.weight) == weight > 0, name
  gradient = jax.grad(
    lambda params: terms_lib.loss(
      FewShotObjective(lists)(model, params, features)
    )
  )(params)
  assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


def test_an_example_with_another_target_has_no_weight():
  model = tiny_t5.build()
  features = batch()
  for name in ("decoder_target_tokens", "decoder_input_tokens"):
    features[name] = np.full_like(features[name], 5)
  terms = FewShotObjective([ANSWERS])(
    model, tiny_t5.random_parameters(model), features
  )
  assert {float(term.weight) for term in terms.values()} == {0.0}


def test_refusals():
  with pytest.raises(UserError, match="set ANSWERS to the target texts"):
    answer_ids(())
  with pytest.raises(UserError, match="has 1 answers; it takes two or more"):
    FewShotObjective([[[5, 1]]])
  with pytest.raises(UserError, match="has an answer twice"):
    FewShotObjective([ANSWERS, [[3, 1], ANSWERS[0]]])
  model = tiny_t5.build()
  params = tiny_t5.random_parameters(model)
  objective = FewShotObjective([[*ANSWERS, [3, 3, 3, 3, 1]]])
  with pytest.raises(UserError, match="an answer of 5 tokens, and rows have 4"):
    objective(model, params, batch())
  packed = batch() | {"decoder_segment_ids": np.ones((3, LENGTH), np.int32)}
  with pytest.raises(UserError, match="train.packing = False"):
    FewShotObjective([ANSWERS])(model, params, packed)
