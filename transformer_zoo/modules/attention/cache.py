"""Keys and values kept from one decoding step to the next.

They live in the `cache` collection of the module that owns them, so a stack
built by scan carries them stacked like its parameters. They are kept as
[B, H, K, M] or [B, H, M, K], which the products of attention read as they are:
any other layout is copied at every step. Which one is faster on CPUs depends on
how many queries share the keys (docs/log/performance.md).

A row may have W outputs in the making, beams or samples, which are read as W
tokens of one position. Slot `position * W + w` holds what output w had there. A
beam that continues another one reads that one's slots: nothing is copied, a
mask says whose slot is read. The keys of a memory are shared by all W, and so
are the keys of a prompt, which lie in the first slots: prompts end in the last
of these, shorter ones begin later.
"""

from collections.abc import Callable

from flax import linen as nn
from flax import struct
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo.errors import UserError
from transformer_zoo.modules.positions import Positions

# Keys and values, or values alone where scores need no keys.
KeyValue = tuple[jax.Array, jax.Array] | tuple[jax.Array]


@struct.dataclass
class Decoding:
  """The state of decoding.

  Attributes:
    position: The number of tokens that every output has, int32 scalar; None
      while the prompt is read.
    ancestors_BWL: The output whose slot each output reads at each position;
      None if each reads its own.
    prompt_BP: True for the slots of the prompt that hold a token; None without
      a prompt.
    length: positions to make room for; static.
    width: W, tokens of one position; static.
    slots_last: keep [B, H, K, M], as T5X does, and not [B, H, M, K]; static.
  """

  position: jax.Array | None
  ancestors_BWL: jax.Array | None = None
  prompt_BP: jax.Array | None = None
  length: int = struct.field(pytree_node=False, kw_only=True)
  width: int = struct.field(pytree_node=False, default=1)
  slots_last: bool = struct.field(pytree_node=False, default=True)

  @property
  def prompt_slots(self) -> int:
    """P, the slots before the slots of the outputs."""
    return 0 if self.prompt_BP is None else self.prompt_BP.shape[1]

  @property
  def positions(self) -> Positions:
    """Those of the outputs' tokens, [1, 1], and of all slots, [1, M].

    They count slots of the prompt: in a row whose prompt begins later all are
    larger by as much, and their differences the same.
    """
    prompt = self.prompt_slots
    made_X = prompt + jnp.repeat(jnp.arange(self.length), self.width)
    return Positions(
      query_1L=jnp.full((1, 1), prompt + self.position),
      key_1M=jnp.concatenate([jnp.arange(prompt), made_X])[None],
    )

  @property
  def places(self) -> tuple[jax.Array, jax.Array]:
    """The places in its text of what is fed, [1 or B, 1], and of all slots."""
    made_1X = jnp.repeat(jnp.arange(self.length), self.width)[None]
    if self.prompt_BP is None:
      return jnp.full((1, 1), self.position), made_1X
    before_BP = jnp.cumsum(self.prompt_BP, axis=1)
    read_B1 = jnp.sum(self.prompt_BP, axis=1, keepdims=True)
    slots_BM = jnp.concatenate(
      [jnp.maximum(before_BP - 1, 0), read_B1 + made_1X], axis=1
    )
    return read_B1 + self.position, slots_BM

  @property
  def mask_B1WM(self) -> jax.Array:
    """The mask of slots of each output: [B or 1, 1, W, P + length * W]."""
    written_L = jnp.arange(self.length) <= self.position
    outputs_W = jnp.arange(self.width)
    ancestors_BWL = self.ancestors_BWL
    if ancestors_BWL is None:
      ancestors_BWL = jnp.broadcast_to(
        outputs_W[None, :, None], (1, self.width, self.length)
      )
    read_BWLW = ancestors_BWL[..., None] == outputs_W[None, None, None]
    read_BWLW &= written_L[None, None, :, None]
    made_B1WX = read_BWLW.reshape(-1, 1, self.width, self.length * self.width)
    if self.prompt_BP is None:
      return made_B1WX
    rows, prompt = self.prompt_BP.shape
    return jnp.concatenate(
      [
        jnp.broadcast_to(
          self.prompt_BP[:, None, None], (rows, 1, self.width, prompt)
        ),
        jnp.broadcast_to(made_B1WX, (rows, *made_B1WX.shape[1:])),
      ],
      axis=-1,
    )


def check_room(num_positions: int | None, decoding: Decoding) -> None:
  """Raises UserError where a table of learned positions is too short.

  Args:
    num_positions: The rows of the table; None without a table.
    decoding: The state of decoding, prompt included.
  """
  prompt, made = decoding.prompt_slots, decoding.length
  if num_positions is None or prompt + made <= num_positions:
    return
  raise UserError(
    f"a prompt of {prompt} tokens and {made} that are made need "
    f"{prompt + made} positions, but LearnedPositions.num_positions is "
    f"{num_positions}; shorten the inputs or DecodingOptions.max_length"
  )


def continued(kept_BWX: jax.Array, decoding: Decoding) -> jax.Array:
  """What the outputs continue, of what was kept of each output, [B, W, ...]."""
  if decoding.ancestors_BWL is None:
    return kept_BWX
  # All outputs continue the prompt alike.
  before = jnp.maximum(decoding.position - 1, 0)
  parents_BW = jnp.take(decoding.ancestors_BWL, before, axis=2)
  ones = (1,) * (kept_BWX.ndim - 2)
  return jnp.take_along_axis(
    kept_BWX, parents_BW.reshape(*parents_BW.shape, *ones), axis=1
  )


def append(
  module: nn.Module, new_BLHK: KeyValue, decoding: Decoding
) -> KeyValue:
  """Writes keys and values at the position; returns all slots.

  Slots not yet written hold zeros: the caller's mask must hide them. While the
  prompt is read, returns what it is given: the tokens of the prompt see each
  other. The last of them is fed again with position 0 and is not kept.
  """
  slots = decoding.prompt_slots + decoding.length * decoding.width
  first = 0
  if decoding.position is not None:
    first = decoding.prompt_slots + decoding.position * decoding.width
  slot_axis = 3 if decoding.slots_last else 2
  kept = []
  names = ("cached_key", "cached_value")[-len(new_BLHK) :]
  for name, new in zip(names, new_BLHK, strict=True):
    batch, _, heads, head_dim = new.shape
    shape = [batch, heads, head_dim]
    shape.insert(slot_axis, slots)
    cached = module.variable("cache", name, jnp.zeros, shape, new.dtype)
    written = new
    if decoding.position is None:
      written = new[:, : decoding.prompt_slots]
    cached.value = _laid_out(
      jax.lax.dynamic_update_slice_in_dim(
        cached.value, _to_kept(written, decoding), first, axis=slot_axis
      ),
      decoding,
    )
    kept.append(_from_kept(cached.value, decoding))
  return new_BLHK if decoding.position is None else tuple(kept)


def compute_once(
  module: nn.Module,
  project: Callable[[], KeyValue],
  decoding: Decoding,
  names: tuple[str, str] = ("cached_key", "cached_value"),
) -> KeyValue:
  """Keys and values of a memory that stays: projected at the first step.

  `names` are those of the variables that keep them.
  """
  of_keys, of_values = names
  if not module.has_variable("cache", of_keys):
    key, value = project()
    # Without a barrier XLA moves the transposition into the loop over steps.
    kept = jax.lax.optimization_barrier(
      (_to_kept(key, decoding), _to_kept(value, decoding))
    )
    module.variable("cache", of_keys, lambda: _laid_out(kept[0], decoding))
    module.variable("cache", of_values, lambda: _laid_out(kept[1], decoding))
    return key, value
  return (
    _from_kept(module.get_variable("cache", of_keys), decoding),
    _from_kept(module.get_variable("cache", of_values), decoding),
  )


def _laid_out(x: jax.Array, decoding: Decoding) -> jax.Array:
  last = ("kv", "length") if decoding.slots_last else ("length", "kv")
  return axes.constrain(x, "batch", "heads", *last)


def _to_kept(x_BMHK: jax.Array, decoding: Decoding) -> jax.Array:
  order = (0, 2, 3, 1) if decoding.slots_last else (0, 2, 1, 3)
  return jnp.transpose(x_BMHK, order)


def _from_kept(x: jax.Array, decoding: Decoding) -> jax.Array:
  """Back to [B, M, H, K]."""
  order = (0, 3, 1, 2) if decoding.slots_last else (0, 2, 1, 3)
  return jnp.transpose(x, order)
