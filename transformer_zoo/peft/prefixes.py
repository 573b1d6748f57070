"""Prefix tuning: trained keys and values in every layer (Li and Liang 2021).

Each attention attends to the keys and values of a prefix before the keys and
values of the tokens. Positions of tokens count the prefix, as in the authors'
code, in the code of P-tuning v2 (Liu et al. 2022) and in `peft`; a relative
position bias adds nothing to the scores of a prefix.
"""

from collections.abc import Callable, Mapping
import re
from typing import Any

from flax import linen as nn
from flax import traverse_util
import gin
import jax
import jax.numpy as jnp
import numpy as np

from transformer_zoo import axes
from transformer_zoo.architectures.transformer import Transformer
from transformer_zoo.errors import UserError
from transformer_zoo.modules import initializers
from transformer_zoo.modules.attention import cache
from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.attention.attention import Attention
from transformer_zoo.modules.linear import Linear
from transformer_zoo.modules.parts import part as default_part
from transformer_zoo.modules.positions import Positions
from transformer_zoo.modules.positions import whole_bias
from transformer_zoo.peft import exchange
from transformer_zoo.peft import substitution
from transformer_zoo.peft.method import Method
from transformer_zoo.peft.method import Rule
from transformer_zoo.peft.substitution import Substitute


@gin.register
class Prefix(nn.Module):
  """Keys and values that are parameters themselves (P-tuning v2).

  Attributes:
    length: P.
    init: Their distribution; P-tuning v2's is N(0, 1).
  """

  length: int
  init: Callable = initializers.unit_normal

  @nn.compact
  def __call__(self, features: int) -> tuple[jax.Array, jax.Array]:
    """Returns keys and values, float32 [P, features] each."""
    key_PX, value_PX = (
      self.param(
        name,
        axes.partitioned(self.init, "prompt", "joined_kv"),
        (self.length, features),
        jnp.float32,
      )
      for name in ("key", "value")
    )
    return key_PX, value_PX


@gin.register
class PrefixNetwork(nn.Module):
  """Keys and values by a network of embeddings, for training alone.

  wo(tanh(wi(embedding))), Li and Liang 2021, section 4.3. Theirs has one
  embedding and one `wi` for all layers; here each attention has its own.
  A directory of `peft` has the keys and values that it gives.

  Attributes:
    length: P.
    features: The width of the embeddings.
    hidden: The width between the matrices; 512 and 800 in the paper.
    wi, wo: The projections.
    init: The distribution of the embeddings.
  """

  length: int
  features: int
  hidden: int = 512
  wi: nn.Module = default_part(Linear, kernel_axes=(None, None), use_bias=True)
  wo: nn.Module = default_part(
    Linear, kernel_axes=(None, "joined_kv"), use_bias=True
  )
  init: Callable = initializers.unit_normal

  @nn.compact
  def __call__(self, features: int) -> tuple[jax.Array, jax.Array]:
    """Returns keys and values, float32 [P, features] each."""
    embedding_PE = self.param(
      "embedding",
      axes.partitioned(self.init, "prompt", None),
      (self.length, self.features),
      jnp.float32,
    )
    hidden = jnp.tanh(self.wi(embedding_PE, self.hidden))
    key_PX, value_PX = jnp.split(self.wo(hidden, 2 * features), 2, axis=-1)
    return key_PX, value_PX

  @nn.nowrap
  def kept(self, params: Mapping[str, Any]) -> dict[str, jax.Array]:
    """Returns the parameters of the `Prefix` that the network gives."""
    width = params["wo"]["bias"].shape[-1] // 2
    key_PX, value_PX = self.apply({"params": params}, width)
    return {"key": key_PX, "value": value_PX}


class Prefixed(Substitute, nn.Module, kw_only=True):
  """An attention that also attends to a prefix.

  Attributes:
    prefix: gives its keys and values.
  """

  prefix: nn.Module

  def _preceded(self, key_BMGK, value_BMGK, mask_B1LM, bias_1HLM):
    if self.relative_vectors is not None:
      raise UserError(
        "a prefix has no distance to the tokens, which RelativeVectors need; "
        "choose attentions without them by prefix.attentions"
      )
    batch, _, heads, head_dim = key_BMGK.shape
    prefix = self.prefix(heads * head_dim)
    key_BPGK, value_BPGK = (
      jnp.broadcast_to(
        x.astype(key_BMGK.dtype).reshape(1, -1, heads, head_dim),
        (batch, self.prefix.length, heads, head_dim),
      )
      for x in prefix
    )
    # No kernel knows of a prefix: mask and bias are arrays, of any form before.
    mask_B1LM = masks.whole(mask_B1LM)
    bias_1HLM = whole_bias(bias_1HLM)
    before = (0, 0), (0, 0), (0, 0), (self.prefix.length, 0)
    if mask_B1LM is not None:
      mask_B1LM = jnp.pad(mask_B1LM, before, constant_values=True)
    if bias_1HLM is not None and bias_1HLM.shape[-1] == key_BMGK.shape[1]:
      bias_1HLM = jnp.pad(bias_1HLM, before)
    return (
      jnp.concatenate([key_BPGK, key_BMGK], axis=1),
      jnp.concatenate([value_BPGK, value_BMGK], axis=1),
      mask_B1LM,
      bias_1HLM,
    )


class Offset(Substitute, nn.Module, kw_only=True):
  """A Transformer in which the position of every token counts a prefix.

  Attributes:
    prefix_length: P.
    biased: Whether the prefix has positions 0 to P - 1 for a relative position
      bias, as in `transformers`; not for packed texts, whose distances to it
      their places in the row do not show it.
  """

  prefix_length: int
  biased: bool = False

  @nn.compact
  def __call__(
    self,
    x_BLD: jax.Array,
    *layer_arguments: jax.Array,
    positions: Positions | None = None,
    token_positions_1L: jax.Array | None = None,
    decoding: cache.Decoding | None = None,
    **keywords,
  ) -> jax.Array:
    """As `Transformer`."""
    self._check(x_BLD.shape[1], decoding, token_positions_1L)
    if positions is None:
      positions = Positions.of_length(x_BLD.shape[1])
    if token_positions_1L is None:
      token_positions_1L = positions.query_1L
    key_1M = positions.key_1M + self.prefix_length
    if self.biased:
      prefix_1P = jnp.broadcast_to(
        jnp.arange(self.prefix_length), (len(key_1M), self.prefix_length)
      )
      key_1M = jnp.concatenate([prefix_1P, key_1M], axis=1)
    if decoding is not None:
      keywords["decoding"] = decoding
    return super().__call__(
      x_BLD,
      *layer_arguments,
      positions=positions.replace(
        query_1L=positions.query_1L + self.prefix_length, key_1M=key_1M
      ),
      token_positions_1L=token_positions_1L + self.prefix_length,
      **keywords,
    )

  def _check(self, length, decoding, token_positions_1L):
    rows = getattr(self.position_embedder, "num_positions", None)
    if rows is not None and decoding is not None:
      cache.check_room(rows - self.prefix_length, decoding)
    elif rows is not None and self.prefix_length + length > rows:
      raise UserError(
        f"a prefix of {self.prefix_length} and rows of {length} tokens need "
        f"{self.prefix_length + length} positions, but "
        f"LearnedPositions.num_positions is {rows}; shorten PREFIX_LENGTH or "
        "TASK_FEATURE_LENGTHS"
      )
    layer = self.layer_stack.layer
    packed = token_positions_1L is not None and decoding is None
    attention = getattr(
      layer, "attention", getattr(layer, "self_attention", None)
    )
    if packed and (self.biased or getattr(attention, "rotary", None)):
      raise UserError(
        "the distance of a prefix to a packed text is not known to rotary "
        "positions or to positions_after_prefix.biased; bind train.packing = "
        "False"
      )


def _read(directory: exchange.Directory) -> exchange.Imported:
  """Reads prefixes of `peft`, one tensor of all layers."""
  settings = directory.settings
  length = settings["num_virtual_tokens"]
  stack, places = _attentions(directory)
  width = directory.shape(f"{places[0]}/key/kernel")[-1]
  of_both = settings.get("num_transformer_submodules") == 2
  # Of the four of a layer of theirs, two go to the attention to an encoder,
  # where they are dropped; and their list of all is repeated to have as many.
  step = 4 if of_both else 2
  layers = max(settings.get("num_layers") or 0, len(places))
  vectors = directory.require(
    "prompt_embeddings", [(length, 2 * layers * width)]
  )
  parts = np.split(vectors, 2 * layers, axis=1)
  found = {}
  for index, place in enumerate(places):
    first = step * index % len(parts)
    found[f"{place}/prefix/key"] = parts[first]
    found[f"{place}/prefix/value"] = parts[first + 1]
  names = exchange.names_of(places)
  return exchange.Imported(
    "peft/p_tuning_v2.gin",
    {
      "PREFIX_LENGTH": length,
      "PREFIX_ATTENTIONS": exchange.expression_of(names),
      "positions_after_prefix.stacks": stack,
      "positions_after_prefix.biased": "relpos_bias"
      in " ".join(directory.base),
    },
    found,
  )


def _attentions(directory: exchange.Directory) -> tuple[str, list[str]]:
  """The stack of a prefix of theirs, and its attentions in order."""
  writes = any(name.startswith("decoder/") for name in directory.base)
  stack = "decoder" if writes else "encoder"
  expression = rf"{stack}/layers_\d+/(self_)?attention/key/kernel"
  found = (name for name in directory.base if re.fullmatch(expression, name))
  return stack, sorted(
    (name.removesuffix("/key/kernel") for name in found), key=_layer
  )


def _layer(name: str) -> int:
  return int(re.search(r"\d+", name)[0])


def _write(trained: exchange.Trained) -> exchange.Written:
  """Writes a directory of `peft`, without the networks of training."""
  prefixed = {
    name: part
    for name, part in substitution.named_parts(trained.model)
    if isinstance(part, Prefixed)
  }
  paths = (name.partition("/prefix/") for name in trained.tensors)
  places = sorted({path for path, below, _ in paths if below}, key=_layer)
  offers = trained.model.offers
  *_, transformer = offers.transformers.values()
  stack = transformer.layer_stack
  kind = "self_attention" if offers.has_decoder else "attention"
  if len(places) != stack.num_layers or any(
    place.rpartition("/")[2] != kind for place in places
  ):
    raise UserError(
      "`peft` has prefixes in every self-attention of a decoder, or of an "
      f"encoder alone, and these are in {', '.join(places[:3])}, ...; bind "
      f"PREFIX_ATTENTIONS = '.*{kind}'"
    )
  attention = getattr(stack.layer, kind)
  has_bias = transformer.position_bias or attention.position_bias
  if not transformer.biased and has_bias:
    raise UserError(
      "`transformers` gives the scores of a prefix a relative position bias, "
      "and this model does not; train it with "
      "positions_after_prefix.biased = True"
    )
  of_both = len(offers.sides) == 2
  parts = []
  for place in places:
    own = trained.below(f"{place}/prefix")
    prefix = prefixed[exchange.names_of([place])[0]].prefix
    if isinstance(prefix, PrefixNetwork):
      own = prefix.kept(traverse_util.unflatten_dict(own, sep="/"))
    parts += [np.asarray(own["key"]), np.asarray(own["value"])]
    if of_both:  # See `_read`; with as many layers none is repeated.
      parts += [np.zeros_like(parts[-1])] * 2
  vectors = np.concatenate(parts, axis=1)
  heads = attention.num_kv_heads or attention.num_heads
  return {
    "num_virtual_tokens": len(vectors),
    "num_transformer_submodules": 2 if of_both else 1,
    "prefix_projection": False,
    "num_layers": len(parts) // 2,
    "num_attention_heads": heads,
    "token_dim": heads * attention.head_dim,
  }, {"prompt_embeddings": vectors}


_PEFT = exchange.Exchange(
  library=exchange.PEFT,
  kind="PREFIX_TUNING",
  read=_read,
  write=_write,
  sizes=("num_virtual_tokens",),
  others="encoder_hidden_size|prefix_projection|token_dim|num_attention_heads"
  "|num_layers|num_transformer_submodules",
  wraps_modules=False,
)
PREFIX = Method(
  name="prefix",
  parts=(Prefixed, Offset),
  adds=r".*attention/prefix/.*",
  exchanges=(_PEFT,),
)


@gin.register
def prefix(prefix: nn.Module, attentions: str = ".*attention") -> Rule:
  """Puts a prefix before the keys and values of attentions.

  Args:
    prefix: `Prefix` or `PrefixNetwork`; each attention has its own parameters.
    attentions: A regular expression that matches the whole names of the
      attentions.
  """

  @PREFIX.rule(attentions, kind=Attention)
  def rule(name: str, part: nn.Module) -> nn.Module:
    del name
    return substitution.extended(part, Prefixed, prefix=prefix.copy())

  return rule


@gin.register
def positions_after_prefix(
  length: int, stacks: str = "encoder|decoder", biased: bool = False
) -> Rule:
  """Lets the positions of tokens count a prefix.

  Args:
    length: The length of the prefix.
    stacks: A regular expression that matches the whole names of the
      Transformers.
    biased: See `Offset`.
  """

  @PREFIX.rule(stacks, kind=Transformer)
  def rule(name: str, part: nn.Module) -> nn.Module:
    del name
    return substitution.extended(
      part, Offset, prefix_length=length, biased=biased
    )

  return rule
