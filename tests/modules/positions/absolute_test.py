"""Sinusoidal and learned positions."""

import jax
import numpy as np
import pytest

from tests import programs
from transformer_zoo.modules.positions.absolute import LearnedPositions
from transformer_zoo.modules.positions.absolute import SinusoidalPositions
from transformer_zoo.modules.positions.absolute import sinusoids

POSITIONS = np.array([[0, 1, 2, 500]])


def run_sinusoids(*arguments, **options):
  return np.asarray(programs.run(sinusoids, *arguments, **options))


def test_sinusoids_are_those_of_the_paper():
  y = np.asarray(programs.apply(SinusoidalPositions(6), {}, POSITIONS))
  assert y.shape == (1, 4, 6) and y.dtype == np.float32
  for row, position in enumerate([0, 1, 2, 500]):
    for wave in range(3):
      angle = position / 10000 ** (2 * wave / 6)
      np.testing.assert_allclose(y[0, row, 2 * wave], np.sin(angle), atol=1e-4)
      np.testing.assert_allclose(
        y[0, row, 2 * wave + 1], np.cos(angle), atol=1e-4
      )


def test_all_sines_before_all_cosines():
  paper = run_sinusoids(POSITIONS, 6)
  apart = run_sinusoids(POSITIONS, 6, interleaved=False)
  np.testing.assert_array_equal(apart[..., :3], paper[..., 0::2])
  np.testing.assert_array_equal(apart[..., 3:], paper[..., 1::2])


def test_the_longest_wave_can_be_the_base():
  y = run_sinusoids(np.array([2500]), 8, interleaved=False, reach_longest=True)
  np.testing.assert_allclose(y[0, 3], np.sin(0.25), rtol=1e-5)
  y = run_sinusoids(np.array([7]), 2, reach_longest=True)
  np.testing.assert_allclose(y[0], [np.sin(7), np.cos(7)], rtol=1e-5)


def test_an_odd_number_of_features_is_refused():
  with pytest.raises(ValueError, match="features is 5; sines and cosines come"):
    SinusoidalPositions(5)


def test_learned_positions_are_rows_of_a_table():
  module = LearnedPositions(num_positions=9, features=4)
  variables = programs.init(module, jax.random.key(0), np.arange(3)[None])
  table = variables["params"]["pos_embedding"]
  assert table.names == ("abspos_buckets", "embed")
  y = programs.apply(module, variables, np.array([[3, 0], [8, 3]]))
  np.testing.assert_array_equal(y, np.asarray(table.unbox())[[[3, 0], [8, 3]]])


def test_a_sequence_beyond_the_table_is_refused():
  module = LearnedPositions(num_positions=3, features=4)
  with pytest.raises(
    ValueError, match="4 tokens has no learned position beyond .*=3; shorten"
  ):
    module.init(jax.random.key(0), np.arange(4)[None])


def test_rows_of_several_examples_may_be_longer_than_the_table():
  positions = np.array([[0, 1, 2, 0, 1, 0]])
  module = LearnedPositions(num_positions=3, features=4, longest_example=3)
  variables = programs.init(module, jax.random.key(0), positions)
  table = np.asarray(variables["params"]["pos_embedding"].unbox())
  np.testing.assert_array_equal(
    programs.apply(module, variables, positions), table[positions]
  )
  longer = module.clone(longest_example=4)
  with pytest.raises(ValueError, match="4 tokens has no learned position"):
    longer.init(jax.random.key(0), positions)
