"""Heads: logits from a stack's output."""

from flax import linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import programs
from tests import tiny_models
from transformer_zoo.modules.embedding import Embed
from transformer_zoo.modules.heads import Averaged
from transformer_zoo.modules.heads import LinearLogits
from transformer_zoo.modules.heads import SoftCappedLogits
from transformer_zoo.modules.heads import TiedLogits

RANDOM = np.random.RandomState(0)
X = RANDOM.standard_normal((2, 3, 16)).astype(np.float32)
TABLE = RANDOM.standard_normal((11, 16)).astype(np.float32)


class Tied(nn.Module):
  head: nn.Module
  embedder: nn.Module

  def __call__(self, x):
    return self.head(x, self.embedder)


def tied(head, x):
  model = Tied(head, Embed(num_embeddings=11, features=16))
  params = {"embedder": {"embedding": TABLE}}
  return programs.apply(model, {"params": params}, x)


@pytest.mark.parametrize(("scaled", "factor"), [(True, 0.25), (False, 1.0)])
def test_tied_logits(scaled, factor):
  y = tied(TiedLogits(scale_by_depth=scaled), X)
  np.testing.assert_allclose(y, factor * X @ TABLE.T, rtol=1e-5, atol=1e-5)


def test_logits_may_be_bounded():
  y = tied(SoftCappedLogits(TiedLogits(scale_by_depth=False), cap=3.0), X)
  expected = 3 * np.tanh(X @ TABLE.T / 3)
  assert 2.99 < np.abs(expected).max() < 3 < np.abs(X @ TABLE.T).max()
  np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


def test_tied_logits_of_bfloat16_are_float32():
  y = tied(TiedLogits(), X.astype(jnp.bfloat16))
  assert y.dtype == jnp.float32


def test_linear_logits_are_computed_in_float32():
  x = X.astype(jnp.bfloat16)
  kernel = RANDOM.standard_normal((16, 11)).astype(np.float32)
  y = programs.apply(
    LinearLogits(),
    {"params": {"logits_dense": {"kernel": kernel}}},
    x,
    Embed(num_embeddings=11, features=16),
  )
  assert y.dtype == jnp.float32
  expected = np.asarray(x, np.float32) @ kernel
  np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


def test_tied_logits_may_have_a_bias():
  model = Tied(
    TiedLogits(scale_by_depth=False, use_bias=True),
    Embed(num_embeddings=11, features=16),
  )
  bias = RANDOM.standard_normal(11).astype(np.float32)
  params = {"embedder": {"embedding": TABLE}, "head": {"logits_bias": bias}}
  np.testing.assert_allclose(
    programs.apply(model, {"params": params}, X),
    X @ TABLE.T + bias,
    rtol=1e-5,
    atol=1e-5,
  )


MEANS = ("EncoderOnly.averages=True",)
CLASSES = "../heads/classes.gin"


def test_each_text_of_a_row_has_its_mean_and_padding_none():
  hidden_BLD = np.random.RandomState(0).randn(2, 6, 3).astype(np.float32)
  texts_BL = np.array([[1, 2, 2, 2, 4, 0], [3, 3, 3, 3, 3, 3]])
  found = programs.run(Averaged.of_texts, hidden_BLD, texts_BL)
  mean_BLD = np.asarray(found.mean_BLD)
  np.testing.assert_array_equal(found.hidden_BLD, hidden_BLD)
  for row, texts_L in enumerate(texts_BL):
    for place, text in enumerate(texts_L):
      expected = hidden_BLD[row, texts_L == text].mean(axis=0)
      np.testing.assert_allclose(
        mean_BLD[row, place], expected if text else 0.0, atol=1e-6
      )


@pytest.mark.slow
def test_packed_texts_have_the_classes_that_they_have_alone():
  model, _ = tiny_models.build(
    "modernbert",
    CLASSES,
    bindings=(*MEANS, "ClassLogits.num_classes=3", "EncoderOnly.pad_id=0"),
    NUM_ENCODER_LAYERS=1,
  )
  params = tiny_models.random_parameters(model)
  tokens = np.random.RandomState(0).randint(3, 48, (1, 9))
  packed = {
    "encoder_input_tokens": tokens,
    "encoder_segment_ids": np.array([[1] * 4 + [2] * 5]),
  }
  alone = np.zeros((2, 5), int)
  alone[0, :4], alone[1] = tokens[0, :4], tokens[0, 4:]

  @jax.jit
  def classes(batch, places_BP):
    hidden = model.apply({"params": params}, batch, method="hidden")
    return model.apply(
      {"params": params},
      hidden,
      "classes",
      places_BP=places_BP,
      method="logits",
    )

  np.testing.assert_allclose(
    np.asarray(classes(packed, np.array([[0, 4]])))[0],
    np.asarray(classes({"encoder_input_tokens": alone}, np.zeros((2, 1), int)))[
      :, 0
    ],
    rtol=1e-4,
    atol=1e-5,
  )
