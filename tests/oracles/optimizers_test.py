"""Adam, AdamW and SGD take the steps of PyTorch's."""

import functools

import jax
import numpy as np
import pytest
import torch

from transformer_zoo.training.optimizers import schedules
from transformer_zoo.training.optimizers.adam import adam
from transformer_zoo.training.optimizers.adam import adamw
from transformer_zoo.training.optimizers.adam import radam
from transformer_zoo.training.optimizers.sgd import sgd

RATE = 0.02
PAIRS = {
  "adam": (adam, torch.optim.Adam),
  "adamw": (
    functools.partial(adamw, weight_decay=0.1),
    functools.partial(torch.optim.AdamW, weight_decay=0.1),
  ),
  # With 0.999 the length of its average is rounded: 1 - 0.999^6 in float32.
  "radam": (
    functools.partial(radam, b2=0.9),
    functools.partial(torch.optim.RAdam, betas=(0.9, 0.9)),
  ),
  "sgd": (sgd, functools.partial(torch.optim.SGD, momentum=0.9)),
  "nesterov": (
    functools.partial(sgd, nesterov=True),
    functools.partial(torch.optim.SGD, momentum=0.9, nesterov=True),
  ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_equals_pytorch(name):
  ours, theirs = PAIRS[name]
  random = np.random.default_rng(0)
  start = random.standard_normal((5, 3), dtype=np.float32)
  optimizer = ours(schedules.constant(RATE))
  params = {"kernel": start}
  state, update = optimizer.init(params), jax.jit(optimizer.update)
  parameter = torch.nn.Parameter(torch.from_numpy(start.copy()))
  reference = theirs([parameter], lr=RATE)
  for step in range(12):  # RAdam adapts from the sixth on.
    gradient = random.standard_normal((5, 3), dtype=np.float32)
    gradient *= 10.0 ** -(step % 5)
    updates, state = update({"kernel": gradient}, state, params)
    params = jax.tree.map(np.add, params, updates)
    parameter.grad = torch.from_numpy(gradient)
    reference.step()
    np.testing.assert_allclose(
      params["kernel"], parameter.detach().numpy(), rtol=1e-5, atol=1e-6
    )
