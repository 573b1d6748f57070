"""Parameter trees and counts, by shape evaluation alone."""

import math

import jax
import pytest

from tests.golden import update_parameter_trees

# Raffel et al. 2020 and `released_checkpoints.md` of the T5 repository, with
# 32,128 rows of embeddings.
COUNTS = {
  "t5_1_0_small": 60_506_624,
  "t5_1_0_base": 222_903_552,
  "t5_1_0_large": 737_668_096,
  "t5_1_0_3b": 2_851_598_336,
  "t5_1_0_11b": 11_307_321_344,
  "t5_1_1_small": 76_961_152,
  "t5_1_1_base": 247_577_856,
  "t5_1_1_large": 783_150_080,
  "t5_1_1_xl": 2_849_757_184,
  "t5_1_1_xxl": 11_135_332_352,
}


@pytest.mark.parametrize("size", COUNTS)
@pytest.mark.parametrize("scan", [False, True])
def test_published_sizes_have_exactly_their_parameters(size, scan):
  params = update_parameter_trees.shapes(size, scan=scan)
  leaves = jax.tree.leaves(params)
  assert sum(math.prod(leaf.shape) for leaf in leaves) == COUNTS[size]
  assert {str(leaf.dtype) for leaf in leaves} == {"float32"}


@pytest.mark.parametrize(("architecture", "scan"), update_parameter_trees.TREES)
def test_parameter_tree_is_the_recorded_one(architecture, scan):
  recorded = update_parameter_trees.path(architecture, scan)
  found = update_parameter_trees.text(architecture, scan)
  assert found.splitlines() == recorded.read_text("utf-8").splitlines(), (
    "update with: python -m tests.golden.update_parameter_trees"
  )
