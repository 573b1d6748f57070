"""Rotary positions: against complex numbers, and their properties."""

import numpy as np
import pytest

from tests import programs
from transformer_zoo.modules.positions.rotary import Rotary

X = np.random.RandomState(0).standard_normal((2, 5, 3, 8)).astype(np.float32)
POSITIONS = np.arange(5)[None]


def turned(rotary, x, positions):
  return np.asarray(programs.apply(rotary, {}, x, positions))


def by_complex_numbers(x, positions, theta, interleaved):
  half = x.shape[-1] // 2
  if interleaved:
    z = x[..., 0::2] + 1j * x[..., 1::2]
  else:
    z = x[..., :half] + 1j * x[..., half:]
  angles = np.asarray(positions)[..., None] * theta ** (-np.arange(half) / half)
  z = z * np.exp(1j * angles)[:, :, None]
  if interleaved:
    return np.stack([z.real, z.imag], axis=-1).reshape(x.shape)
  return np.concatenate([z.real, z.imag], axis=-1)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("theta", [10000.0, 500.0])
def test_is_a_product_of_complex_numbers(interleaved, theta):
  rotary = Rotary(theta=theta, interleaved=interleaved)
  y = turned(rotary, X, POSITIONS)
  expected = by_complex_numbers(X, POSITIONS, theta, interleaved)
  np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("interleaved", [False, True])
def test_scores_depend_on_distances_alone(interleaved):
  rotary = Rotary(interleaved=interleaved)

  def scores(offset):
    y = turned(rotary, X, POSITIONS + offset)
    return np.einsum("blhk,bmhk->bhlm", y, y)

  np.testing.assert_allclose(scores(0), scores(300), rtol=1e-4, atol=1e-4)
  assert np.abs(scores(0) - np.einsum("blhk,bmhk->bhlm", X, X)).max() > 0.1


def test_some_features_may_stay():
  y = turned(Rotary(rotated=4), X, POSITIONS)
  np.testing.assert_array_equal(y[..., 4:], X[..., 4:])
  np.testing.assert_array_equal(
    y[..., :4], turned(Rotary(), X[..., :4], POSITIONS)
  )


def test_rows_have_positions_of_their_own():
  positions = np.array([[0, 1, 2, 3, 4], [7, 8, 9, 10, 11]])
  y = turned(Rotary(), X, positions)
  for row in range(2):
    np.testing.assert_array_equal(
      y[row],
      turned(Rotary(), X[row : row + 1], positions[row : row + 1])[0],
    )


@pytest.mark.parametrize("rotated", [3, 0, 10])
def test_what_cannot_be_turned_is_refused(rotated):
  with pytest.raises(ValueError, match=f"{rotated} of 8 features cannot be"):
    Rotary(rotated=rotated).apply({}, X, POSITIONS)


def test_stretched_turns():
  """By the definition of Llama 3.1, pair by pair."""
  rotary = Rotary(
    theta=100.0, stretch=4.0, trained_length=32, partly_stretched=(1.0, 4.0)
  )
  plain = Rotary(theta=100.0).frequencies(8)
  wavelengths = 2 * np.pi / plain
  assert wavelengths[0] < 32 / 4 < wavelengths[2] < 32 / 1 < wavelengths[7]
  partly = (32 / wavelengths - 1) / (4 - 1)
  between = (1 - partly) * plain / 4 + partly * plain
  expected = np.where(wavelengths > 32, plain / 4, between)
  expected = np.where(wavelengths < 8, plain, expected)
  np.testing.assert_allclose(rotary.frequencies(8), expected, rtol=1e-6)


def test_layers_with_a_window_are_not_stretched():
  """As in Gemma 3."""
  rotary = Rotary(theta=500.0, stretch=3.0, local_theta=20.0)
  for local, plain in ((True, Rotary(theta=20.0)), (False, rotary)):
    y = programs.apply(rotary, {}, X, POSITIONS, np.bool_(local))
    np.testing.assert_allclose(
      y, turned(plain, X, POSITIONS), rtol=1e-6, atol=1e-6
    )


def test_a_stretched_text_turns_as_a_short_one():
  stretched = turned(Rotary(stretch=3.0), X, 3 * POSITIONS)
  np.testing.assert_allclose(
    stretched, turned(Rotary(), X, POSITIONS), rtol=1e-5, atol=1e-5
  )
