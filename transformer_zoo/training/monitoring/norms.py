"""Norms of parameters and gradients, by group or layer.

A parameter's path alone decides its group: the stack it belongs to (the first
name of the path, where several groups share it) and its kind, the first of
`KINDS` that is found in the path.
"""

from collections.abc import Callable
import re

import jax
import jax.numpy as jnp

from transformer_zoo import parameter_names

# Parameters, or what has their structure -> float32 [groups].
Norms = Callable[..., jax.Array]

# A normalization before attention is one, and distances are attention's.
KINDS = (
  ("norm", r"norm"),
  ("attention", r"attention|relpos"),
  ("mlp", r"mlp"),
  ("embedding", r"embed"),
  ("head", r"logits|head"),
  ("other", r""),
)
_LAYER = re.compile(r"layers_\d+")
_STACKS = ("encoder", "decoder")


def kind(path: str) -> str:
  """The kind of a parameter: `attention`, `mlp`, `norm`, ..., or `other`."""
  return next(name for name, found in KINDS if re.search(found, path))


def group(path: str) -> str:
  """The group of a parameter, such as `encoder/attention` or `embedding`.

  Args:
    path: The name of the parameter, such as
      `encoder/layers_0/attention/query/kernel`.
  """
  stack, _, inside = path.partition("/")
  # Only a stack has parts of several kinds: `token_embedder/embedding`.
  return f"{stack}/{kind(inside)}" if stack in _STACKS else kind(path)


def names(tree, *, by_layer: bool = False) -> tuple[str, ...]:
  """The names of what `norms` returns, for arrays or shapes."""
  return tuple(jax.eval_shape(lambda t: _squares(t, by_layer), tree))


def norms(tree, *, by_layer: bool = False) -> jax.Array:
  """Euclidean norms by group, in one array: it is read at once.

  Args:
    tree: parameters, or what has their structure.
    by_layer: Whether every layer is a group too, such as `encoder/layers_3`.

  Returns:
    float32 [groups], in the order of `names`.
  """
  return jnp.sqrt(jnp.stack(list(_squares(tree, by_layer).values())))


def _squares(tree, by_layer: bool) -> dict[str, jax.Array]:
  """Sums of squares by name: as `names` orders them."""
  groups, layers = {}, {}
  for keys, leaf in jax.tree_util.tree_leaves_with_path(tree):
    path = jax.tree_util.keystr(keys, simple=True, separator="/")
    stack, _, inside = path.partition("/")
    of_layers = parameter_names.names_in(inside, leaf.shape)
    is_stacked = parameter_names.is_stacked(inside)
    squares = jnp.square(leaf.astype(jnp.float32))
    # Of a scanned stack the first axis counts the layers.
    squares = jnp.sum(squares, axis=tuple(range(is_stacked, squares.ndim)))
    _add(groups, group(path), jnp.sum(squares))
    for name, square in zip(of_layers, jnp.atleast_1d(squares), strict=True):
      if layer := _LAYER.match(name):
        _add(layers, f"{stack}/{layer[0]}", square)
  found = groups | layers if by_layer else groups
  return dict(sorted(found.items()))  # as JAX sorts the keys of a dictionary


def _add(sums, name, value) -> None:
  sums[name] = sums[name] + value if name in sums else value
