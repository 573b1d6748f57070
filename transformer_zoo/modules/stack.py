"""A stack of layers, scanned or looped; the one place for scan and remat."""

from collections.abc import Callable, Mapping, Sequence
import functools
from typing import Any

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo import tracing
from transformer_zoo.effects import Speed
from transformer_zoo.errors import UserError
from transformer_zoo.modules import costs
from transformer_zoo.modules.attention import fused_plan

# What the backward pass is given: all; products except attention's, and what
# the fused kernel of attention returns; these products from the host's memory;
# or nothing but what enters a layer.
REMAT_POLICIES = {
  "none": None,
  "minimal": jax.checkpoint_policies.save_from_both_policies(
    jax.checkpoint_policies.checkpoint_dots_with_no_batch_dims,
    jax.checkpoint_policies.save_only_these_names(fused_plan.RESULTS),
  ),
  "offload": jax.checkpoint_policies.offload_dot_with_no_batch_dims(
    "device", "pinned_host"
  ),
  "full": jax.checkpoint_policies.nothing_saveable,
}

# Of what a scan takes beside x: values by layer, arguments, keywords.
_IN_AXES = (0, nn.broadcast, nn.broadcast)


@gin.register
class Stack(nn.Module):
  """`num_layers` copies of a layer, each of which reads what the last one made.

  Parameters of copy i lie under `layers_{i}`, or, scanned, under `layers`
  with a leading axis `layers`: scanning compiles one layer once. Layers may
  share parameters (Lan et al. 2020, section 3.1): layers of a group all of
  them, which lie under the group's number, and all layers the parts in
  `shared`, which lie under their names beside the layers.

  Attributes:
    layer: the layer to repeat.
    num_layers: N.
    num_groups: The number of groups of neighbours that have one set of
      parameters; each layer has its own if None.
    shared: The parts of the layer, like "attention", whose parameters all
      layers have in common.
    scan: whether to scan over the layers.
    remat: The policy for what the backward pass computes again, a key of
      `REMAT_POLICIES`.
  """

  layer: nn.Module
  num_layers: int
  num_groups: int | None = None
  shared: tuple[str, ...] = ()
  scan: Speed[bool] = False
  remat: Speed[str] = "none"

  def __post_init__(self):
    if self.remat not in REMAT_POLICIES:
      raise UserError(
        f"unknown remat policy {self.remat!r}; "
        f"allowed: {', '.join(REMAT_POLICIES)}"
      )
    groups = self.num_groups
    if groups is not None and (groups < 1 or self.num_layers % groups):
      raise UserError(
        f"Stack.num_groups is {groups}; it must divide num_layers, "
        f"{self.num_layers}: all groups have equally many layers"
      )
    for name in self.shared:
      if not isinstance(getattr(self.layer, name, None), nn.Module):
        raise UserError(
          f"Stack.shared has {name!r}, but {type(self.layer).__name__} has no "
          "such part; name fields of it, like 'attention' and 'mlp'"
        )
    super().__post_init__()

  @nn.compact
  def __call__(
    self,
    x: Any,
    *arguments: Any,
    by_layer: Mapping[str, jax.Array] | None = None,
    after_layer: Callable[[Any, jax.Array], Any] | None = None,
    collect: Callable[[Any], Any] | None = None,
    order: Sequence[int] | None = None,
    deterministic: bool = True,
    **keywords: Any,
  ) -> tuple[Any, Any]:
    """Applies the layers in order.

    Args:
      x: What the first layer reads, an array or a tree of them.
      *arguments: Further positional arguments of every layer.
      by_layer: Keyword arguments that differ by layer, arrays [N, ...].
      after_layer: Maps the output of a layer and the layer's number to what
        the next one reads; None changes nothing.
      collect: A function of what each layer gives to the next one, whose
        values are returned too; None for nothing.
      order: The numbers of the layers that are applied, for an architecture
        that applies some again; None for each of them once.
      deterministic: no dropout.
      **keywords: Further keyword arguments of every layer.

    Returns:
      The output of the last layer, in the form of x; and what is collected,
      of all layers, as an array or a list.
    """
    by_layer, given = by_layer or {}, (arguments, keywords)
    self._check_decoding(keywords)
    self._check_stages(by_layer, after_layer, collect, order)
    layer = self._with_shared_parts(x, *given) if self.shared else self.layer
    number_N = None if after_layer is None else jnp.arange(self.num_layers)
    own_N = by_layer, number_N

    def apply_once(layer, x, own, arguments, keywords):
      values, number = own
      x = layer(
        x, *arguments, **keywords, **values, deterministic=deterministic
      )
      x = x if after_layer is None else after_layer(x, number)
      return x, None if collect is None else collect(x)

    apply_layer = apply_once
    if self.remat != "none":
      # prevent_cse guards against XLA undoing the remat; scan does already.
      apply_layer = nn.remat(
        apply_once,
        policy=REMAT_POLICIES[_available(self.remat)],
        prevent_cse=not self.scan,
      )
    if axes.num_stages() > 1 and not self.is_initializing():
      draws = not deterministic
      return self._over_stages(apply_once, x, by_layer, given, draws), None
    if self.scan and order is None:
      return self._scan(apply_layer, layer, x, own_N, given)
    if keywords.get("decoding") is not None and self._layers_of_a_group() > 1:
      return self._decode_in_groups(apply_layer, layer, x, own_N, given), None
    copies, collected = {}, []
    for i in range(self.num_layers) if order is None else order:
      group = i // self._layers_of_a_group()
      if group not in copies:
        copies[group] = self._layer_of(group, layer)
      apply = apply_once if self.scan else apply_layer
      x, found = apply(copies[group], x, _at(own_N, i), *given)
      collected.append(found)
    return x, collected

  @nn.nowrap
  def _layer_of(self, group: int, layer: nn.Module) -> Callable[..., Any]:
    """Returns the layer with the parameters of a group."""
    if self.scan:
      return self._scanned_layer(group, layer)
    return layer.copy(name=f"layers_{group}")

  @nn.nowrap
  def _scan(self, apply_layer, layer, x, own_N, given):
    """Scans over the layers, or over groups and the layers of each."""
    repeats = self._layers_of_a_group()
    if repeats > 1:
      apply_layer = self._over_group(apply_layer)
      own_N = jax.tree.map(
        lambda x_N: x_N.reshape(-1, repeats, *x_N.shape[1:]), own_N
      )
    scanned = self._scanned(apply_layer, self.num_layers // repeats)
    x, collected_N = scanned(layer.copy(name="layers"), x, own_N, *given)
    if repeats > 1:
      collected_N = jax.tree.map(
        lambda x_N: x_N.reshape(-1, *x_N.shape[2:]), collected_N
      )
    return x, collected_N

  @nn.nowrap
  def _scanned(self, apply_layer, length: int):
    """Applies so many copies of a layer, one after the other."""
    return nn.scan(
      apply_layer,
      variable_axes={"params": 0, "cache": 0, costs.COLLECTION: 0},
      split_rngs={"params": True, "dropout": True},
      in_axes=_IN_AXES,
      length=length,
      metadata_params={nn.PARTITION_NAME: "layers"},
    )

  @nn.nowrap
  def _over_group(self, apply_layer):
    """Applies a layer once for each layer of its group, by one scan."""
    return nn.scan(
      apply_layer,
      variable_broadcast="params",
      variable_axes={"cache": 0, costs.COLLECTION: 0},
      split_rngs={"params": False, "dropout": True},
      in_axes=_IN_AXES,
      length=self._layers_of_a_group(),
    )

  @nn.nowrap
  def _decode_in_groups(self, apply_layer, layer, x, own_N, given):
    """Loops over groups whose layers have caches of their own."""
    repeats = self._layers_of_a_group()
    for group in range(self.num_layers // repeats):
      own = _at(own_N, slice(group * repeats, (group + 1) * repeats))
      apply_group = self._over_group(apply_layer)
      x, _ = apply_group(self._layer_of(group, layer), x, own, *given)
    return x

  def _over_stages(self, apply_once, x, by_layer, given, draws):
    """What comes out of the layers, which lie on the stages of a pipeline.

    Draws of dropout differ from those without stages, by layer and microbatch.
    """
    # A run without stages imports nothing of them.
    from transformer_zoo.modules import pipeline

    layer = self.layer.clone(parent=None)
    key = None
    if draws and self.has_rng("dropout"):
      key = self.make_rng("dropout")

    def one(x, params, own, given, place, microbatch):
      arguments, keywords, key = given
      rngs = {}
      if key is not None:
        key = jax.random.fold_in(jax.random.fold_in(key, place), microbatch)
        rngs = {"dropout": key}
      apply = functools.partial(layer.apply, {"params": params}, rngs=rngs)
      return apply_once(apply, x, (own, None), arguments, keywords)[0]

    if self.remat != "none":
      policy = REMAT_POLICIES[_available(self.remat)]
      one = jax.checkpoint(one, policy=policy, prevent_cse=False)
    params = nn.unbox(self.variables["params"]["layers"])
    if given[1].get("decoding") is None:
      return pipeline.apply(one, params, by_layer, x, (*given, key))

    def cached(x, params, cache, own, given):
      variables = {"params": params, "cache": cache or {}}
      kept = []

      def apply(*arguments, **keywords):
        x, changed = layer.apply(
          variables, *arguments, mutable=["cache"], **keywords
        )
        kept.append(changed["cache"])
        return x

      x, _ = apply_once(apply, x, (own, None), *given)
      return x, kept[0]

    cache_N = self.variables.get("cache", {}).get("layers")
    x, cache_N = pipeline.apply_with_cache(
      cached, params, cache_N, by_layer, x, given
    )
    self.put_variable("cache", "layers", cache_N)
    return x

  def _check_decoding(self, keywords) -> None:
    """Raises UserError for decoding with parts of several layers."""
    if self.shared and keywords.get("decoding") is not None:
      raise UserError(
        f"Stack.shared is {self.shared}: parts that layers share have no cache "
        "for decoding; share whole layers (Stack.num_groups) or nothing"
      )

  def _check_stages(self, by_layer, after_layer, collect, order) -> None:
    """Raises UserError for what the stages of a pipeline do not compute."""
    if axes.num_stages() > 1 and not self.scan:
      raise UserError(
        "Partitioning.num_stages shares the layers of a stack out, which lie "
        "in one array then; set SCAN_LAYERS = True"
      )
    refuse_with_stages(
      {
        "Stack.num_groups": self.num_groups is not None,
        "Stack.shared": bool(self.shared),
        "an operation between layers": after_layer is not None,
        "layers that are applied again": order is not None,
        "the states of all layers": collect is not None,
        # Those of a microbatch are not cut out of them.
        "the states of an earlier text": any(
          array_N.ndim > 1 for array_N in by_layer.values()
        ),
      }
    )

  def _scanned_layer(self, group: int, layer: nn.Module):
    """Returns one of the scanned copies of a layer, a function."""
    layers = nn.unbox(self.variables["params"]["layers"])
    return self._copy_of(layers, group, layer)

  @nn.nowrap
  def _copy_of(self, layers, number: int, layer: nn.Module):
    """Applies a layer with the parameters at a place of scanned ones."""
    params = jax.tree.map(lambda leaf_N: leaf_N[number], layers)
    layer = layer.clone(parent=None)

    def apply(*arguments, **keywords):
      rngs = {}
      if self.has_rng("dropout"):
        rngs["dropout"] = self.make_rng("dropout")
      return layer.apply({"params": params}, *arguments, rngs=rngs, **keywords)

    return apply

  def _layers_of_a_group(self) -> int:
    return 1 if self.num_groups is None else self.num_layers // self.num_groups

  def _with_shared_parts(self, x, arguments, keywords) -> nn.Module:
    """The layer, whose shared parts read parameters of the stack."""
    layer = self.layer.clone(parent=None)

    def init(key, name):
      variables = layer.init(key, x, *arguments, **keywords, deterministic=True)
      return variables["params"][name]

    return self.layer.clone(
      **{
        name: _Given(
          getattr(layer, name),
          self.param(name, functools.partial(init, name=name)),
        )
        for name in self.shared
      }
    )


def refuse_with_stages(asked: Mapping[str, bool]) -> None:
  """Raises UserError for what the stages of a pipeline do not compute.

  Args:
    asked: Whether something is asked for, by its name; nothing is refused
      without stages.
  """
  if axes.num_stages() == 1:
    return
  for name, is_asked in asked.items():
    if is_asked:
      raise UserError(
        f"Partitioning.num_stages does not go with {name}: a stage knows its "
        "own layers alone; leave one of the two out"
      )


class _Given(nn.Module):
  """A part that has no parameters of its own.

  Attributes:
    part: the part.
    params: Its parameters.
  """

  part: nn.Module
  params: Mapping[str, jax.Array]

  def __call__(self, *arguments, **keywords) -> jax.Array:
    """As the part's."""
    rngs = {}
    if self.has_rng("dropout"):
      rngs = {"dropout": self.make_rng("dropout")}
    part = self.part.clone(parent=None)
    return part.apply(
      {"params": self.params}, *arguments, rngs=rngs, **keywords
    )


def _at(tree_N: Any, number: int | slice) -> Any:
  """Returns the values of one layer, or of neighbours."""
  return jax.tree.map(lambda each_N: each_N[number], tree_N)


def _available(remat: str) -> str:
  """Returns the policy, or what is the same where there is one memory."""
  if remat != "offload" or tracing.platform() != "cpu":
    return remat
  tracing.record_choice(
    "remat 'offload' is 'minimal' on a CPU, whose memory is the host's"
  )
  return "minimal"
