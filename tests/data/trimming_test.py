"""Lengths to which examples are cut, by themselves and in the loader."""

import dataclasses
import itertools
import types

import numpy as np
import pytest

from transformer_zoo.corruption.draws import Draws
from transformer_zoo.data import trimming
from transformer_zoo.data.loader import loader
from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import UserError

EOS = 1


@pytest.mark.parametrize(
  "ids, length, expected",
  [
    ([5, 6, 7, 8, EOS], 5, [5, 6, 7, 8, EOS]),
    ([5, 6, 7, 8, EOS], 4, [5, 6, 8, EOS]),
    ([5, 6, 7, 8, EOS], 3, [5, 8, EOS]),
    ([5, 6, 7, 8, EOS], 2, [8, EOS]),
    ([5, 6, 7, 8, EOS], 1, [EOS]),
    ([5, 6, 7, 8], 3, [5, 6, 8]),
    ([5, 6, 7, 8], 1, [8]),
  ],
)
def test_the_last_token_is_kept(ids, length, expected):
  cut = trimming.KeepLast(1).cut(np.array(ids), length, EOS)
  assert cut.tolist() == expected


def test_rules_as_json():
  for rule in (
    trimming.KeepLast(3),
    trimming.WindowWithTargets(),
    trimming.FewerDemonstrations(),
  ):
    assert trimming.from_spec(trimming.to_spec(rule)) == rule


def test_the_rule_of_a_task_is_that_of_one_step():
  steps = [
    types.SimpleNamespace(trimming=rule)
    for rule in (trimming.KeepLast(1), trimming.WindowWithTargets())
  ]
  assert trimming.find([len, str]) is None
  assert trimming.find([len, steps[0]]) == {"name": "KeepLast", "number": 1}
  with pytest.raises(
    UserError,
    match="two steps of the task cut long examples, by KeepLast and "
    "WindowWithTargets; one rule is possible.",
  ):
    trimming.find(steps)


def test_a_window_without_what_is_sought():
  tokens = {"inputs": np.arange(5, 30), "targets": np.array([8, EOS])}
  rule = trimming.WindowWithTargets()
  vocabulary = types.SimpleNamespace(eos_id=EOS)
  draws = Draws(0, np.array([0]))
  # A model that reads no inputs.
  found = rule(tokens, {}, {"targets": 2}, vocabulary, draws)
  assert found == tokens
  for targets in ([], [99], [*range(5, 60)]):
    some = tokens | {"targets": np.array([*targets, EOS])}
    found = rule(some, {}, {"inputs": 4}, vocabulary, draws)
    assert found["inputs"].tolist() == [*range(5, 30)]


@pytest.fixture
def windows(make_task):
  """The inputs of the first epochs of a task of one example, by step."""
  example = {
    "inputs": np.array([*range(3, 43), EOS], np.int32),
    "targets": np.array([20, 21, EOS], np.int32),
  }
  task = make_task("windows", [example])
  rule = trimming.to_spec(trimming.WindowWithTargets())
  task = dataclasses.replace(task, trimming=rule)
  mixture = manifest.PreparedMixture("windows", (task,), (1.0,))

  def read(number, start_step=0, seed=0):
    batches = loader.training_batches(
      mixture,
      split="train",
      lengths={"inputs": 8, "targets": 4},
      batch_size=4,
      seed=seed,
      packing=False,
      start_step=start_step,
    )
    return [
      batch["encoder_input_tokens"].tolist()
      for batch in itertools.islice(batches, number)
    ]

  return read


def test_every_epoch_draws_another_window(windows):
  read = windows(10)
  rows = [row for batch in read for row in batch]
  for row in rows:
    assert row[-1] == EOS
    assert row[:-1] == [*range(row[0], row[0] + 7)]
    # EOS takes the place of the last token, as in t5.
    assert row[0] <= 20 and 21 <= row[0] + 7
  assert {row[0] for row in rows} == {14, 15, 16, 17, 18, 19, 20}
  assert windows(10) == read
  assert windows(5, start_step=5) == read[5:]
  assert windows(10, seed=1) != read
