"""Word vectors: one vector for a word, whatever stands around it."""

import gin
import jax
import numpy as np
import pytest

from tests import programs
from tests import tiny_models
from transformer_zoo import config
from transformer_zoo.errors import UserError
from transformer_zoo.modules.positions import Positions
from transformer_zoo.modules.word_vectors import ContextMean

RECORD = 7
# "record" as what is broken, and as what is played.
CONTEXTS = np.array([[5, RECORD, 9, 11, 0], [12, 13, RECORD, 0, 0]], np.int32)


@pytest.fixture(autouse=True)
def clean():
  yield
  gin.clear_config()


def model_of(objective):
  if objective == "elmo":
    return tiny_models.build("elmo", "../objectives/elmo.gin")[0]
  sizes = [
    f"{k}={v}" for k, v in tiny_models.TINY.items() if "DECODER" not in k
  ]
  files = ["architectures/bert.gin", f"objectives/{objective}.gin"]
  if objective in ("cbow", "skip_gram"):
    sizes = [s for s in sizes if s.startswith(("EMBED", "VOCAB"))]
  config.load(files, sizes, root="MODEL")
  return config.value("MODEL")


def vectors_of_record(objective):
  model = model_of(objective)
  params = tiny_models.random_parameters(model)
  batch = {"encoder_input_tokens": CONTEXTS}
  hidden = programs.apply(model, {"params": params}, batch, method="hidden")
  hidden = getattr(hidden, "hidden_BLD", hidden)
  return np.asarray(hidden)[CONTEXTS == RECORD]


@pytest.mark.parametrize(
  ("objective", "number"),
  [("cbow", 1), ("skip_gram", 1), ("elmo", 2), ("bert", 2)],
)
def test_a_word_in_two_contexts_has_so_many_vectors(objective, number):
  first, second = vectors_of_record(objective)
  assert (1 if (first == second).all() else 2) == number


def test_cbow_predicts_a_token_by_the_mean_of_those_around_it():
  """Against sums by hand; padding and the token itself are not read."""
  model = model_of("cbow")
  params = tiny_models.random_parameters(model)
  batch = {"encoder_input_tokens": CONTEXTS}
  logits = np.asarray(tiny_models.forward(model)(params, batch))
  table = np.asarray(params["token_embedder"]["embedding"])
  kernel = np.asarray(params["heads"]["tokens"]["logits_dense"]["kernel"])
  for row, length in ((0, 4), (1, 3)):
    for place in range(length):
      others = [
        i
        for i in range(max(0, place - 5), min(length, place + 6))
        if i != place
      ]
      expected = table[CONTEXTS[row, others]].mean(axis=0) @ kernel
      np.testing.assert_allclose(logits[row, place], expected, atol=1e-5)


def test_the_window_is_as_wide_as_it_says():
  mean = programs.apply(
    ContextMean(window=2),
    {},
    np.eye(8, dtype=np.float32)[None],
    mask_B1LM=np.ones((1, 1, 8, 8), bool),
    positions=jax.device_get(Positions.of_length(8)),
  )
  read = np.asarray(mean.masked_BLD[0]) > 0
  distances = np.abs(np.subtract.outer(np.arange(8), np.arange(8)))
  np.testing.assert_array_equal(read, (distances > 0) & (distances <= 2))
  with pytest.raises(UserError, match="ContextMean.window is 0"):
    ContextMean(window=0)
