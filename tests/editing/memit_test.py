"""MEMIT's closed form, its layers, and many facts beside ROME's one by one."""

import dataclasses
import functools
import itertools

import numpy as np
import pytest
from scipy import special

from tasks.miniature import facts as world
from tests.editing import rome_test
from transformer_zoo.editing import edits
from transformer_zoo.editing import memit
from transformer_zoo.editing import rome
from transformer_zoo.editing import scores
from transformer_zoo.editing.facts import Fact
from transformer_zoo.errors import UserError

FEATURES = 144  # that a projection reads: more than there are facts
CITIES = world.OBJECTS["city"]


def moment_of(random, size):
  sample = random.standard_normal((5 * size, size))
  return sample.T @ sample / len(sample)


def test_the_change_is_the_least_squares_solution():
  """Its gradient vanishes: lambda C D + K^T (K D - R) = 0."""
  random = np.random.RandomState(0)
  keys, residual = (
    random.standard_normal((4, 9)),
    random.standard_normal((4, 5)),
  )
  moment = moment_of(random, 9)
  change = memit.spread(keys, moment, 3.0) @ residual
  gradient = 3.0 * moment @ change + keys.T @ (keys @ change - residual)
  np.testing.assert_allclose(gradient, 0, atol=1e-12)


def test_one_key_has_romes_direction_and_is_mapped_whole_without_weight():
  random = np.random.RandomState(0)
  key, moment = random.standard_normal(9), moment_of(random, 9)
  left = memit.spread(key[None], moment, 7.0)[:, 0]
  np.testing.assert_allclose(
    left / np.linalg.norm(left), rome.direction(key, moment), rtol=1e-5
  )
  inside = key @ np.linalg.solve(moment, key)
  assert key @ left == pytest.approx(inside / (7.0 + inside))
  assert key @ memit.spread(key[None], moment, 1e-9)[:, 0] == pytest.approx(1)


def test_the_key_of_the_prompt_alone_is_half():
  keys = np.arange(6.0).reshape(1, 3, 2)
  np.testing.assert_array_equal(memit._mean(keys), [[1.5, 2.5]])
  np.testing.assert_array_equal(memit._mean(keys[:, :1]), keys[:, 0])


@functools.cache
def memory_of():
  return rome_test.memory_of("gpt_2", NUM_DECODER_LAYERS=3, MLP_DIM=FEATURES)


def facts_of(number):
  """Facts about people, no two of whom have both words of a name in common."""
  names = (
    f"{first} {world._LAST[(place + turn) % len(world._LAST)]}"
    for turn in range(number)
    for place, first in enumerate(world._FIRST)
  )
  random = np.random.RandomState(0)
  made = []
  for name in itertools.islice(names, number):
    target, true = random.choice(CITIES, 2, replace=False)
    made.append(Fact("a friend of {}", name, str(target), str(true)))
  return made


@pytest.mark.slow
@pytest.mark.parametrize("layers", [(0,), (0, 1)])
def test_the_last_layer_says_what_was_searched(layers):
  """Without weight of the covariance every key is mapped to its value."""
  memory, facts = memory_of(), facts_of(4)
  settings = memit.Settings(
    layers, moment_weight=1e-6, steps=4, learning_rate=0.1
  )
  moments = dict.fromkeys(layers, np.eye(FEATURES))
  made = memit.edit(memory, facts, settings, moments=moments)
  assert [edit.path for edit in made] == [
    f"decoder/layers_{layer}/mlp/wo/kernel" for layer in layers
  ]
  params = memory.params
  for edit in made:
    params = edit.apply(params)
  last = f"decoder/layers_{layers[-1]}"
  after = dataclasses.replace(memory, params=params)
  asked = [(fact.prompt, fact.subject) for fact in facts]
  _, found = rome.keys_and_outputs(after, asked, last, last)
  searched = [
    rome.value(memory, fact, settings.search, of_layer=True) for fact in facts
  ]
  np.testing.assert_allclose(
    found, [v.before_D + v.delta_D for v in searched], rtol=1e-3, atol=1e-4
  )


@pytest.mark.slow
def test_many_facts_disturb_less_than_one_after_another():
  memory, facts = memory_of(), facts_of(50)
  texts = world.documents(200, seed=3)
  settings = memit.Settings((0, 1), clamp=4.0)
  moments = {
    layer: rome.second_moment(memory, texts, layer)[0] for layer in (0, 1)
  }
  at_once = one_by_one = memory.params
  for edit in memit.edit(memory, facts, settings, moments=moments):
    at_once = edit.apply(at_once)
  for fact in facts:
    now = dataclasses.replace(memory, params=one_by_one)
    edit = rome.edit(now, fact, rome.Settings(0), moment_FF=moments[0])
    one_by_one = edit.apply(one_by_one)
  rows = memory.reader.rows(texts[:64])
  real = np.arange(rows.weights_BL.shape[1]) < rows.lengths_B[:, None]

  def logs(params):
    found = rome_test.logits_of(memory.model, params, rows.batch)
    return special.log_softmax(found[real], axis=-1)

  before = logs(memory.params)

  def measured(params):
    changed = dataclasses.replace(memory, params=params)
    means = scores.mean([scores.score(changed, fact) for fact in facts])
    divergence = (np.exp(before) * (before - logs(params))).sum(-1).mean()
    return means["efficacy"], divergence

  said, lost = measured(at_once)
  said_one_by_one, lost_one_by_one = measured(one_by_one)
  assert said > 90 and said > said_one_by_one
  assert 2 * lost < lost_one_by_one


def test_several_edits_are_one_file(tmp_path):
  memory = memory_of()
  random = np.random.RandomState(0)
  made = []
  for layer in (0, 1):
    path = rome.kernel_path(f"decoder/layers_{layer}")
    kernel = edits.kernel_of(memory.params, path)
    made.append(
      edits.Edit.make(
        path,
        kernel,
        random.standard_normal((len(kernel), 2)),
        random.standard_normal((2, kernel.shape[1])),
        {"number": layer},
      )
    )
  edits.save(tmp_path / "edits.npz", made)
  for edit, read in zip(made, edits.load(tmp_path / "edits.npz"), strict=True):
    assert read.path == edit.path and read.notes == edit.notes
    np.testing.assert_array_equal(read.delta_FD, edit.delta_FD)
    assert read.rounding == edit.rounding


@pytest.mark.parametrize(
  ("call", "sentence"),
  [
    (
      lambda: memit.Settings((3, 2)),
      "the layers of an edit are [3, 2]; name one or more, each once, from the "
      "first to the last",
    ),
    (
      lambda: memit.Settings((0,), moment_weight=0.0),
      "moment_weight of an edit is 0.0; it must be positive",
    ),
    (
      lambda: memit.edit(None, [], memit.Settings((0,)), moments={}),
      "there is no fact to write; name a file that has one",
    ),
    (
      lambda: memit.spread(np.zeros((1, 3)), np.ones((3, 3)), 1.0),
      "the covariance of keys has rank 1 and the layer 3 features, so that "
      "nothing inverts it; give more text, or --ridge 1e-4",
    ),
  ],
)
def test_refusals(call, sentence):
  with pytest.raises(UserError) as raised:
    call()
  assert str(raised.value) == sentence
