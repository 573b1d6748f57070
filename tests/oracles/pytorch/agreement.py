"""One of our functions beside one of PyTorch's: values and gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import torch


def random(*shape: int, seed: int = 0) -> np.ndarray:
  """Float32 unit normals."""
  return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


def assert_agree(ours, theirs, *arrays, tolerance: float = 1e-5):
  """Compares two functions of arrays, and their gradients of all arrays.

  Differences are relative to the largest number of an output.
  """
  expected, their_gradients = _with_gradients(theirs, arrays)
  found, pull_back = jax.vjp(jax.jit(ours), *arrays)
  gradients = pull_back(jnp.asarray(random(*expected.shape, seed=9)))
  for one, other in zip(
    (found, *gradients), (expected, *their_gradients), strict=True
  ):
    scale = np.abs(other).max()
    np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * scale)


def _with_gradients(function, arrays):
  tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
  value = function(*tensors)
  value.backward(torch.tensor(random(*value.shape, seed=9)))
  return value.detach().numpy(), [tensor.grad.numpy() for tensor in tensors]
