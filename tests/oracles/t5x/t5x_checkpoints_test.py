"""Our T5X checkpoints beside T5X's own reader, writer and Adafactor."""

import functools

import flax
from flax import traverse_util
import jax
import numpy as np
import pytest

from tests import tiny_t5
from tests.oracles.t5x import t5x_package

t5x_package.require()

from t5x import adafactor as t5x_adafactor  # noqa: E402
from t5x import checkpoints  # noqa: E402
from t5x import partitioning  # noqa: E402
from t5x import train_state  # noqa: E402
from t5x.examples.scalable_t5 import network as scalable  # noqa: E402
from t5x.examples.t5 import network  # noqa: E402

from transformer_zoo.interop.t5x import checkpoints as t5x_checkpoints  # noqa: E402
from transformer_zoo.training.optimizers import schedules  # noqa: E402
from transformer_zoo.training.optimizers.adafactor import adafactor  # noqa: E402

# Large enough for Adafactor to factor some of the parameters.
MACROS = {
  "EMBED_DIM": 128,
  "MLP_DIM": 160,
  "NUM_HEADS": 8,
  "HEAD_DIM": 16,
  "VOCAB_SIZE": 136,
  "NUM_ENCODER_LAYERS": 1,
  "NUM_DECODER_LAYERS": 2,
}
NETWORKS = {"t5": network, "scalable_t5": scalable}


@pytest.fixture(autouse=True)
def promotion_of_ranks():
  """T5X relies on it; our own tests forbid it."""
  with jax.numpy_rank_promotion("allow"):
    yield


def flat(tree):
  return traverse_util.flatten_dict(flax.core.unfreeze(tree), sep="/")


def numbers_like(tree, seed):
  random = np.random.RandomState(seed)
  return jax.tree.map(
    lambda leaf: random.standard_normal(leaf.shape).astype(np.float32), tree
  )


@functools.cache
def trained(name):
  """T5X's train state after two steps of a network."""
  options = {} if name == "t5" else {"param_scan_axis": 1}
  net = NETWORKS[name].Transformer(
    NETWORKS[name].T5Config(
      vocab_size=MACROS["VOCAB_SIZE"],
      emb_dim=MACROS["EMBED_DIM"],
      num_heads=MACROS["NUM_HEADS"],
      num_encoder_layers=MACROS["NUM_ENCODER_LAYERS"],
      num_decoder_layers=MACROS["NUM_DECODER_LAYERS"],
      head_dim=MACROS["HEAD_DIM"],
      mlp_dim=MACROS["MLP_DIM"],
      mlp_activations=("gelu", "linear"),
      **options,
    )
  )
  tokens = np.ones((1, 3), np.int32)
  variables = jax.eval_shape(
    functools.partial(net.init, enable_dropout=False),
    jax.random.key(0),
    *(tokens, tokens, tokens),
  )
  variables = {**variables, "params": numbers_like(variables["params"], 0)}
  state = train_state.FlaxOptimTrainState.create(
    t5x_adafactor.Adafactor(
      decay_rate=0.8,
      step_offset=0,
      logical_factor_rules=t5x_adafactor.standard_logical_factor_rules(),
    ),
    flax.core.freeze(variables),
  )
  for seed in (1, 2):
    state = state.apply_gradient(gradients_of(state, seed), learning_rate=0.01)
  return state


def gradients_of(state, seed):
  return numbers_like(flax.core.unfreeze(state.params), seed)


def checkpointer(state, folder):
  partitioner = partitioning.PjitPartitioner(
    num_partitions=1,
    logical_axis_rules=partitioning.standard_logical_axis_rules(),
  )
  return checkpoints.Checkpointer(state, partitioner, str(folder))


def assert_equal(ours, theirs):
  assert ours.keys() == theirs.keys()
  for name, value in theirs.items():
    np.testing.assert_array_equal(ours[name], value, err_msg=name)


@pytest.mark.parametrize("name", NETWORKS)
def test_what_t5x_writes_is_read_and_what_we_write_is_restored(tmp_path, name):
  """Parameters and Adafactor state there and back, number by number."""
  state = trained(name)
  checkpointer(state, tmp_path / "theirs").save(state)
  found = t5x_checkpoints.open_checkpoint(tmp_path / "theirs")
  tree = flat(state.state_dict())
  assert_equal({n: t.read() for n, t in found.tensors.items()}, tree)
  written = t5x_checkpoints.write_checkpoint(
    tmp_path / "ours",
    found.parameters(),
    step=found.step,
    moments=found.moments(),
    scanned=name == "scalable_t5",
  )
  restored = checkpointer(state, tmp_path / "ours").restore(step=2)
  assert_equal(flat(restored.state_dict()), tree)
  loaded = checkpoints.load_t5x_checkpoint(str(written))
  assert_equal(flat(loaded), tree)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_next_update_is_t5xs(tmp_path, name):
  state = trained(name)
  checkpointer(state, tmp_path).save(state)
  gradients = gradients_of(state, 3)
  after = state.apply_gradient(gradients, learning_rate=0.01)
  checkpointer(after, tmp_path).save(after)
  before, after = (
    t5x_checkpoints.open_checkpoint(tmp_path / f"checkpoint_{step}")
    for step in (2, 3)
  )
  # The gradients take the parameters' way to our names and shapes.
  checkpointer(state, tmp_path / "gradients").save(
    state.replace_params(flax.core.freeze(gradients))
  )
  carrier = t5x_checkpoints.open_checkpoint(tmp_path / "gradients")
  params, wanted, gradients = (
    {n: t.read() for n, t in checkpoint.parameters().items()}
    for checkpoint in (before, after, carrier)
  )
  # T5X factors scanned layers whatever their size.
  optimizer = adafactor(schedules.constant(0.01), min_dim_size_to_factor=33)
  opt_state = optimizer.init(params)
  moments = {n: t.read() for n, t in before.moments().items()}
  opt_state = opt_state._replace(
    count=opt_state.count + before.step,
    moments={
      n: type(moment)(*(moments[f"{n}/{m}"] for m in moment._fields))
      for n, moment in opt_state.moments.items()
    },
  )
  updates, opt_state = optimizer.update(gradients, opt_state, params)
  for parameter, update in updates.items():
    difference = wanted[parameter] - params[parameter]
    assert tiny_t5.largest_difference(update, difference) < 1e-3, parameter
  for n, tensor in after.moments().items():
    parameter, _, moment = n.rpartition("/")
    np.testing.assert_allclose(
      getattr(opt_state.moments[parameter], moment),
      tensor.read(),
      rtol=2e-5,
      err_msg=n,
    )
