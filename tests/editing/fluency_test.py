"""Entropies and similarities of texts, and the texts that a model writes."""

import jax
import numpy as np
import pytest

from tests.editing import rome_test
from transformer_zoo.editing import fluency
from transformer_zoo.editing.facts import Fact
from transformer_zoo.errors import UserError


def test_entropy_is_weighted_over_pairs_and_triples():
  # Pairs: a b, b a, a b, b c; triples: a b a, b a b, a b c.
  pairs = -(0.5 * np.log2(0.5) + 2 * 0.25 * np.log2(0.25))
  expected = (2 / 3 * pairs + 4 / 3 * np.log2(3)) / 2
  assert fluency.entropy("a b a b c") == pytest.approx(expected)
  assert fluency.entropy("so so so so") == 0
  assert fluency.entropy("so, so") == pytest.approx((2 / 3) / 2)
  assert fluency.entropy("so") == 0


def test_similarity_is_the_cosine_of_tf_idf():
  same = ["cats see dogs", "birds sing"]
  assert fluency.similarity(same, same) == pytest.approx(1)
  assert fluency.similarity(["trees grow"], same) == 0
  # "cats" is in both references and "sing" in one: idf 1 and ln(3 / 2) + 1.
  idf = np.log(3 / 2) + 1
  other = np.array([2, idf, idf])
  assert fluency.similarity(
    ["sing"], ["cats sing", "cats run"]
  ) == pytest.approx(idf / np.linalg.norm(other))


@pytest.mark.slow
def test_texts_begin_with_their_prompts():
  memory = rome_test.memory_of("gpt_2")
  prompts = ("anna fox lives in", "emma lives")
  texts = fluency.generate(memory, prompts, jax.random.key(0), length=8)
  for text, prompt in zip(texts, prompts, strict=True):
    assert text.startswith(prompt) and text != prompt
  fact = Fact(
    "{} has", "anna", "b", generations=prompts, references=("anna fox",)
  )
  found = fluency.score(memory, fact, jax.random.key(0), length=8)
  assert set(found) == {"fluency", "consistency"} and found["fluency"] > 0
  with pytest.raises(UserError, match="^the prompt 'anna fox lives in' has 4"):
    fluency.generate(memory, prompts, jax.random.key(0), length=4)
