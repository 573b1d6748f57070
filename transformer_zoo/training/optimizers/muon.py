"""Muon: orthogonalized momentum of hidden matrices (Jordan et al. 2024).

optax computes the iterations; which parameters are matrices of a layer, and
that a scanned stack holds many of them, is known here.
"""

import gin
import jax
import jax.numpy as jnp
import optax
from optax import contrib

from transformer_zoo.training.optimizers import shared
from transformer_zoo.training.optimizers.schedules import Schedule

# Of the quintic iteration, which is steepest at 0 (Jordan et al. 2024).
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
# Kernels that lead to classes or to the vocabulary.
_OF_HEADS = {"logits_dense", "heads"}


@gin.register
@shared.checked
def muon(
  learning_rate: Schedule,
  *,
  momentum: float = 0.95,
  num_iterations: int = 5,
  rms: float = 0.2,
  b1: float = 0.9,
  b2: float = 0.999,
  epsilon: float = 1e-8,
  weight_decay: float = 0.1,
  clip_norm: float | None = None,
  state_dtype: str = "float32",
) -> optax.GradientTransformation:
  """Builds Muon for kernels, and AdamW for all other parameters.

  The step of a kernel is its momentum, by Nesterov's rule, with singular values
  near 1 and the root mean square that AdamW's steps have, so that both go by
  one rate and one decay (Liu et al. 2025, "Muon is scalable for LLM training",
  section 2.2). Embeddings, heads, scales and biases take Adam's. Matrices
  decay. It keeps one moment of a kernel.

  Args:
    learning_rate: a schedule; that of AdamW serves.
    momentum: share of the momentum that each step keeps.
    num_iterations: The iterations of Newton and Schulz.
    rms: The root mean square of the elements of a step before the rate.
    b1: share of Adam's first moment that each step keeps.
    b2: share of Adam's second moment that each step keeps.
    epsilon: added to the root of Adam's second moment.
    weight_decay: share of a matrix that is taken away, times the rate.
    clip_norm: the largest norm of all gradients together, or None.
    state_dtype: The dtype of the moments; see `shared.with_state_dtype`.

  Returns:
    A transformation whose `update` needs the parameters.
  """
  return shared.descending(
    optax.partition(
      {
        "muon": optax.chain(
          _orthogonalized(momentum, num_iterations),
          optax.stateless(lambda steps, _: _with_rms(steps, rms)),
        ),
        "adam": optax.scale_by_adam(b1=b1, b2=b2, eps=epsilon),
      },
      _labels,
    ),
    optax.add_decayed_weights(weight_decay, mask=shared.are_matrices),
    learning_rate=learning_rate,
    clip_norm=clip_norm,
    state_dtype=state_dtype,
  )


def _labels(params):
  def label(path, leaf):
    names = [str(getattr(key, "key", "")) for key in path]
    is_kernel = names[-1] == "kernel" and not _OF_HEADS.intersection(names)
    return "muon" if is_kernel and leaf.ndim > 1 else "adam"

  return jax.tree_util.tree_map_with_path(label, params)


def _orthogonalized(
  momentum: float, num_iterations: int
) -> optax.GradientTransformation:
  """optax's, whose state has no constants: they would be rounded with it."""
  inner = contrib.scale_by_muon(
    _COEFFICIENTS,
    num_iterations,
    momentum,
    weight_dimension_numbers=_of_last_two_axes,
  )

  def init(params):
    return inner.init(params)._replace(ns_coeffs=())

  def update(gradients, state, params=None):
    state = state._replace(ns_coeffs=jnp.asarray(_COEFFICIENTS))
    steps, state = inner.update(gradients, state, params)
    return steps, state._replace(ns_coeffs=())

  return optax.GradientTransformation(init, update)


def _of_last_two_axes(kernels):
  """A kernel maps its last axis but one to the last; others count kernels."""
  return jax.tree.map(
    lambda kernel: contrib.MuonDimensionNumbers(
      reduction_axis=kernel.ndim - 2, output_axis=kernel.ndim - 1
    ),
    kernels,
  )


def _with_rms(steps, rms: float):
  """Steps of singular values 1 as long as AdamW's, whatever the shape."""
  return jax.tree.map(
    lambda step: step * (rms * max(step.shape[-2:]) ** 0.5), steps
  )
