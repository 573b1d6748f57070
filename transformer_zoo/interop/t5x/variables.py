"""The variables of one of our models as T5X's own networks have them.

Parameters without boxes, their axes in the collection `params_axes`, and a
cache of the names and shapes that T5X's decoding functions know.
"""

from collections.abc import Callable
import functools
from typing import Any

import flax
from flax import linen as nn
from flax import traverse_util
from flax.linen import partitioning
import jax
import jax.numpy as jnp

from transformer_zoo.interop.t5x import links
from transformer_zoo.modules.attention import cache as kv_cache

_KEYS_AND_VALUES = ("cached_key", "cached_value")
_INDEX = "cache_index"
_TO_ENCODER = "encoder_decoder_attention/"


class Bridge(nn.Module):
  """The shared part of both kinds of models.

  The model is applied as a function of variables, so that those which T5X sees
  may have other names and another cache than the model's own.

  Attributes:
    model: one of our architectures.
  """

  model: nn.Module

  # Whether T5X has the embedder under `decoder`. No field: a class is of one.
  decoder_only = False

  @property
  def scan_layers(self) -> bool:
    """Whether caches have a leading axis of layers; T5X asks for it."""
    return self.model.decoder.transformer.layer_stack.scan

  def initialize(self, **batch: jax.Array) -> None:
    """Makes the parameters and, beside them, the names of their axes."""
    boxed = self._unbound.init(
      self.make_rng("params"), batch, method="all_logits"
    )["params"]
    params, axes = {}, {}
    names = traverse_util.flatten_dict(nn.get_partition_spec(boxed), sep="/")
    flat = traverse_util.flatten_dict(nn.meta.unbox(boxed), sep="/")
    for ours, parameter in flat.items():
      theirs = links.their_name(ours, decoder_only=self.decoder_only)
      params[theirs] = parameter
      axes[f"{theirs}_axes"] = partitioning.AxisMetadata(tuple(names[ours]))
    self._put("params", params)
    self._put("params_axes", axes)

  def call_model(
    self,
    method: str | Callable,
    *arguments: Any,
    cache: dict | None = None,
    **keywords: Any,
  ) -> Any:
    """Calls a method of the model; with a cache returns (result, new cache)."""
    params = {
      links.our_name(theirs): parameter
      for theirs, parameter in self._flat("params").items()
    }
    variables = {"params": traverse_util.unflatten_dict(params, sep="/")}
    rngs = {}
    if self.has_rng("dropout"):
      rngs["dropout"] = self.make_rng("dropout")
    apply = functools.partial(
      self._unbound.apply, method=method, rngs=rngs, **keywords
    )
    if cache is None:
      return apply(variables, *arguments)
    variables["cache"] = traverse_util.unflatten_dict(cache, sep="/")
    result, new = apply(variables, *arguments, mutable=["cache"])
    return result, traverse_util.flatten_dict(new["cache"], sep="/")

  @property
  def _unbound(self) -> nn.Module:
    """The model by itself, outside of this module's scope."""
    return self.model.clone(parent=None, name=None)

  def _flat(self, collection: str) -> dict[str, jax.Array]:
    tree = nn.meta.unbox(self.variables.get(collection, {}))
    return traverse_util.flatten_dict(flax.core.unfreeze(tree), sep="/")

  def _put(self, collection: str, flat: dict[str, Any]) -> None:
    tree = traverse_util.unflatten_dict(flat, sep="/")
    for name, subtree in tree.items():
      self.put_variable(collection, name, subtree)

  def read_cache(self) -> tuple[dict[str, jax.Array], jax.Array, int]:
    """The keys and values, where the next ones belong, and room for how many.

    The position is one number, or one for each row after a prompt.
    """
    flat = self._flat("cache")
    index = next(v for name, v in flat.items() if name.endswith(_INDEX))
    kept = {n: v for n, v in flat.items() if n.endswith(_KEYS_AND_VALUES)}
    length = next(iter(kept.values())).shape[-1]
    return kept, index[0] if self.scan_layers else index, length

  def write_cache(self, cache: dict[str, jax.Array], index: jax.Array) -> None:
    """Keeps what T5X keeps: nothing of the attention to an encoder."""
    kept = {n: v for n, v in cache.items() if _TO_ENCODER not in n}
    for name in [n for n in kept if n.endswith(_KEYS_AND_VALUES[0])]:
      layers = kept[name].shape[:1] if self.scan_layers else ()
      kept[name.removesuffix(_KEYS_AND_VALUES[0]) + _INDEX] = jnp.broadcast_to(
        index, (*layers, *index.shape)
      )
    self._put("cache", kept)

  def make_room(self, method, arguments, length: int) -> None:
    """An empty cache: room for `length` tokens of every row."""
    decoding = kv_cache.Decoding(
      position=jnp.zeros([], jnp.int32), length=length
    )
    kv_cache.check_room(self.model.decoder.num_positions, decoding)
    _, shapes = jax.eval_shape(
      lambda: self.call_model(method, *arguments, decoding=decoding, cache={})
    )
    empty = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    self.write_cache(empty, decoding.position)
