"""Norms by group and by layer, of looped and of scanned stacks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import tiny_t5
from transformer_zoo.training.monitoring import norms


@pytest.mark.parametrize(
  "path, group",
  [
    ("token_embedder/embedding", "embedding"),
    ("decoder/position_embedder/pos_embedding", "decoder/embedding"),
    ("encoder/relpos_bias/rel_embedding", "encoder/attention"),
    ("encoder/layers_3/attention/query/kernel", "encoder/attention"),
    (
      "decoder/layers/encoder_decoder_attention/out/kernel",
      "decoder/attention",
    ),
    ("decoder/layers/pre_cross_attention_layer_norm/scale", "decoder/norm"),
    ("encoder/encoder_norm/scale", "encoder/norm"),
    ("encoder/layers_3/mlp/wi_0/kernel", "encoder/mlp"),
    ("decoder/logits_dense/kernel", "decoder/head"),
    ("encoder/layers_0/something/new", "encoder/other"),
  ],
)
def test_a_path_tells_its_group(path, group):
  assert norms.group(path) == group


@pytest.fixture(scope="module")
def looped():
  return tiny_t5.random_parameters(tiny_t5.build(SCAN_LAYERS=False))


def named(tree, **keywords):
  values = norms.norms(tree, **keywords)
  assert values.dtype == jnp.float32
  found = norms.names(tree, **keywords)
  return dict(zip(found, values.tolist(), strict=True))


def test_squares_of_groups_add_up_to_those_of_all(looped):
  groups = named(looped)
  total = np.sqrt(sum(value**2 for value in groups.values()))
  leaves = [leaf.ravel() for leaf in jax.tree.leaves(looped)]
  assert total == pytest.approx(np.linalg.norm(np.concatenate(leaves)))
  kernels = [
    layer["mlp"][name]["kernel"].ravel()
    for key, layer in looped["encoder"].items()
    if key.startswith("layers_")
    for name in ("wi_0", "wi_1", "wo")
  ]
  expected = np.linalg.norm(np.concatenate(kernels))
  assert groups["encoder/mlp"] == pytest.approx(expected)


@pytest.mark.slow
def test_scanned_and_looped_stacks_have_the_same_norms(looped):
  scanned = tiny_t5.stack_layers(looped)
  for by_layer in (False, True):
    one = named(looped, by_layer=by_layer)
    assert named(scanned, by_layer=by_layer) == pytest.approx(one)
  assert {name for name in one if "layers" in name} == {
    *("encoder/layers_0", "encoder/layers_1"),
    *("decoder/layers_0", "decoder/layers_1", "decoder/layers_2"),
  }


def test_names_of_shapes_are_those_of_arrays(looped):
  assert norms.names(jax.eval_shape(lambda: looped)) == norms.names(looped)


def test_bfloat16_is_summed_in_float32():
  tree = {"a": jnp.full(1 << 16, 1 / 256, jnp.bfloat16)}
  assert named(tree) == {"other": pytest.approx(1.0)}
