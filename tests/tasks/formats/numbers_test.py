"""Numbers as text: bins are STS-B's, digits are exact, both are read back."""

import math

import numpy as np
import pytest
import tensorflow as tf

from tasks.formats import labelled_text
from tasks.formats.numbers import Bins
from tasks.formats.numbers import Digits
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.answers.post_processors import spelled_number

NUMBERS = np.round(np.random.default_rng(0).normal(0, 1e4, 300), 3).tolist()


def test_bins_of_a_fifth_are_those_of_stsb():
  labels = sorted({i / n for n in (3, 4, 5, 7) for i in range(5 * n + 1)})
  rows = tf.data.Dataset.from_tensor_slices(
    {
      "sentence1": ["a"] * len(labels),
      "sentence2": ["b"] * len(labels),
      "label": np.array(labels, np.float32),
      "idx": list(range(len(labels))),
    }
  )
  written = labelled_text.similarity(rows, benchmark="stsb")
  bins = Bins(step=0.2, least=0, most=5)
  for label, row in zip(labels, written.as_numpy_iterator(), strict=True):
    assert bins(label) == row["targets"].decode(), label


@pytest.mark.parametrize("step", [0.2, 0.25, 1, 20, 0.003])
def test_bins_are_read_back_to_half_a_step(step):
  for number in NUMBERS:
    text = Bins(step=step)(number)
    assert abs(spelled_number(text) - number) <= step / 2 + 1e-9
    places = spelled_number(text) / step
    assert places == pytest.approx(round(places))


@pytest.mark.parametrize(
  ("number", "text"),
  [(-0.04, "0.0"), (7.0, "5.0"), (-3.0, "-1.0"), (0.3, "0.4"), (0.5, "0.4")],
)
def test_ends_halves_and_zero(number, text):
  assert Bins(step=0.2, least=-1, most=5)(number) == text


def test_digits_are_signs_apart_and_exact():
  assert Digits(decimals=1)(-134.5) == "- 1 3 4 . 5"
  assert Digits()(-0.2) == "0"
  assert Digits()(1e6) == "1 0 0 0 0 0 0"
  for number in NUMBERS:
    text = Digits(decimals=3)(number)
    assert text[1::2].strip() == ""
    assert spelled_number(text) == number


def test_a_target_is_the_number_itself_and_nonsense_is_the_default():
  example = {"answers": [b"137.4"]}
  assert spelled_number("140", example, is_target=True) == 137.4
  assert spelled_number("140", example) == 140.0
  assert spelled_number("1 3 otters", default=-7.0) == -7.0
  assert spelled_number("nan") == 0.0


@pytest.mark.parametrize(
  ("make", "sentence"),
  [
    (lambda: Bins(step=0), "Bins.step is 0"),
    (lambda: Bins(step=math.inf), "Bins.step is inf"),
    (lambda: Bins(step=1, least=2, most=2), "least must be less"),
    (lambda: Bins(step=3, least=0, most=5), "most is 5, which is no multiple"),
    (
      lambda: Bins(step=2, least=-5),
      "least is -5, which is no multiple of the",
    ),
    (lambda: Bins(step=2)(math.nan), "nan has no text; give a finite number"),
    (lambda: Digits(decimals=-1), "Digits.decimals is -1"),
    (lambda: Digits()(-math.inf), "-inf has no text"),
  ],
)
def test_refusals(make, sentence):
  with pytest.raises(UserError, match=sentence):
    make()
