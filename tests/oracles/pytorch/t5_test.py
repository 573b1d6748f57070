"""Our T5 against the PyTorch one of `transformers`, live: make test-oracles."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from transformers.models.t5.modeling_t5 import T5Attention
from transformers.optimization import Adafactor

from tests import tiny_t5
from tests.oracles.pytorch import huggingface
from transformer_zoo.decoding.generate import generate
from transformer_zoo.modules.positions.relative_bias import (
  relative_position_bucket,
)
from transformer_zoo.training.optimizers import schedules
from transformer_zoo.training.optimizers.adafactor import adafactor

LOGITS_TOLERANCE = 2e-5
GRADIENT_TOLERANCE = 1e-4

both_architectures = pytest.mark.parametrize(
  "architecture", tiny_t5.ARCHITECTURES
)


def both(architecture, **macros):
  ours = tiny_t5.build(architecture, **macros)
  params = tiny_t5.random_parameters(ours)
  return ours, params, huggingface.build(architecture, params, **macros)


@both_architectures
def test_counterparts_have_as_many_parameters(architecture):
  _, params, theirs = both(architecture)
  ours = sum(leaf.size for leaf in jax.tree.leaves(params))
  assert ours == sum(p.numel() for p in theirs.parameters())


@both_architectures
@pytest.mark.parametrize(
  ("inputs", "targets", "macros"),
  [
    (12, 7, {}),
    (1, 1, {}),
    # Beyond the relative bias's largest distance, on either side.
    (300, 9, {"NUM_ENCODER_LAYERS": 3, "NUM_DECODER_LAYERS": 1}),
    (5, 200, {"NUM_ENCODER_LAYERS": 1, "NUM_DECODER_LAYERS": 2}),
  ],
)
def test_logits_and_loss(architecture, inputs, targets, macros, report):
  ours, params, theirs = both(architecture, **macros)
  batch = tiny_t5.random_batch(rows=4, inputs=inputs, targets=targets)
  with torch.no_grad():
    expected = huggingface.forward(theirs, batch)
  logits = tiny_t5.logits(ours, params, batch)
  real = batch["decoder_target_tokens"] > 0
  difference = tiny_t5.largest_difference(
    logits[real], expected.logits.numpy()[real]
  )
  report("logits", difference)
  assert difference < LOGITS_TOLERANCE
  if macros or inputs == 1:  # The loss is a function of logits of any length.
    return

  objective = functools.partial(tiny_t5.loss_and_sums, ours)
  sums = jax.jit(objective)(params, batch)[1]
  loss = sums["loss_sum"] / sums["weight_sum"]
  report("loss", abs(float(loss) / expected.loss.item() - 1))
  np.testing.assert_allclose(loss, expected.loss.item(), rtol=1e-5)


@both_architectures
def test_gradient_of_every_parameter(architecture, report):
  ours, params, theirs = both(architecture)
  batch = tiny_t5.random_batch(rows=4, inputs=20, targets=15)
  huggingface.forward(theirs, batch).loss.backward()
  objective = functools.partial(tiny_t5.loss_and_sums, ours, z_loss=0.0)
  gradient, _ = jax.jit(jax.grad(objective, has_aux=True))(params, batch)
  expected = {name: p.grad.numpy() for name, p in theirs.named_parameters()}
  found = huggingface.to_state_dict(theirs, gradient)
  assert set(found) == set(expected)
  differences = {
    name: tiny_t5.largest_difference(found[name], expected[name])
    for name in expected
  }
  worst = max(differences, key=differences.get)
  report(f"gradient ({worst})", differences[worst])
  assert differences[worst] < GRADIENT_TOLERANCE, worst


@pytest.mark.parametrize(
  ("architecture", "scan"),
  [("t5_1_0", True), ("t5_1_1", False), ("t5_1_1", True)],
)
def test_greedy_decoding_token_by_token(architecture, scan):
  # As many layers on both sides: the cache of `transformers` 5.23 counts the
  # encoder's.
  sizes = {"VOCAB_SIZE": 24, "NUM_ENCODER_LAYERS": 2, "NUM_DECODER_LAYERS": 2}
  _, params, theirs = both(architecture, **sizes)
  inputs = tiny_t5.random_batch(rows=32, vocab_size=24)["encoder_input_tokens"]
  expected = huggingface.generate(theirs, inputs, max_length=40)
  model = tiny_t5.build(architecture, SCAN_LAYERS=scan, **sizes)
  if scan:
    params = tiny_t5.stack_layers(params)
  made = jax.jit(functools.partial(generate, model), static_argnums=2)(
    params, inputs, 40
  ).tokens[:, 0]
  np.testing.assert_array_equal(made, expected)
  if architecture == "t5_1_1":
    # The comparison saw rows that end and rows that do not.
    assert 0 < (expected == 1).any(-1).sum() < 32


@pytest.mark.parametrize(
  ("bidirectional", "num_buckets", "max_distance"),
  [
    (bidirectional, num_buckets, max_distance)
    for bidirectional in (True, False)
    for num_buckets in (8, 16, 32, 64, 128)
    for max_distance in (20, 64, 100, 128, 256, 1000)
    # Some buckets are left for distances beyond the exact ones.
    if num_buckets // (4 if bidirectional else 2) < max_distance
  ],
)
def test_relative_position_buckets(bidirectional, num_buckets, max_distance):
  distances = np.arange(-5000, 5001)
  settings = {
    "bidirectional": bidirectional,
    "num_buckets": num_buckets,
    "max_distance": max_distance,
  }
  np.testing.assert_array_equal(
    relative_position_bucket(jnp.asarray(distances), **settings),
    T5Attention._relative_position_bucket(
      torch.tensor(distances), **settings
    ).numpy(),
  )


@pytest.mark.parametrize("scale_by_parameter", [True, False])
def test_adafactor_over_steps(scale_by_parameter, report):
  """Theirs, with T5's constants, differs only in which matrices it factors.

  It factors every matrix, T5 only those of 128 and more on both sides; here
  every matrix is large enough.
  """
  random = np.random.RandomState(0)
  shapes = {"matrix": (128, 160), "wide": (130, 600), "vector": (40,)}
  scales = {"matrix": 1.0, "wide": 0.05, "vector": 1e-5}
  params = {
    name: (scales[name] * random.standard_normal(shape)).astype(np.float32)
    for name, shape in shapes.items()
  }
  theirs = {n: torch.nn.Parameter(torch.tensor(p)) for n, p in params.items()}
  reference = Adafactor(
    theirs.values(),
    lr=1e-2,
    eps=(1e-30, 1e-3),
    clip_threshold=1.0,
    decay_rate=-0.8,
    beta1=None,
    weight_decay=0.0,
    scale_parameter=scale_by_parameter,
    relative_step=False,
    warmup_init=False,
  )
  optimizer = adafactor(
    schedules.constant(1e-2), scale_by_parameter=scale_by_parameter
  )
  state = optimizer.init(params)
  update = jax.jit(optimizer.update)
  for step in range(20):
    gradient = {
      name: (10.0 ** random.uniform(-4, 2) * random.standard_normal(shape))
      .astype(np.float32)
      for name, shape in shapes.items()
    }  # fmt: skip
    updates, state = update(gradient, state, params)
    params = jax.tree.map(lambda p, u: np.asarray(p + u), params, updates)
    for name, parameter in theirs.items():
      parameter.grad = torch.tensor(gradient[name])
    reference.step()
    for name, parameter in theirs.items():
      difference = tiny_t5.largest_difference(
        params[name], parameter.detach().numpy()
      )
      assert difference < 1e-5, (step, name)
  report("Adafactor after 20 steps", difference)


@both_architectures
def test_training_steps_with_adafactor(architecture, report):
  """Model, loss, gradient and optimizer together, three steps."""
  ours, params, theirs = both(architecture)
  batch = tiny_t5.random_batch(rows=4, inputs=20, targets=15)
  reference = Adafactor(
    theirs.parameters(),
    lr=1e-2,
    eps=(1e-30, 1e-3),
    scale_parameter=True,
    relative_step=False,
    warmup_init=False,
  )
  optimizer = adafactor(schedules.constant(1e-2), min_dim_size_to_factor=1)
  objective = functools.partial(tiny_t5.loss_and_sums, ours, z_loss=0.0)

  @jax.jit
  def step(params, state):
    (loss, _), gradient = jax.value_and_grad(objective, has_aux=True)(
      params, batch
    )
    updates, state = optimizer.update(gradient, state, params)
    return jax.tree.map(jnp.add, params, updates), state, loss

  state = optimizer.init(params)
  for _ in range(3):
    params, state, loss = step(params, state)
    reference.zero_grad()
    expected = huggingface.forward(theirs, batch).loss
    expected.backward()
    reference.step()
    np.testing.assert_allclose(loss, expected.item(), rtol=1e-5)
  found = huggingface.to_state_dict(theirs, params)
  worst = max(
    tiny_t5.largest_difference(found[name], p.detach().numpy())
    for name, p in theirs.named_parameters()
  )
  report("parameters after 3 training steps", worst)
  assert worst < 1e-4
