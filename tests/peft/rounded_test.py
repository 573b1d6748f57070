"""A base in fewer bits, against the base and against what it stands for."""

import contextlib
import functools

from flax import linen as nn
from flax import traverse_util
import gin
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import programs
from tests import rule_sets
from tests.peft import methods_test as methods
from tests.peft import together_test as together
from tests.peft.parts_test import normal
from transformer_zoo.errors import UserError
from transformer_zoo.modules.linear import Linear
from transformer_zoo.parameter_names import Parameter
from transformer_zoo.peft import lora
from transformer_zoo.peft import merging
from transformer_zoo.peft import rounded
from transformer_zoo.peft import substitution
from transformer_zoo.peft import trainable
from transformer_zoo.tensors import assignment
from transformer_zoo.tensors import rounding
from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.training import state as state_lib
from transformer_zoo.training.sharding import partitioning as partitioning_lib
from transformer_zoo.training.sharding import placement

# Two scales a column in 4 bits, as each has 64 rows.
ROWS, COLUMNS = 128, 5
# The bits -> the largest stored number and the rows that share a scale.
WHOLE_NUMBERS = {8: (127, ROWS), 4: (7, 64)}


@pytest.fixture(autouse=True)
def clean():
  yield
  gin.clear_config()


def kernel():
  w = normal(0, ROWS, COLUMNS)
  w[:, 2] = 0.0
  w[7, 3] = 50.0  # Far outside of the others.
  return w


@pytest.mark.parametrize("bits", WHOLE_NUMBERS)
def test_no_entry_moves_by_more_than_half_a_step(bits):
  largest, rows = WHOLE_NUMBERS[bits]
  w = np.stack([kernel(), normal(1, ROWS, COLUMNS)])
  numbers, scales = rounding.rounded(w, rounding.DTYPES[bits])
  steps = np.abs(w.reshape(2, -1, rows, COLUMNS)).max(-2) / largest
  np.testing.assert_allclose(scales, steps, rtol=1e-6)
  moved = np.abs(rounding.restored(numbers, scales) - w)
  halves = np.repeat(steps, rows, axis=-2) / 2
  assert np.all(moved <= halves * (1 + 1e-5))
  assert np.max(moved / np.maximum(halves, 1e-9)) > 0.9  # And by nearly that.
  assert np.all(moved[0, :, 2] == 0)


@pytest.mark.parametrize("rows", [12, 100])
def test_columns_that_64_does_not_divide_have_one_scale(rows):
  numbers, scales = rounding.rounded(normal(0, rows, 3), rounding.DTYPES[4])
  assert (numbers.shape, scales.shape) == ((rows // 2, 3), (1, 3))


def of_base(kernel, bits):
  """What a part of a base in fewer bits reads, and what it stands for."""
  dtype = rounding.DTYPES[bits]
  if bits == 16:
    return {"kernel": kernel.astype(dtype)}, kernel.astype(dtype)
  numbers, scales = rounding.rounded(kernel, dtype)
  stored = {"kernel": numbers, "kernel_scale": scales}
  return stored, rounding.restored(numbers, scales)


@pytest.mark.parametrize("method", [lora.lora, lora.dora])
@pytest.mark.parametrize("bits", [16, 8, 4])
def test_a_method_over_a_base_in_fewer_bits(bits, method):
  """Outputs and gradients are those over the kernel that it stands for."""
  rule = method(".*", rank=2, alpha=3.0)
  base = Linear(use_bias=True)
  models = [
    substitution.substitute(base, [rule], by)
    for by in (None, rounded.rounded(".*", bits))
  ]
  stored, stands_for = of_base(kernel(), bits)
  added = {"bias": normal(2, COLUMNS), "lora_a": normal(3, ROWS, 2)}
  added["lora_b"] = normal(4, 2, COLUMNS)
  if method is lora.dora:
    added["dora_scale"] = 1 + 0.1 * normal(5, COLUMNS)
  x = normal(1, 3, ROWS)
  kernels = {"kernel": stands_for.astype(np.float32)}, stored
  found = [
    programs.run(_gradients, model, added, own, x)
    for model, own in zip(models, kernels, strict=True)
  ]
  jax.tree.map(
    functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-4), *found
  )
  merged, leaves = merging.merge_leaves(models[1], {**stored, **added})
  assert merged == base
  leaves = {name.removeprefix("/"): leaf for name, leaf in leaves.items()}
  np.testing.assert_allclose(
    x @ leaves["kernel"] + leaves["bias"], found[0][0], rtol=1e-4, atol=1e-4
  )


def _gradients(model, added, own, x):
  def loss(added, x):
    y = model.apply({"params": {**own, **added}}, x, COLUMNS)
    return jnp.sum(jnp.sin(y)), y

  gradients, y = jax.grad(loss, (0, 1), has_aux=True)(added, x)
  return y, gradients


@pytest.mark.parametrize("bits", WHOLE_NUMBERS)
def test_outputs_differ_by_what_rounding_may_add(bits):
  base, x, w = Linear(), normal(1, 3, ROWS), kernel()
  model = substitution.substitute(base, base=rounded.rounded(".*", bits))
  stored, _ = of_base(w, bits)
  y = model.apply({"params": stored}, x, COLUMNS)
  largest, rows = WHOLE_NUMBERS[bits]
  steps = np.abs(w.reshape(-1, rows, COLUMNS)).max(1) / largest
  most = np.abs(x) @ np.repeat(steps, rows, axis=0) / 2
  difference = np.abs(y - x @ w)
  assert np.all(difference <= most + 1e-4)
  assert np.any(difference > 1e-3)


def test_the_backward_pass_keeps_the_stored_kernel_alone():
  """Not a copy of it in the dtype of the activations."""
  model = substitution.substitute(Linear(), base=rounded.rounded(".*", 8))
  stored, _ = of_base(kernel(), 8)
  x = jnp.ones((3, ROWS), jnp.bfloat16)
  _, backward = jax.vjp(
    lambda x: model.apply({"params": stored}, x, COLUMNS), x
  )
  kept = [leaf for leaf in jax.tree.leaves(backward) if leaf.ndim == 2]
  assert {str(leaf.dtype) for leaf in kept} <= {"int8", "float32"}
  assert sum(leaf.size for leaf in kept) == (ROWS + 1) * COLUMNS


def built(kind="t5_1_1", **macros):
  """A model with LoRA, and what it trains."""
  return methods.build("lora", kind, LORA_RANK=2, **macros)


@pytest.mark.parametrize("kind", ["gpt_2", "bert"])
def test_kernels_of_the_layers_are_kept_in_whole_numbers(kind):
  model, trained = built(kind, BASE_BITS=8)
  shapes = methods.flat_shapes(model)
  before = methods.flat_shapes(substitution.original(model))
  of_layers = {n for n in before if "layers" in n and n.endswith("/kernel")}
  assert of_layers == {n for n in shapes if shapes[n].dtype == jnp.int8}
  assert {n.removesuffix("_scale") for n in shapes if n.endswith("_scale")} == (
    of_layers
  )
  trained.check(traverse_util.unflatten_dict(shapes, sep="/"))
  assert rounded.unrounded(model) == built(kind)[0]
  assert substitution.original(model) == substitution.original(built(kind)[0])


def test_the_bytes_of_a_state():
  def bytes_of(bits):
    shapes = methods.flat_shapes(built("bert", BASE_BITS=bits)[0])
    return sum(
      shapes[name].size * shapes[name].dtype.itemsize
      for name in shapes
      if "layers" in name and "/kernel" in name
    )

  sizes = methods.flat_shapes(built("bert")[0])
  kernels = [s for n, s in sizes.items() if "layers" in n and "/kernel" in n]
  numbers = sum(shape.size for shape in kernels)
  scales = 4 * sum(shape.shape[-1] for shape in kernels)
  assert bytes_of(32) == 4 * numbers
  assert bytes_of(16) == 2 * numbers
  assert bytes_of(8) == numbers + scales
  assert bytes_of(4) == numbers // 2 + scales


def read(model, boxed, params, shardings=None):
  """Parameters of a model of those of its base, as a checkpoint is read."""
  base = methods.flat(params)
  wanted = placement.parameters_of(boxed)
  fresh = [n for n in wanted if "lora_" in n]
  rules = assignment.Rules(tuple((name, None) for name in fresh))
  there = {n: Tensor.of(x) for n, x in base.items() if n in wanted}
  found = assignment.assign(wanted, there, rules, "the base").tensors
  added = {n: Tensor.of(base[n]) for n in fresh}
  shapes = jax.tree.map(lambda x: x, nn.unbox(boxed))
  if shardings is None:
    here = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    shardings = jax.tree.map(lambda _: here, shapes)
  return placement.place(
    {**found, **added}, partitioning_lib.abstract(shapes, shardings)
  )


@pytest.mark.slow
@pytest.mark.parametrize("bits", WHOLE_NUMBERS)
def test_scanned_looped_and_over_8_devices_are_one_model(bits):
  """Logits and gradients of the adapters, of one checkpoint of the base."""
  sizes = {"EMBED_DIM": 128, "MLP_DIM": 64, "NUM_HEADS": 8, "HEAD_DIM": 8}
  build = functools.partial(built, "gpt_2", **sizes)
  # Larger numbers would carry every difference on.
  params = jax.tree.map(lambda x: 0.5 * x, together.moved(build()[0]))
  partitioning = rule_sets.build("two_dimensional")
  mesh, found = partitioning.mesh(), []
  for scan, is_shared_out in ((False, False), (True, False), (True, True)):
    model, trained = build(BASE_BITS=bits, SCAN_LAYERS=scan)
    boxed = state_lib.abstract_variables(model)
    where, context = None, contextlib.nullcontext()
    if is_shared_out:
      where = partitioning.shardings(mesh, boxed, nn.unbox(boxed))
      context = partitioning.activate(mesh)
    own = read(model, boxed, params, where)
    batch = {
      name: np.tile(ids, (2, 1))
      for name, ids in together.batch_of(model).items()
    }
    with context:
      found.append(_adapters(model, trained, own, batch))
  for other in found[1:]:
    assert together.largest(found[0], other) < 1e-4
  whole = together.outputs(build()[0], params, batch)
  size = max(np.abs(logits).max() for logits in jax.tree.leaves(whole))
  difference = together.largest(found[0][0], whole) / size
  assert {8: 1e-3, 4: 2e-2}[bits] < difference < {8: 2e-2, 4: 0.3}[bits]


def _adapters(model, trained, params, batch):
  """Logits and the gradients of the adapters, layer by layer."""

  def loss(some):
    logits = model.apply(
      {"params": trained.replace(params, some)}, batch, method="all_logits"
    )
    return jnp.mean(jnp.sin(logits["tokens"])), logits

  gradients, logits = jax.jit(jax.grad(loss, has_aux=True))(
    trained.select(params)
  )
  gradients = methods.flat(jax.device_get(gradients))
  assert gradients and all("/lora_" in name for name in gradients)
  layers = {}
  for name, gradient in gradients.items():
    if "/layers/" in name:
      for i, each in enumerate(gradient):
        layers[name.replace("/layers/", f"/layers_{i}/")] = each
    else:
      layers[name] = gradient
  return jax.device_get(logits), layers


def sentence(make, *arguments, **keywords):
  with pytest.raises(UserError) as error:
    make(*arguments, **keywords)
  return str(error.value)


def test_refusals():
  assert sentence(rounded.rounded, ".*", 3) == (
    "rounded.bits is 3; a base is kept in 32, 16, 8 or 4 bits"
  )
  shapes = state_lib.abstract_params(built("gpt_2", BASE_BITS=4)[0])
  assert sentence(trainable.ALL.check, shapes).startswith(
    "Trainable.parameters trains decoder/layers_0/mlp/wi/kernel, which is "
    "kept in uint8 and only read; train a method over it"
  )
  model, _ = built()
  assert sentence(
    substitution.substitute, model, [rounded.rounded(".*/query")]
  ).startswith("rounded: 'decoder/layers/self_attention/query' is")
  wanted = {
    "a/kernel": Parameter((4, 2), (None, None), rounding.DTYPES[8]),
    "a/kernel_scale": Parameter((1, 2), (None, None)),
  }
  rules = assignment.Rules((("a/.*", None),))
  assert sentence(assignment.assign, wanted, {}, rules, "it") == (
    "a/kernel is kept in 8 bits and never trained, so that it has to be read "
    "from INITIAL_CHECKPOINT_PATH, and it is not; choose ROUNDED_PROJECTIONS "
    "without it, or BASE_BITS = 32"
  )
