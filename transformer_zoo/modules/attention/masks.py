"""Attention masks: boolean, True where a query may attend to a key."""

from flax import struct
import gin
import jax
import jax.numpy as jnp

from transformer_zoo.modules.positions import Positions

# Ids of padding: no query has the id of a key that is padding.
NO_QUERY, NO_KEY = -1, -2


@struct.dataclass
class Mask:
  """A mask, and what decides it: queries see keys of their id in an interval.

  Attributes:
    array_B1LM: The mask, True where a query may attend.
    query_ids_BL: The id of each query, int32 [1 or B, L]; None if all queries
      and keys have the same id.
    key_ids_BM: The id of each key, int32 [1 or B, M]; None as above.
    first_BL: The first key that each query sees, int32 [1 or B, L]; None if
      that is the first of all.
    last_BL: The last key that each query sees; None as above.
    valid_BL: True for tokens, False for padding, where the ids leave it open,
      as causality hides padding too; None otherwise.
    window: The number of tokens from which on nothing is seen, as of
      `window_mask`, if it is a constant; static.
  """

  array_B1LM: jax.Array
  query_ids_BL: jax.Array | None = None
  key_ids_BM: jax.Array | None = None
  first_BL: jax.Array | None = None
  last_BL: jax.Array | None = None
  valid_BL: jax.Array | None = None
  window: int | None = struct.field(pytree_node=False, default=None)

  @property
  def description(self) -> dict[str, jax.Array]:
    """The arrays that decide the mask, by name."""
    names = "query_ids_BL", "key_ids_BM", "first_BL", "last_BL"
    fields = {name: getattr(self, name) for name in names}
    return {name: x for name, x in fields.items() if x is not None}


def whole(mask: jax.Array | Mask | None) -> jax.Array | None:
  """The array of a mask."""
  return mask.array_B1LM if isinstance(mask, Mask) else mask


def tokens(mask: jax.Array | Mask | None) -> jax.Array | None:
  """True for the tokens of a mask of a text that sees itself, [1 or B, L].

  False is padding, which does not see itself; None if there may be none.
  """
  if isinstance(mask, Mask):
    if mask.valid_BL is not None or mask.query_ids_BL is None:
      return mask.valid_BL
    return mask.query_ids_BL > 0
  if mask is None:
    return None
  return jnp.diagonal(mask[:, 0], axis1=1, axis2=2)


def ids_of_tokens(
  valid_BL: jax.Array, segment_ids_BL: jax.Array | None, nothing: int
) -> jax.Array:
  """The ids of tokens for a `Mask`, int32 [B, L].

  Args:
    valid_BL: True for tokens, False for padding.
    segment_ids_BL: The packed example of each token; one for all if None.
    nothing: The id of padding, `NO_QUERY` or `NO_KEY`.
  """
  ids_BL = 1 if segment_ids_BL is None else segment_ids_BL
  return jnp.where(valid_BL, ids_BL, nothing)


def ends_of_runs(
  inside_BL: jax.Array, segment_ids_BL: jax.Array | None = None
) -> jax.Array:
  """The last place of the run of places that each place is in, int32 [B, L].

  A run is of neighbours that are inside, of one packed example; elsewhere a
  place is a run of its own.
  """
  goes_on_BL = inside_BL[:, 1:] & inside_BL[:, :-1]
  if segment_ids_BL is not None:
    goes_on_BL &= segment_ids_BL[:, 1:] == segment_ids_BL[:, :-1]
  length = inside_BL.shape[1]
  goes_on_BL = jnp.pad(goes_on_BL, ((0, 0), (0, 1)))
  ends_BL = jnp.where(goes_on_BL, length, jnp.arange(length))
  return jax.lax.cummin(ends_BL, axis=1, reverse=True)


def places_in_texts(
  mask_B1LM: jax.Array | Mask | None, shape: tuple[int, ...]
) -> jax.Array:
  """The place of each token in its own text, int32 [1 or B, L].

  A text begins where neither a token sees the one before it nor that one,
  which is no padding, sees the token: so packed texts are apart.

  Args:
    mask_B1LM: The mask of tokens that see each other; None if all do.
    shape: B and L.
  """
  length = shape[1]
  places_1L = jnp.arange(length)[None]
  if mask_B1LM is None:
    return places_1L
  seen_BLM = whole(mask_B1LM)[:, 0]
  itself_BL = jnp.diagonal(seen_BLM, axis1=1, axis2=2)
  joined_BX = jnp.diagonal(seen_BLM, -1, axis1=1, axis2=2)
  joined_BX |= jnp.diagonal(seen_BLM, 1, axis1=1, axis2=2) & (
    itself_BL[:, 1:] & itself_BL[:, :-1]
  )
  starts_BL = jnp.pad(~joined_BX, ((0, 0), (1, 0)), constant_values=True)
  return places_1L - jax.lax.cummax(jnp.where(starts_BL, places_1L, 0), axis=1)


def padding_mask(query_valid_BL: jax.Array, key_valid_BM: jax.Array):
  """[B, 1, L, M]: both the query and the key are real tokens."""
  return query_valid_BL[:, None, :, None] & key_valid_BM[:, None, None, :]


def segment_mask(query_ids_BL: jax.Array, key_ids_BM: jax.Array) -> jax.Array:
  """[B, 1, L, M]: query and key belong to the same packed example."""
  return query_ids_BL[:, None, :, None] == key_ids_BM[:, None, None, :]


@gin.register
def causal_mask(length: int) -> jax.Array:
  """[1, 1, L, L]: the key is not after the query."""
  positions = jnp.arange(length)
  return (positions[:, None] >= positions[None, :])[None, None]


@gin.register
def reversed_causal_mask(length: int) -> jax.Array:
  """[1, 1, L, L]: the key is not before the query."""
  return causal_mask(length).swapaxes(-1, -2)


def prefix_mask(prefix_BL: jax.Array) -> jax.Array:
  """[B, 1, L, L]: query and key both belong to the prefix."""
  return prefix_BL[:, None, :, None] & prefix_BL[:, None, None, :]


def window_mask(positions: Positions, window: jax.Array | int) -> jax.Array:
  """[1 or B, 1, L, M]: the key is fewer than `window` tokens away.

  Keys after the query are no nearer than those before it where queries see
  them, unless the window is an array of two, back and ahead.
  """
  back, ahead = _both_ways(window)
  seen_1LM = positions.distance_1LM > -back
  if positions.bidirectional:
    seen_1LM &= positions.distance_1LM < ahead
  return seen_1LM[:, None]


def _both_ways(window: jax.Array | int) -> tuple[jax.Array | int, ...]:
  """A window back and ahead."""
  return tuple(window) if jnp.ndim(window) else (window, window)


def attention_kind_mask(kind_B: jax.Array, second_BL: jax.Array) -> jax.Array:
  """[B, 1, L, L]: who sees whom in UniLM (Dong et al. 2019, figure 1).

  Args:
    kind_B: 0 bidirectional, 1 sequence to sequence (the first segment sees
      itself, the second sees the first and what is not after it), 2 left to
      right, 3 right to left: the places of
      `transformer_zoo.corruption.unified_lm.ATTENTION_KINDS`.
    second_BL: True in the second segment.
  """
  before_11LM = causal_mask(second_BL.shape[1])
  query_B1L1 = second_BL[:, None, :, None]
  key_B11M = second_BL[:, None, None, :]
  kind_B111 = kind_B[:, None, None, None]
  return jnp.where(
    kind_B111 < 2,
    (kind_B111 == 0) | ~key_B11M | (query_B1L1 & before_11LM),
    jnp.where(kind_B111 == 2, before_11LM, before_11LM.swapaxes(-1, -2)),
  )


def attention_kind_interval(
  kind_B: jax.Array,
  second_BL: jax.Array,
  segment_ids_BL: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array]:
  """The first and last key that queries see in UniLM, int32 [B, L] each.

  The second segment follows the first, as in `attention_kind_mask`.
  """
  length = second_BL.shape[1]
  places_1L, kind_B1 = jnp.arange(length)[None], kind_B[:, None]
  first_BL = jnp.where(kind_B1 == 3, places_1L, 0)
  ends_BL = ends_of_runs(~second_BL, segment_ids_BL)
  last_BL = jnp.where(kind_B1 == 1, ends_BL, places_1L)
  everything_B1 = (kind_B1 == 0) | (kind_B1 == 3)
  last_BL = jnp.where(everything_B1, length - 1, last_BL)
  return jnp.broadcast_to(first_BL, last_BL.shape), last_BL


def windowed(
  mask: jax.Array | Mask | None, positions: Positions, window: jax.Array | int
) -> jax.Array | Mask:
  """The mask of those that it allows and that are near enough.

  Args:
    mask: The mask; None if it allows all.
    positions: The positions of queries and keys.
    window: As of `window_mask`.
  """
  array_B1LM = combine(whole(mask), window_mask(positions, window))
  if not positions.counted or not isinstance(mask, Mask | None):
    return array_B1LM
  described = Mask(array_B1LM) if mask is None else mask
  if isinstance(window, int):
    described = described.replace(window=window)
  places_1L = positions.query_1L
  last_1L, memory = described.last_BL, positions.key_1M.shape[1]
  # Windows of all layers are as large as integers are where all are seen.
  back, ahead = _both_ways(jnp.minimum(window, memory))
  first_1L = jnp.maximum(
    0 if described.first_BL is None else described.first_BL,
    places_1L - back + 1,
  )
  if positions.bidirectional:
    last_1L = jnp.minimum(
      memory - 1 if last_1L is None else last_1L, places_1L + ahead - 1
    )
  return described.replace(
    array_B1LM=array_B1LM, first_BL=first_1L, last_BL=last_1L
  )


def within(
  window: jax.Array | int | None,
  mask: jax.Array | Mask | None,
  positions: Positions,
) -> tuple[jax.Array | Mask | None, Positions]:
  """The mask and the positions of a layer that sees near keys.

  Args:
    window: As of `window_mask`, the largest integer for everything; None of a
      stack whose layers all see everything.
    mask: The mask; None if it allows all.
    positions: The positions of queries and keys.
  """
  if window is None:
    return mask, positions
  local = _both_ways(window)[0] < jnp.iinfo(jnp.int32).max
  return windowed(mask, positions, window), positions.replace(local=local)


def combine(*masks: jax.Array | None) -> jax.Array | None:
  """The conjunction of the masks that are given, broadcast together."""
  given = [mask for mask in masks if mask is not None]
  if not given:
    return None
  combined = given[0]
  for mask in given[1:]:
    combined = combined & mask
  return combined
