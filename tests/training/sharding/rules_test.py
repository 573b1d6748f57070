"""Rules resolve for every parameter, moment and activation, by shapes alone."""

import functools
import math

from flax import linen as nn
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec
import pytest

from tests import rule_sets
from tests import tiny_models
from transformer_zoo import axes
from transformer_zoo.errors import UserError
from transformer_zoo.objectives.sequence_to_sequence import SequenceToSequence
from transformer_zoo.training import state as state_lib
from transformer_zoo.training.optimizers import schedules
from transformer_zoo.training.optimizers.adafactor import adafactor
from transformer_zoo.training.sharding import partitioning as partitioning_lib
from transformer_zoo.training.sharding.partitioning import Partitioning
from transformer_zoo.training.state import TrainState

SIZES = {
  "EMBED_DIM": 16,
  "MLP_DIM": 32,
  "NUM_HEADS": 8,
  "HEAD_DIM": 4,
  "VOCAB_SIZE": 64,
}


@functools.cache
def shapes(architecture, **macros):
  """A tiny model's boxed parameters and its state under Adafactor."""
  model, converter = tiny_models.build(architecture, **SIZES, **macros)
  if not macros:
    # Without a scan, rules know no layer from the next.
    model = tiny_models.shallow(model)
  boxed = state_lib.abstract_variables(model)
  optimizer = adafactor(schedules.constant(), min_dim_size_to_factor=8)
  return model, converter, boxed, state_of(boxed, optimizer)


def state_of(boxed, optimizer):
  """The state at step 0, by shapes: the model is not traced again."""

  def initial(params):
    return TrainState(jnp.int32(0), params, optimizer.init(params))

  return jax.eval_shape(initial, nn.unbox(boxed))


def test_every_rule_set_is_on_a_mesh_here():
  files = {file for file, _, _ in rule_sets.ON_8_DEVICES.values()}
  assert files == set(rule_sets.SHIPPED)


# Those whose layers have other axes than all others.
FAST = ("t5_1_1", "prefix_lm", "bart", "gpt_3", "bloom", "llama")


@pytest.mark.parametrize(
  "architecture",
  [
    name if name in FAST else pytest.param(name, marks=pytest.mark.slow)
    for name in tiny_models.ARCHITECTURES
  ],
)
def test_architectures(architecture, monkeypatch):
  model, converter, boxed, state = shapes(architecture)
  constrained = set()

  def remember(x, *logical):
    constrained.add((x.shape, axes.names(*logical)))
    return x

  monkeypatch.setattr(axes, "constrain", remember)
  examples = tiny_models.random_examples(8)
  batch = tiny_models.lay_out(converter, examples, packing=False, width=16)
  loss = functools.partial(SequenceToSequence(), model)
  jax.eval_shape(loss, state.params, batch, jax.random.key(0))
  for name in rule_sets.ON_8_DEVICES:
    partitioning = rule_sets.build(name)
    mesh = partitioning.mesh()
    partitioning.check(mesh, boxed, 8)
    for leaf, sharding in zip(
      jax.tree.leaves(state),
      jax.tree.leaves(partitioning.shardings(mesh, boxed, state)),
      strict=True,
    ):
      sharding.shard_shape(leaf.shape)  # raises where it does not divide
    assert constrained
    for shape, logical in constrained:
      spec = nn.logical_to_mesh_axes(logical, partitioning.rules)
      used = [axis for entry in spec for axis in axes.each(entry)]
      assert len(used) == len(set(used))
      over = [math.prod(mesh.shape[a] for a in axes.each(e)) for e in spec]
      for size, parts in zip(shape, over, strict=True):
        assert size == 1 or size % parts == 0, (name, shape, logical, spec)


@pytest.mark.parametrize("name", list(rule_sets.ON_8_DEVICES))
def test_moments_lie_with_their_parameters(name):
  _, _, boxed, state = shapes("t5_1_1", SCAN_LAYERS=True)
  partitioning = rule_sets.build(name)
  mesh = partitioning.mesh()
  shardings = partitioning.shardings(mesh, boxed, state)

  def specs(tree, *path):
    for key in path:
      tree = tree[key]
    return tree

  moments = shardings.opt_state.moments
  for path in (
    ("decoder", "layers", "mlp", "wi_0", "kernel"),
    ("decoder", "layers", "mlp", "wo", "kernel"),
    ("encoder", "layers", "attention", "out", "kernel"),
    ("token_embedder", "embedding"),
  ):
    spec = specs(shardings.params, *path).spec
    moment = specs(moments, *path)
    assert moment.v_row.spec == PartitionSpec(*spec[:-1])
    assert moment.v_col.spec == PartitionSpec(*spec[:-2], spec[-1])
  wi = specs(shardings.params, "decoder", "layers", "mlp", "wi_0", "kernel")
  assert wi.spec == PartitionSpec(None, "fsdp", "model")
  assert shardings.opt_state.count.is_fully_replicated


def test_a_row_of_moments_lies_like_the_matrix_whatever_the_rules():
  rules = {**dict(partitioning_lib.STANDARD_RULES), "embed": "model"}
  rules = (("mlp", "model"), *rules.items())
  _, _, boxed, state = shapes("t5_1_1", SCAN_LAYERS=True)
  partitioning = Partitioning(num_partitions=8, rules=rules)
  shardings = partitioning.shardings(partitioning.mesh(), boxed, state)
  wi = shardings.opt_state.moments["decoder"]["layers"]["mlp"]["wi_0"]["kernel"]
  # Alone, its `embed` would be over `model`.
  assert wi.v_row.spec == PartitionSpec(None, None)
  assert wi.v_col.spec == PartitionSpec(None, "model")


def test_one_state_of_t5_1_1_base_is_shared_out_in_bytes():
  model, _ = tiny_models.build(
    "t5_1_1",
    EMBED_DIM=768,
    MLP_DIM=2048,
    NUM_HEADS=12,
    HEAD_DIM=64,
    NUM_ENCODER_LAYERS=12,
    NUM_DECODER_LAYERS=12,
    VOCAB_SIZE=32128,
    SCAN_LAYERS=True,
  )
  boxed = state_lib.abstract_variables(model)
  state = state_of(boxed, adafactor(schedules.constant()))

  def share(name):
    partitioning = rule_sets.load(name)
    shardings = partitioning.shardings(partitioning.mesh(), boxed, state)
    on_device = jax.tree.map(
      lambda x, s: math.prod(s.shard_shape(x.shape)) * x.dtype.itemsize,
      state,
      shardings,
    )
    whole = jax.tree.map(lambda x: x.size * x.dtype.itemsize, state)
    return sum(jax.tree.leaves(on_device)) / sum(jax.tree.leaves(whole))

  assert share("data_parallel") == 1
  for name in ("fully_sharded", "two_dimensional", "two_dimensional_sequence"):
    assert 1 / 8 <= share(name) < 1.01 / 8


class TestRefusals:
  def test_heads_that_do_not_divide(self):
    _, _, boxed, _ = shapes("t5_1_1")
    partitioning = Partitioning(num_partitions=8)
    with pytest.raises(UserError) as caught:
      partitioning.check(
        partitioning.mesh(),
        _with_heads(boxed, 6),
        8,
      )
    assert str(caught.value) == (
      "axis 'heads' of decoder/relpos_bias/rel_embedding, of size 6, does not "
      "divide over 8 devices along model; choose a mesh of 8 devices that "
      "divides, as data x fsdp x num_partitions: 8x1x1, 4x2x1, 2x4x1, 1x8x1, "
      "4x1x2, 2x2x2, 1x4x2"
    )

  def test_batch_that_does_not_divide(self):
    _, _, boxed, _ = shapes("t5_1_1")
    partitioning = Partitioning(fsdp=4, num_slices=2)
    with pytest.raises(UserError) as caught:
      partitioning.check(partitioning.mesh(), boxed, 12)
    assert str(caught.value) == (
      "BATCH_SIZE=12 does not divide over 8 devices along data and fsdp; "
      "choose a multiple of 8 or a mesh of 8 devices that divides, as data "
      "x fsdp x num_partitions: 4x1x2, 2x2x2, 2x1x4"
    )

  def test_nothing_divides(self):
    _, _, boxed, _ = shapes("t5_1_1")
    partitioning = Partitioning()
    with pytest.raises(UserError) as caught:
      partitioning.check(partitioning.mesh(), _with_heads(boxed, 6), 3)
    assert str(caught.value) == (
      "BATCH_SIZE=3 does not divide over 8 devices along data and fsdp; choose "
      "a multiple of 8"
    )

  def test_rule_with_an_unknown_mesh_axis(self):
    with pytest.raises(UserError) as caught:
      Partitioning(rules=(("mlp", ("fsdp", "modl")),))
    assert str(caught.value) == (
      "partitioning rule for 'mlp' names mesh axis 'modl'; allowed: 'data', "
      "'fsdp', 'model', several of them or None"
    )

  def test_rule_with_an_unknown_logical_axis(self):
    with pytest.raises(UserError, match="unknown logical axis 'mpl'; allowed:"):
      Partitioning(rules=(("mpl", "model"),))

  def test_axis_without_a_rule(self):
    rules = [
      rule for rule in partitioning_lib.STANDARD_RULES if rule[0] != "kv"
    ]
    with pytest.raises(UserError) as caught:
      Partitioning(rules=tuple(rules))
    assert str(caught.value) == (
      "Partitioning.rules has no rule for kv; give each logical axis one, with "
      "None for what is whole on every device"
    )


def _with_heads(boxed, number):
  """The same parameters where tables have so many heads."""

  def change(box):
    shape = tuple(
      number if axis == "heads" else size
      for size, axis in zip(box.value.shape, box.names, strict=True)
    )
    return box.replace_boxed(jax.ShapeDtypeStruct(shape, box.value.dtype))

  return jax.tree.map(
    change, boxed, is_leaf=lambda x: isinstance(x, nn.meta.AxisMetadata)
  )
