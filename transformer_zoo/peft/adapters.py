"""Adapters: small feed-forward networks in a model that stays as it is.

- T5's form (Raffel et al. 2020, section 3.5.1, after Bapna and Firat 2019;
  `task_adapter.gin` of the T5 repository): one more sublayer ends each layer of
  encoder and decoder, with a normalization and a skip of its own.
- Houlsby et al. 2019, section 2.1: x + adapter(x) of what each sublayer gives,
  attention and feed-forward alike, before it joins the residual stream.
- Pfeiffer et al. 2021, as the library `adapters` has it: one at the end of each
  layer. It reads the stream after the layer's last sublayer, normalized where
  the layer normalizes there, and is added before that normalization.
- Parallel (He et al. 2022, table 6): the adapter reads what the feed-forward
  network reads, and scaled it is added to what that gives.

What ends an adapter is initially 0, so that fine-tuning begins with the model
as it was.
"""

from collections.abc import Iterator, Sequence
import functools
import re
from typing import Any

from flax import linen as nn
import gin
import jax

from transformer_zoo.errors import UserError
from transformer_zoo.modules import connections
from transformer_zoo.modules.layers import DecoderLayer
from transformer_zoo.modules.layers import EncoderLayer
from transformer_zoo.modules.layers import MergedDecoderLayer
from transformer_zoo.peft import exchange
from transformer_zoo.peft import substitution
from transformer_zoo.peft.method import Method
from transformer_zoo.peft.method import Rule
from transformer_zoo.peft.substitution import Substitute


class Adapted(Substitute, nn.Module, kw_only=True):
  """A layer and, after it, x + dropout(adapter(norm(x))).

  Attributes:
    adapter: a feed-forward network.
  """

  adapter: nn.Module

  @nn.compact
  def __call__(self, x_BLD: jax.Array, *arguments, **keywords) -> jax.Array:
    """Returns [B, L, D]; the arguments are the layer's."""
    x_BLD = super().__call__(x_BLD, *arguments, **keywords)
    _check_stream(x_BLD)
    how = {"deterministic": keywords["deterministic"]}
    # Whatever the layer's own connection is: this one leaves x as it was where
    # the adapter gives 0.
    return connections.pre_norm(
      x_BLD,
      {"adapter": functools.partial(self.adapter, **how)},
      norm=lambda name: self.norm.copy(name=name),
      dropout=functools.partial(self.dropout, **how),
    )


def _check_stream(x_BLD: Any) -> None:
  """Raises UserError if layers hand on more than one array."""
  if not jax.tree_util.all_leaves([x_BLD]):
    raise UserError(
      "an adapter behind a layer reads one residual stream, and layers hand on "
      f"{type(x_BLD).__name__}; use peft/houlsby.gin, whose adapters are "
      "behind sublayers, or other layers"
    )


class SequentiallyAdapted(Substitute, nn.Module, kw_only=True):
  """A sublayer whose output y becomes y + adapter(y).

  Attributes:
    adapter: a feed-forward network.
  """

  adapter: nn.Module

  @nn.compact
  def __call__(self, *arguments, deterministic: bool, **keywords) -> jax.Array:
    """Returns [B, L, D]; the arguments are the sublayer's."""
    y_BLD = super().__call__(
      *arguments, deterministic=deterministic, **keywords
    )
    return y_BLD + self.adapter(y_BLD, deterministic=deterministic)


class EndAdapted(Substitute, nn.Module, kw_only=True):
  """A layer whose last sublayer's output y becomes y + adapter(z).

  z is what the layer gives without the adapter: x + y where it normalizes
  before its sublayers, norm(x + y) where it does behind them.

  Attributes:
    adapter: a feed-forward network.
  """

  adapter: nn.Module

  @nn.nowrap
  def joined(
    self,
    x_BLD: jax.Array,
    sublayers: connections.Sublayers,
    *,
    deterministic: bool,
  ) -> jax.Array:
    """Returns [B, L, D]; called inside of the layer's `__call__`."""
    _check_stream(x_BLD)
    made, how = {}, {"deterministic": deterministic}

    def once(name, sublayer):
      def run(h_BLD):
        if name not in made:
          made[name] = self.dropout(sublayer(h_BLD), **how)
        return made[name]

      return run

    # A second connection costs its norms and sums alone.
    connect = functools.partial(
      self.connect,
      norm=functools.cache(lambda name: self.norm.copy(name=name)),
      dropout=lambda y_BLD: y_BLD,
    )
    sublayers = {name: once(name, each) for name, each in sublayers.items()}
    z_BLD = connect(x_BLD, sublayers)
    last = next(reversed(sublayers))
    made[last] = made[last] + self.adapter(z_BLD, **how)
    return connect(x_BLD, sublayers)


class ParallelAdapted(Substitute, nn.Module, kw_only=True):
  """A sublayer whose output y becomes y + scale * adapter(x).

  Attributes:
    adapter: a feed-forward network.
    scale: a constant; He et al. 2022 use 4.
  """

  adapter: nn.Module
  scale: float = 4.0

  @nn.compact
  def __call__(
    self, x_BLD: jax.Array, *arguments, deterministic: bool, **keywords
  ) -> jax.Array:
    """Returns [B, L, D]; the arguments are the sublayer's."""
    y_BLD = super().__call__(
      x_BLD, *arguments, deterministic=deterministic, **keywords
    )
    adapted_BLD = self.adapter(x_BLD, deterministic=deterministic)
    return y_BLD + self.scale * adapted_BLD


# The end of the name of a sublayer's last matrix in `transformers` -> the
# setting of `adapters` that puts an adapter behind it.
_SETTINGS = {
  "SelfAttention.o": "mh_adapter",
  "attention.output.dense": "mh_adapter",
  "EncDecAttention.o": "cross_adapter",
  "DenseReluDense.wo": "output_adapter",
  "output.dense": "output_adapter",
}
# Sublayers of ours by the setting.
_SUBLAYERS = {
  "mh_adapter": "(self_)?attention",
  "cross_adapter": "encoder_decoder_attention",
  "output_adapter": "mlp",
}
_LEAVES = {
  "adapter_down.0.weight": "wi/kernel",
  "adapter_down.0.bias": "wi/bias",
  "adapter_up.weight": "wo/kernel",
  "adapter_up.bias": "wo/bias",
}


def _sublayers(
  modules: Sequence[exchange.Module],
) -> Iterator[tuple[str, str, str]]:
  """Yields sublayers of theirs, their setting, and the paths of ours."""
  for name, places in modules:
    for end, setting in _SETTINGS.items():
      if name.endswith(f".{end}"):
        sublayer = re.sub(r"\.(dense|\w+\.w?o)$", "", name)
        yield sublayer, setting, places[0].rpartition("/")[0]
        break


def _read(directory: exchange.Directory) -> exchange.Imported:
  """Reads adapters of Houlsby or Pfeiffer of `adapters`."""
  settings = directory.settings
  needed = _SUBLAYERS.keys() - {"cross_adapter", "output_adapter"}
  needed |= {"original_ln_before", "non_linearity", "reduction_factor"}
  if lacking := sorted(needed - settings.keys()):
    raise UserError(f"{directory.name} does not say {', '.join(lacking)}")
  name = settings["non_linearity"]
  if name is None or name.lower() not in directory.activations:
    raise UserError(
      f"{directory.name} has non_linearity = {name!r}, which is not built "
      f"here; known: {', '.join(directory.activations)}"
    )
  at_end = settings["original_ln_before"]
  placed = [setting for setting in _SUBLAYERS if settings.get(setting)]
  if at_end and placed != ["output_adapter"]:
    raise UserError(
      f"{directory.name} has original_ln_before = True and adapters behind "
      "attention, which are not read here; known: adapters behind feed-forward "
      "networks alone with it (seq_bn), or behind both without it "
      "(double_seq_bn)"
    )
  found, width = {}, None
  for module, setting, sublayer in _sublayers(directory.modules):
    if setting not in placed:
      continue
    place = sublayer.rpartition("/")[0] if at_end else sublayer
    for theirs, ours in _LEAVES.items():
      array = directory.take(f"{module}.{theirs}", None)
      if array is None:
        raise UserError(
          f"{directory.name} is of another base: it lacks {theirs} of {module}"
        )
      found[f"{place}/adapter/{ours}"] = array.T
    width = len(found[f"{place}/adapter/wi/bias"])
    model_width = directory.shape("token_embedder/embedding")[1]
    if found[f"{place}/adapter/wi/kernel"].shape != (model_width, width):
      raise UserError(
        f"{directory.name} is of another base: its adapters read "
        f"{len(found[f'{place}/adapter/wi/kernel'])} numbers, and the base's "
        f"layers have {model_width}"
      )
  bindings = {
    "ADAPTER_DIM": width,
    "adapter/Mlp.activation": directory.activations[name.lower()],
  }
  if not at_end:
    expression = "|".join(_SUBLAYERS[setting] for setting in placed)
    bindings["sequential_adapters.sublayers"] = f".*layers/({expression})"
  return exchange.Imported(
    f"peft/{'pfeiffer' if at_end else 'houlsby'}.gin", bindings, found
  )


def _write(trained: exchange.Trained) -> exchange.Written:
  """Writes adapters of Houlsby or Pfeiffer for `adapters`."""
  parts = [part for _, part in substitution.named_parts(trained.model)]
  at_end = any(isinstance(part, EndAdapted) for part in parts)
  tensors, placed = {}, {setting: set() for setting in _SUBLAYERS}
  for module, setting, sublayer in _sublayers(trained.modules):
    place = sublayer.rpartition("/")[0] if at_end else sublayer
    has = f"{place}/adapter/wi/kernel" in trained
    has &= setting == "output_adapter" or not at_end
    placed[setting].add(has)
    for theirs, ours in _LEAVES.items() if has else ():
      name = f"{place}/adapter/{ours}"
      if name not in trained:
        raise UserError(
          f"adapters of `adapters` have biases, and this model lacks {name}"
        )
      tensors[f"{module}.{theirs}"] = trained[name].T
  if any(len(some) > 1 for some in placed.values()) or placed[
    "output_adapter"
  ] != {True}:
    raise UserError(
      "adapters of `adapters` lie behind the feed-forward networks of all "
      "layers, and behind the attention of all or none; bind "
      "sequential_adapters.sublayers to it"
    )
  adapter = next(part.adapter for part in parts if hasattr(part, "adapter"))
  width = trained.model.token_embedder.features
  return {name: known[0] for name, known in _HUB.values.items()} | {
    "mh_adapter": placed["mh_adapter"] == {True},
    "cross_adapter": placed["cross_adapter"] == {True},
    "original_ln_before": at_end,
    "non_linearity": adapter.activation,
    "reduction_factor": reduction_factor(width, adapter.d_ff),
  }, tensors


def reduction_factor(width: int, hidden: int) -> float:
  """Returns the setting of `adapters` for hidden units in a model of a width.

  It makes as many units as the width over it, rounded down.
  """
  return width / (hidden + 0.5 * (width % hidden > 0))


# Both forms; one setting decides between them.
_HUB = exchange.Exchange(
  library=exchange.ADAPTERS,
  kind=None,
  read=_read,
  write=_write,
  values={
    "adapter_residual_before_ln": (False,),
    "dropout": (0.0,),
    "inv_adapter": (None,),
    "is_parallel": (False,),
    "leave_out": ([],),
    "ln_after": (False,),
    "ln_before": (False,),
    "original_ln_after": (True,),
    "output_adapter": (True,),
    "phm_layer": (False,),
    "residual_before_ln": (True,),
    "scaling": (1.0,),
    "stochastic_depth": (0.0,),
    "use_gating": (False,),
  },
  # How adapters begin, and settings of parametrized matrices.
  others="cross_adapter|mh_adapter|original_ln_before|non_linearity"
  "|reduction_factor|init_weights(_seed)?|inv_adapter_reduction_factor|.*phm.*"
  "|hypercomplex_.*",
)
_ADDS = r".*/adapter/.*"
ADAPTERS = Method(
  name="adapters",
  parts=(Adapted,),
  adds=r".*/(adapter|pre_adapter_layer_norm)/.*",
)
END_ADAPTERS = Method(
  name="end_adapters", parts=(EndAdapted,), adds=_ADDS, exchanges=(_HUB,)
)
SEQUENTIAL_ADAPTERS = Method(
  name="sequential_adapters",
  parts=(SequentiallyAdapted,),
  adds=_ADDS,
  exchanges=(_HUB,),
)
PARALLEL_ADAPTERS = Method(
  name="parallel_adapters", parts=(ParallelAdapted,), adds=_ADDS
)


_LAYERS = EncoderLayer | DecoderLayer | MergedDecoderLayer


@gin.register
def adapters(adapter: nn.Module) -> Rule:
  """Ends each layer of encoder and decoder with an adapter.

  Args:
    adapter: a feed-forward network; each layer has parameters of its own.
  """

  @ADAPTERS.rule(kind=_LAYERS)
  def rule(name: str, part: nn.Module) -> nn.Module:
    del name
    return substitution.extended(part, Adapted, adapter=adapter.copy())

  return rule


@gin.register
def end_adapters(adapter: nn.Module) -> Rule:
  """Adds an adapter of the stream to the last sublayer of each layer.

  Args:
    adapter: a feed-forward network; each layer has parameters of its own.
  """

  @END_ADAPTERS.rule(kind=_LAYERS)
  def rule(name: str, part: nn.Module) -> nn.Module:
    del name
    return substitution.extended(part, EndAdapted, adapter=adapter.copy())

  return rule


@gin.register
def sequential_adapters(adapter: nn.Module, sublayers: str) -> Rule:
  """Puts an adapter behind sublayers, before they join the residual stream.

  Args:
    adapter: a feed-forward network; each sublayer has parameters of its own.
    sublayers: a regular expression that matches the whole names of the
      sublayers, like `encoder/layers/attention`.
  """

  @SEQUENTIAL_ADAPTERS.rule(sublayers)
  def rule(name: str, part: nn.Module) -> nn.Module:
    del name
    return substitution.extended(
      part, SequentiallyAdapted, adapter=adapter.copy()
    )

  return rule


@gin.register
def parallel_adapters(
  adapter: nn.Module, sublayers: str, scale: float = 4.0
) -> Rule:
  """Puts an adapter beside sublayers.

  Args:
    adapter: a feed-forward network; each sublayer has parameters of its own.
    sublayers: as for `sequential_adapters`.
    scale: a constant factor of what the adapters give.
  """

  @PARALLEL_ADAPTERS.rule(sublayers)
  def rule(name: str, part: nn.Module) -> nn.Module:
    del name
    return substitution.extended(
      part, ParallelAdapted, adapter=adapter.copy(), scale=scale
    )

  return rule
