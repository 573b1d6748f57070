"""Constraints on the next token, independent of the model."""

import dataclasses

import jax
import jax.numpy as jnp

from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.errors import UserError


@dataclasses.dataclass(frozen=True)
class Constraints:
  """All constraints of a search, one after the other.

  A forced token comes even where another constraint forbids it.

  Attributes:
    options: The options that constrain the outputs.
    eos_id: ends an output, as the `end_ids` of the options do; below 0 where
      the vocabulary has none.
    prompt_BP: what was read before the token that is fed first, -1 where there
      is nothing: no n-gram of it comes again.
    forced_BF: what each row begins with, -1 where it goes on freely; after the
      prefix that the options give to all.
  """

  options: DecodingOptions
  eos_id: int
  prompt_BP: jax.Array | None = None
  forced_BF: jax.Array | None = None

  def __post_init__(self):
    if self.options.forced_end and self.eos_id < 0:
      raise UserError(
        "forced_end=True, but the vocabulary has no EOS that could be forced; "
        "leave it out"
      )

  def __call__(
    self, logits_BWV: jax.Array, tokens_BWT: jax.Array, position: jax.Array
  ) -> jax.Array:
    """Logits with forbidden tokens at minus infinity.

    Args:
      logits_BWV: The logits of the next tokens.
      tokens_BWT: `tokens[:, :, :position + 1]` are known; the first is what the
        model was fed first.
      position: The number of tokens that were made.
    """
    options = self.options
    if options.repetition_penalty != 1.0:
      logits_BWV = self._penalised(logits_BWV, tokens_BWT, position)
    if options.no_repeat_ngram_size is not None:
      tokens_BWT, before = self._with_prompt(tokens_BWT)
      logits_BWV = no_repeated_ngram(
        logits_BWV, tokens_BWT, before + position, options.no_repeat_ngram_size
      )
    ends = [end for end in options.ends(self.eos_id) if end >= 0]
    if options.min_length > 1 and ends:
      early = position + 1 < options.min_length
      ends = jnp.asarray(ends)
      logits_BWV = logits_BWV.at[:, :, ends].add(
        jnp.where(early, -jnp.inf, 0.0)
      )
    if options.forbidden_ids:
      forbidden = jnp.asarray(options.forbidden_ids)
      logits_BWV = logits_BWV.at[:, :, forbidden].set(-jnp.inf)
    if (token_B := self._forced(position)) is not None:
      logits_BWV = jnp.where(
        token_B[:, None, None] >= 0,
        only(logits_BWV, token_B[:, None, None]),
        logits_BWV,
      )
    last = self.eos_id if options.forced_end else options.forced_last
    if last is not None:
      logits_BWV = jnp.where(
        self._is_last(position), only(logits_BWV, last), logits_BWV
      )
    return logits_BWV

  def is_forced(self, position: jax.Array) -> jax.Array:
    """Whether the token made at a position is forced, bool [B or 1, 1]."""
    forced_B1 = jnp.zeros((1, 1), bool)
    if (token_B := self._forced(position)) is not None:
      forced_B1 |= token_B[:, None] >= 0
    if self.options.forced_end or self.options.forced_last is not None:
      forced_B1 |= self._is_last(position)
    return forced_B1

  def is_end(self, tokens: jax.Array) -> jax.Array:
    """Whether each token ends its output, bool of the same shape."""
    first, *others = self.options.ends(self.eos_id)
    ends = tokens == first
    for end in others:
      ends |= tokens == end
    return ends

  def _is_last(self, position):
    return position == self.options.max_length - 1

  def _forced(self, position):
    """The tokens forced at a position [B or 1], -1 where none is, or None."""
    common = self.options.forced_prefix
    if not common and self.forced_BF is None:
      return None
    if not common:
      return self._of_its_own(position)
    token_B = jnp.where(
      position < len(common),
      _at(jnp.asarray([common], jnp.int32), position),
      self._of_its_own(position - len(common)),
    )
    if not self.options.forced_after_start or self.prompt_BP is None:
      return token_B
    is_start_B = ~jnp.any(self.prompt_BP >= 0, axis=1)
    return jnp.where(is_start_B, token_B, self._of_its_own(position))

  def _of_its_own(self, place):
    """The token forced at a place of each row's own prefix, -1 for none."""
    if self.forced_BF is None:
      return jnp.full((1,), -1)
    return _at(self.forced_BF, place)

  def _penalised(self, logits_BWV, tokens_BWT, position):
    """Logits of which what was read or made before is less likely."""
    tokens_BWT, before = self._with_prompt(tokens_BWT)
    known_11T = jnp.arange(tokens_BWT.shape[2])[None, None] <= before + position
    is_known_BWT = known_11T & (tokens_BWT >= 0)
    rows_B11 = jnp.arange(tokens_BWT.shape[0])[:, None, None]
    outputs_1W1 = jnp.arange(tokens_BWT.shape[1])[None, :, None]
    seen_BWV = jnp.zeros(logits_BWV.shape, bool)
    seen_BWV = seen_BWV.at[rows_B11, outputs_1W1, tokens_BWT].max(is_known_BWT)
    penalty = self.options.repetition_penalty
    less_BWV = jnp.where(
      logits_BWV < 0, logits_BWV * penalty, logits_BWV / penalty
    )
    return jnp.where(seen_BWV, less_BWV, logits_BWV)

  def _with_prompt(self, tokens_BWT):
    """All tokens known, and how many there are before the first made."""
    if self.prompt_BP is None:
      return tokens_BWT, 0
    rows, width, _ = tokens_BWT.shape
    before = self.prompt_BP.shape[1]
    prompt_BWP = jnp.broadcast_to(
      self.prompt_BP[:, None], (rows, width, before)
    )
    return jnp.concatenate([prompt_BWP, tokens_BWT], axis=-1), before


def only(logits_BWV: jax.Array, token: jax.Array) -> jax.Array:
  """Forbids every other token; that one gets 0."""
  ids_11V = jnp.arange(logits_BWV.shape[-1])[None, None]
  row_11V = jnp.where(ids_11V == token, 0.0, -jnp.inf)
  return jnp.broadcast_to(row_11V.astype(logits_BWV.dtype), logits_BWV.shape)


def no_repeated_ngram(
  logits_BWV: jax.Array, tokens_BWT: jax.Array, position: jax.Array, size: int
) -> jax.Array:
  """Forbids each token that would end an n-gram that is already there.

  What the model was fed first counts, as in `transformers`
  (NoRepeatNGramLogitsProcessor); ids below 0 are no tokens.
  """
  length = tokens_BWT.shape[-1]
  if length < size:
    return logits_BWV
  number = length - size + 1
  starts = jnp.arange(number)
  # Place s begins an n-gram that is there if it ends at the position or before.
  same_BWS = jnp.broadcast_to(
    starts + size - 1 <= position, (*tokens_BWT.shape[:2], number)
  )
  for offset in range(size - 1):
    last_BW1 = jnp.take(
      tokens_BWT, (position - size + 2 + offset)[None], axis=2, mode="clip"
    )
    some_BWS = tokens_BWT[:, :, offset : offset + number]
    same_BWS &= some_BWS == last_BW1
  ends_BWS = tokens_BWT[:, :, size - 1 :]
  same_BWS &= ends_BWS >= 0
  rows_B11 = jnp.arange(tokens_BWT.shape[0])[:, None, None]
  beams_1W1 = jnp.arange(tokens_BWT.shape[1])[None, :, None]
  return logits_BWV.at[rows_B11, beams_1W1, ends_BWS].add(
    jnp.where(same_BWS, -jnp.inf, 0.0)
  )


def _at(forced_BF: jax.Array, place: jax.Array) -> jax.Array:
  """The token forced at a place of the prefixes, -1 where there is none."""
  # A negative place would count from the end.
  place = jnp.where(place < 0, forced_BF.shape[1], place)
  return jnp.take(forced_BF, place, axis=1, mode="fill", fill_value=-1)
