"""A stack of layers, scanned or looped; the one place for scan and remat."""

from collections.abc import Mapping
import functools

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo import tracing
from transformer_zoo.effects import Speed
from transformer_zoo.errors import UserError
from transformer_zoo.modules.attention import fused_plan
from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.dropout import Dropout
from transformer_zoo.modules.normalization import RMSNorm
from transformer_zoo.modules.parts import part
from transformer_zoo.modules.positions import Positions
from transformer_zoo.modules.positions import score_bias

# What the backward pass is given: all; products but those of attention, and
# what the fused kernel of attention returns; these products from the host's
# memory; or nothing but what enters a layer.
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


@gin.register
class Stack(nn.Module):
  """`num_layers` copies of a layer between dropout and a final norm.

  Parameters of copy i lie under `layers_{i}`, or, scanned, under `layers`
  with a leading axis `layers`: scanning compiles one layer once. Layers may
  share parameters (Lan et al. 2020, section 3.1): those of a group all of them,
  which lie under the group's number, and all layers the parts in `shared`,
  which lie under their names beside the layers.

  Attributes:
    layer: the layer to repeat.
    num_layers: N.
    first_layer: The first layer, if it differs from the others, which are not
      scanned then; or None.
    num_groups: The number of groups of neighbours that have one set of
      parameters; each layer has its own if None.
    shared: The parts of the layer, like "attention", whose parameters all
      layers have in common.
    position_embedder: adds a vector to each embedding by its position, or None.
    position_bias: gives all layers a bias [1, H, L, M], or None.
    relative_embedder: gives all layers a `RelativeTable`, or None.
    windows: The distances that the layers see back, and ahead where they see
      what comes, in tokens, repeated in turn; None is everything. (None, 256)
      alternates dense and banded layers, as GPT-3 does.
    divide_scores_by_depth: whether the scores of attention to itself are
      divided by the number of the layer, from 1 on (Stanford CRFM's GPT-2).
    input_norm: normalization of what enters, or None.
    input_projection: goes from what enters, after dropout, to the width of the
      layers (modules/embedding.py); None if they are equal.
    convolution: joined to the output of the first layer, or None.
    mask_decoder: applies the last layer again for the head of masked tokens
      (modules/mask_decoder.py), or None.
    norm: final normalization, or None (post-norm stacks).
    norm_name: The name of the final norm in the parameter tree.
    dropout: applied to the input.
    output_dropout: applied to the output; as `dropout` if None.
    mix: makes the output of what enters the first layer and what comes out of
      each, the last of them normalized (modules/mixes.py); None takes the last
      alone.
    scan: whether to scan over the layers.
    remat: The policy for what the backward pass computes again, a key of
      `REMAT_POLICIES`.
  """

  layer: nn.Module
  num_layers: int
  first_layer: nn.Module | None = None
  num_groups: int | None = None
  shared: tuple[str, ...] = ()
  position_embedder: nn.Module | None = None
  position_bias: nn.Module | None = None
  relative_embedder: nn.Module | None = None
  windows: tuple[int | None, ...] = (None,)
  divide_scores_by_depth: bool = False
  input_norm: nn.Module | None = None
  input_projection: nn.Module | None = None
  convolution: nn.Module | None = None
  mask_decoder: nn.Module | None = None
  norm: nn.Module | None = part(RMSNorm)
  norm_name: str = "final_norm"
  dropout: nn.Module = part(Dropout)
  output_dropout: nn.Module | None = None
  mix: nn.Module | None = None
  scan: Speed[bool] = False
  remat: Speed[str] = "none"

  def __post_init__(self):
    if self.remat not in REMAT_POLICIES:
      raise UserError(
        f"unknown remat policy {self.remat!r}; "
        f"allowed: {', '.join(REMAT_POLICIES)}"
      )
    if not self.windows or any(w is not None and w < 1 for w in self.windows):
      raise UserError(
        f"Stack.windows is {self.windows}; each must be a positive number of "
        "tokens or None"
      )
    groups = self.num_groups
    if groups is not None and (groups < 1 or self.num_layers % groups):
      raise UserError(
        f"Stack.num_groups is {groups}; it must divide num_layers, "
        f"{self.num_layers}: all groups have equally many layers"
      )
    if self.first_layer is not None and (self.scan or groups or self.shared):
      raise UserError(
        "Stack.first_layer differs from the others, which are not scanned and "
        "share nothing; bind SCAN_LAYERS = False, Stack.num_groups = None and "
        "Stack.shared = ()"
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
    x_BLD: jax.Array,
    *layer_arguments: jax.Array,
    mask_B1LM: jax.Array | masks.Mask | None = None,
    positions: Positions | None = None,
    token_positions_1L: jax.Array | None = None,
    earlier_NBMD: jax.Array | None = None,
    masked_places_BP: jax.Array | None = None,
    with_states: bool = False,
    deterministic: bool = True,
    **layer_keywords,
  ) -> jax.Array:
    """Applies the layers in order.

    Args:
      x_BLD: embeddings, or `Streams` of them.
      *layer_arguments: further positional arguments of every layer.
      mask_B1LM: True where a query may attend.
      positions: The positions of queries and keys; 0 to L - 1 by default.
      token_positions_1L: [1 or B, L] for `position_embedder`: packed examples
        each start from 0; those of the queries by default.
      earlier_NBMD: given to each layer as `earlier_BMD`, what entered it for
        the text before.
      masked_places_BP: The places of which the output of the mask decoder is
        read; it is 0 elsewhere. None for all.
      with_states: Whether what entered each layer is returned too, [N, B, L, D]
        of contents.
      deterministic: no dropout.
      **layer_keywords: further keyword arguments of every layer.

    Returns:
      [B, L, D], in the form of x, or `MaskDecoded` of a stack with a mask
      decoder.
    """
    shares = self._layers_of_a_group() > 1 or self.shared
    if shares and layer_keywords.get("decoding") is not None:
      raise UserError(
        "layers that share parameters (Stack.num_groups, Stack.shared) have no "
        "cache of their own for decoding; decode with layers that share none"
      )
    if positions is None:
      positions = Positions.of_length(x_BLD.shape[1])
    if token_positions_1L is None:
      token_positions_1L = positions.query_1L
    x_BLD = self.embedded(x_BLD, token_positions_1L)
    bias_1HLM = None
    if self.position_bias is not None:
      bias_1HLM = score_bias(
        self.position_bias.copy(name="relpos_bias"), positions
      )
    keywords = {
      **layer_keywords,
      "mask_B1LM": mask_B1LM,
      "bias_1HLM": bias_1HLM,
      "positions": positions,
    }
    if self.relative_embedder is not None:
      keywords["relative"] = self.relative_embedder(
        positions, deterministic=deterministic
      )

    def apply_layer(layer, x, own, arguments, keywords):
      window, score_scale, convolved, earlier_BMD = own
      if score_scale is not None:
        keywords = {**keywords, "score_scale": score_scale}
      if window is not None:
        mask = masks.windowed(
          keywords["mask_B1LM"], keywords["positions"], window
        )
        local = window < jnp.iinfo(jnp.int32).max
        keywords = {
          **keywords,
          "mask_B1LM": mask,
          "positions": keywords["positions"].replace(local=local),
        }
      if earlier_BMD is not None:
        keywords = {**keywords, "earlier_BMD": earlier_BMD}
      x = layer(x, *arguments, **keywords, deterministic=deterministic)
      if convolved is not None:
        x = jnp.where(convolved, self.convolution.join(x, *convolution), x)
      return x, _contents(x) if keeps_states else None

    apply_one = apply_layer
    keeps_states = with_states or any(
      each is not None for each in (self.mix, self.mask_decoder)
    )

    if self.remat != "none":
      # prevent_cse guards against XLA undoing the remat; scan does already.
      apply_layer = nn.remat(
        apply_layer,
        policy=REMAT_POLICIES[_available(self.remat)],
        prevent_cse=not self.scan,
      )
    x_BLD = jax.tree.map(
      functools.partial(self.dropout, deterministic=deterministic), x_BLD
    )
    if self.input_projection is not None:
      x_BLD = self.input_projection(x_BLD)
    first_BLD = x_BLD
    repeats = self._layers_of_a_group()
    each_layer = self.layer
    if self.shared:
      each_layer = self._with_shared_parts(x_BLD, layer_arguments, keywords)
    own_N = [self._windows(), self._score_scales(), None, earlier_NBMD]
    if self.convolution is not None:
      convolution = self.convolution(
        x_BLD, masks.whole(mask_B1LM), deterministic=deterministic
      )
      own_N[2] = jnp.arange(self.num_layers) == 0
    if axes.num_stages() > 1:
      self._check_stages(with_states, earlier_NBMD)
    if axes.num_stages() > 1 and not self.is_initializing():
      x_BLD = self._over_stages(
        apply_one,
        x_BLD,
        own_N,
        (layer_arguments, keywords),
        draws=not deterministic,
      )
    elif self.scan:
      in_axes = (0, nn.broadcast, nn.broadcast)
      apply_group = apply_layer
      if repeats > 1:
        apply_group = nn.scan(
          apply_layer,
          variable_broadcast="params",
          split_rngs={"params": False, "dropout": True},
          in_axes=in_axes,
          length=repeats,
        )
        own_N = jax.tree.map(
          lambda x_N: x_N.reshape(-1, repeats, *x_N.shape[1:]), own_N
        )
      scanned = nn.scan(
        apply_group,
        variable_axes={"params": 0, "cache": 0},
        split_rngs={"params": True, "dropout": True},
        in_axes=in_axes,
        length=self.num_layers // repeats,
        metadata_params={nn.PARTITION_NAME: "layers"},
      )
      layers = each_layer.copy(name="layers")
      x_BLD, states_NBLD = scanned(
        layers, x_BLD, own_N, layer_arguments, keywords
      )
      if repeats > 1 and states_NBLD is not None:
        states_NBLD = states_NBLD.reshape(-1, *x_BLD.shape)
    else:
      states_NBLD = []
      for i in range(self.num_layers):
        if i % repeats == 0:
          is_first = i == 0 and self.first_layer is not None
          layer = self.first_layer if is_first else each_layer
          layer = layer.copy(name=f"layers_{i // repeats}")
        own = tuple(None if each_N is None else each_N[i] for each_N in own_N)
        x_BLD, state_BLD = apply_layer(
          layer, x_BLD, own, layer_arguments, keywords
        )
        states_NBLD.append(state_BLD)
    masked_BLD = None
    if self.mask_decoder is not None:
      before_BLD = states_NBLD[-2] if self.num_layers > 1 else first_BLD
      if self.scan:
        layer, apply_layer = self._last_layer(each_layer), apply_one
      masked_BLD = self.mask_decoder(before_BLD, token_positions_1L)
      again = {**keywords, "memory_BMD": before_BLD}
      own = [*(None if n is None else n[-1] for n in own_N[:2]), None, None]
      places_BP = None
      if own_N[0] is None and bias_1HLM is None:
        places_BP = masked_places_BP
      if places_BP is not None:
        masked_BLD, again = _at_places(masked_BLD, again, places_BP)
      for _ in range(self.mask_decoder.repeats):
        masked_BLD, _ = apply_layer(
          layer, masked_BLD, own, layer_arguments, again
        )
      if places_BP is not None:
        rows_B1 = jnp.arange(len(x_BLD))[:, None]
        masked_BLD = (
          jnp.zeros_like(x_BLD).at[rows_B1, places_BP].set(masked_BLD)
        )
    if self.norm is not None:
      x_BLD = self.norm.copy(name=self.norm_name)(x_BLD)
    if self.mix is not None:
      x_BLD = self.mix([first_BLD, *states_NBLD][:-1] + [x_BLD])
    output_dropout = functools.partial(
      self.output_dropout or self.dropout, deterministic=deterministic
    )
    if with_states:
      entered = [_contents(first_BLD), *states_NBLD][:-1]
      return jax.tree.map(output_dropout, x_BLD), jnp.stack(entered)
    if masked_BLD is None:
      return jax.tree.map(output_dropout, x_BLD)
    return self.mask_decoder.both(
      output_dropout(x_BLD), output_dropout(masked_BLD)
    )

  def _over_stages(self, apply_one, x_BLD, own_N, given, *, draws):
    """What comes out of the layers, which lie on the stages of a pipeline.

    Draws of dropout differ from those without stages, by layer and microbatch.
    """
    # A run without stages imports nothing of them.
    from transformer_zoo.modules import pipeline

    layer = self.layer.clone(parent=None)
    key = None
    if draws and self.has_rng("dropout"):
      key = self.make_rng("dropout")

    def one(x_BLD, params, own_N, given, place, microbatch):
      arguments, keywords, key = given
      rngs = {}
      if key is not None:
        key = jax.random.fold_in(jax.random.fold_in(key, place), microbatch)
        rngs = {"dropout": key}
      apply = functools.partial(layer.apply, {"params": params}, rngs=rngs)
      return apply_one(apply, x_BLD, (*own_N, None, None), arguments, keywords)[
        0
      ]

    if self.remat != "none":
      policy = REMAT_POLICIES[_available(self.remat)]
      one = jax.checkpoint(one, policy=policy, prevent_cse=False)
    params, own_N = nn.unbox(self.variables["params"]["layers"]), (*own_N[:2],)
    if given[1].get("decoding") is None:
      return pipeline.apply(one, params, own_N, x_BLD, (*given, key))

    def cached(x_BLD, params, cache, own_N, given):
      arguments, keywords = given
      variables = {"params": params, "cache": cache or {}}
      kept = []

      def apply(*arguments, **keywords):
        x_BLD, changed = layer.apply(
          variables, *arguments, mutable=["cache"], **keywords
        )
        kept.append(changed["cache"])
        return x_BLD

      own = (*own_N, None, None)
      x_BLD, _ = apply_one(apply, x_BLD, own, arguments, keywords)
      return x_BLD, kept[0]

    cache_N = self.variables.get("cache", {}).get("layers")
    x_BLD, cache_N = pipeline.apply_with_cache(
      cached, params, cache_N, own_N, x_BLD, given
    )
    self.put_variable("cache", "layers", cache_N)
    return x_BLD

  def _check_stages(self, with_states, earlier_NBMD) -> None:
    """Raises UserError for what the stages of a pipeline do not compute."""
    if not self.scan:
      raise UserError(
        "Partitioning.num_stages shares the layers of a stack out, which lie "
        "in one array then; set SCAN_LAYERS = True"
      )
    refused = {
      "Stack.num_groups": self.num_groups is not None,
      "Stack.shared": bool(self.shared),
      "Stack.convolution": self.convolution is not None,
      "Stack.mix": self.mix is not None,
      "Stack.mask_decoder": self.mask_decoder is not None,
      "the states of all layers": with_states,
      "the states of an earlier text": earlier_NBMD is not None,
    }
    for name, asked in refused.items():
      if asked:
        raise UserError(
          f"Partitioning.num_stages does not go with {name}: a stage knows its "
          "own layers alone; leave one of the two out"
        )

  def _last_layer(self, layer: nn.Module):
    """Returns the last of the scanned copies of a layer, a function."""
    layers = nn.unbox(self.variables["params"]["layers"])
    params = jax.tree.map(lambda leaf_N: leaf_N[-1], layers)
    layer = layer.clone(parent=None)

    def apply(*arguments, **keywords):
      rngs = {}
      if self.has_rng("dropout"):
        rngs["dropout"] = self.make_rng("dropout")
      return layer.apply({"params": params}, *arguments, rngs=rngs, **keywords)

    return apply

  def embedded(
    self, x_BLD: jax.Array, token_positions_1L: jax.Array
  ) -> jax.Array:
    """Embeddings with their positions, normalized, before dropout.

    Args:
      x_BLD: embeddings [B, L, D], of the width of `position_embedder`.
      token_positions_1L: The position of each token, [1 or B, L].
    """
    if self.position_embedder is not None:
      added_1LD = self.position_embedder(token_positions_1L)
      if added_1LD.shape[-1] != x_BLD.shape[-1]:
        raise UserError(
          f"{type(self.position_embedder).__name__}.features is "
          f"{added_1LD.shape[-1]}, but embeddings have {x_BLD.shape[-1]}; set "
          "EMBED_DIM, which both read"
        )
      x_BLD += added_1LD.astype(x_BLD.dtype)
    if self.input_norm is not None:
      x_BLD = self.input_norm(x_BLD)
    return x_BLD

  def _layers_of_a_group(self) -> int:
    return 1 if self.num_groups is None else self.num_layers // self.num_groups

  def _with_shared_parts(self, x_BLD, arguments, keywords) -> nn.Module:
    """The layer, whose shared parts read parameters of the stack."""
    layer = self.layer.clone(parent=None)

    def init(key, name):
      variables = layer.init(
        key, x_BLD, *arguments, **keywords, deterministic=True
      )
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

  def _windows(self) -> jax.Array | None:
    """Returns the window of each layer, int32 [N]; None if all see all."""
    if all(window is None for window in self.windows):
      return None
    largest = jnp.iinfo(jnp.int32).max
    pattern = [largest if w is None else w for w in self.windows]
    return jnp.resize(jnp.array(pattern, jnp.int32), self.num_layers)

  def _score_scales(self) -> jax.Array | None:
    """Returns what the scores of each layer are multiplied by, or None."""
    if not self.divide_scores_by_depth:
      return None
    return 1 / jnp.arange(1, self.num_layers + 1, dtype=jnp.float32)


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


def _at_places(query_BLD, keywords, places_BP):
  """Queries at some places, [B, P, D], and the keywords of a layer for them."""
  query_BPD = jnp.take_along_axis(query_BLD, places_BP[..., None], axis=1)
  keywords = dict(keywords)
  mask_B1LM = masks.whole(keywords["mask_B1LM"])
  if mask_B1LM is not None:
    keywords["mask_B1LM"] = jnp.take_along_axis(
      mask_B1LM, places_BP[:, None, :, None], axis=2
    )
  if "relative" in keywords:
    keywords["relative"] = keywords["relative"].of_queries(places_BP)
  return query_BPD, keywords


def _contents(x) -> jax.Array:
  """The contents of `Streams`, or x itself."""
  return getattr(x, "content_BLD", x)


def _available(remat: str) -> str:
  """Returns the policy, or what is the same where there is one memory."""
  if remat != "offload" or tracing.platform() != "cpu":
    return remat
  tracing.record_choice(
    "remat 'offload' is 'minimal' on a CPU, whose memory is the host's"
  )
  return "minimal"
