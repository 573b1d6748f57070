"""Beam search, by the rules of T5X or of `transformers`.

Each step takes the 2 W likeliest continuations of a row's W live beams, so that
W of them go on though every beam may end (W more for each further end). What
ends competes for W places among the finished by its log-likelihood divided by a
length penalty. Sources:
`t5x/decoding.py` (`beam_search`), `transformers/generation/utils.py`
(`_beam_search`); T5X has the penalty of Wu et al. 2016, section 7.
"""

from typing import Any

from flax import struct
import jax
import jax.numpy as jnp

from transformer_zoo.decoding import constraints
from transformer_zoo.decoding import interface
from transformer_zoo.decoding.interface import take_outputs
from transformer_zoo.decoding.options import DecodingOptions


@struct.dataclass
class Hypotheses:
  """W outputs of each row, best first; a score of -inf is an empty place.

  Attributes:
    tokens: int32 [B, W, T].
    sums: The sums of log-probabilities, [B, W].
    scores: [B, W].
    likelihoods: log-likelihoods by the model [B, W], where a penalty or
      normalization makes the sums something else; None where they are these.
  """

  tokens: jax.Array
  sums: jax.Array
  scores: jax.Array
  likelihoods: jax.Array | None = None

  def best(self, count: int) -> tuple["Hypotheses", jax.Array]:
    """The `count` of the highest scores, and which they are [B, count]."""
    _, chosen_BC = jax.lax.top_k(self.scores, count)
    return self.take(chosen_BC), chosen_BC

  def take(self, chosen_BC: jax.Array) -> "Hypotheses":
    """Those of given numbers."""
    return jax.tree.map(lambda x: take_outputs(x, chosen_BC), self)

  def with_others(self, others: "Hypotheses") -> "Hypotheses":
    """Both, side by side."""
    return jax.tree.map(
      lambda *pair: jnp.concatenate(pair, axis=1), self, others
    )


@struct.dataclass
class Beams:
  """The state of a search.

  Attributes:
    position: int32 scalar.
    live: the unfinished; their scores are their sums.
    parents: [B, W], the live beam of the step before that each one continues.
    finished: The beams that have ended.
    open: [B], whether a row can still get better.
    state: The state of the model.
  """

  position: jax.Array
  live: Hypotheses
  parents: jax.Array
  finished: Hypotheses
  open: jax.Array
  state: Any


def beam_search(
  step: interface.Step,
  state: Any,
  first_B: jax.Array,
  *,
  options: DecodingOptions,
  constrain: constraints.Constraints,
  limits_B: jax.Array,
  pad_id: int,
) -> interface.Outputs:
  """Searches; see `search.search` for the arguments."""

  def advance(beams: Beams) -> Beams:
    fed_BW = interface.read(beams.live.tokens, beams.position)
    logits_BWV, state = step(fed_BW, beams.parents, beams.position, beams.state)
    candidates, parents_BC = _continue(
      beams.live, logits_BWV, beams.position, options, constrain
    )
    made = beams.position + 1
    ends_BC = constrain.is_end(interface.read(candidates.tokens, made))
    if options.beam_rules == "transformers":
      ends_BC |= made == options.max_length
    sums_BC = jnp.where(ends_BC, -jnp.inf, candidates.sums)
    live, chosen_BW = candidates.replace(sums=sums_BC, scores=sums_BC).best(
      options.num_beams
    )
    finished = _finish(
      beams, candidates, ends_BC, _penalty(made, options), options
    )
    return Beams(
      position=made,
      live=live,
      parents=take_outputs(parents_BC, chosen_BW),
      finished=finished,
      open=beams.open
      & (made < limits_B)
      & _can_improve(live, finished, made, options),
      state=state,
    )

  def going(beams: Beams):
    return (beams.position < options.max_length) & jnp.any(beams.open)

  beams = _start(state, first_B, options, pad_id)
  # The first step is outside of the loop: it may change how the state is built.
  beams = jax.lax.while_loop(going, advance, advance(beams))
  found = beams.finished
  if options.beam_rules == "t5x":
    found = _filled_up(found, beams.live, _penalty(beams.position, options))
  found = found.take(
    jnp.broadcast_to(
      jnp.arange(options.num_return), (first_B.shape[0], options.num_return)
    )
  )
  likelihoods = found.sums if found.likelihoods is None else found.likelihoods
  # Logits that are no numbers would leave places that look empty. Not in all
  # beams: of those that end at once, none is left.
  broken_B1 = jnp.any(jnp.isnan(beams.live.sums), axis=1, keepdims=True)
  scores = jnp.where(broken_B1, jnp.nan, found.scores)
  return interface.Outputs(found.tokens[:, :, 1:], likelihoods, scores)


def _start(state, first_B, options, pad_id) -> Beams:
  rows, width = first_B.shape[0], options.num_beams
  tokens_BWT = interface.start(first_B, width, options.max_length, pad_id)
  empty_BW = jnp.full((rows, width), -jnp.inf)
  # One beam: others like it would make the same outputs.
  sums_BW = empty_BW.at[:, 0].set(0.0)
  same = options.repetition_penalty == 1.0 and not options.renormalize
  likelihoods = (None, None) if same else (sums_BW, empty_BW)
  return Beams(
    position=jnp.asarray(0, jnp.int32),
    live=Hypotheses(tokens_BWT, sums_BW, sums_BW, likelihoods[0]),
    parents=jnp.broadcast_to(jnp.arange(width), (rows, width)),
    finished=Hypotheses(tokens_BWT, empty_BW, empty_BW, likelihoods[1]),
    open=jnp.ones(rows, bool),
    state=state,
  )


def _continue(live, logits_BWV, position, options, constrain):
  """The likeliest continuations, best first, and what they continue."""
  if options.repetition_penalty != 1.0:  # Of beams it is on probabilities.
    logits_BWV = jax.nn.log_softmax(logits_BWV)
  allowed_BWV = constrain(logits_BWV, live.tokens, position)
  total_BW = jax.nn.logsumexp(
    allowed_BWV if options.renormalize else logits_BWV, axis=-1
  )
  is_forced = constrain.is_forced(position)
  # Where nothing is allowed the total is -inf, as the logits are.
  is_free = ~(is_forced | jnp.isneginf(total_BW))
  sums_BW = live.sums - jnp.where(is_free, total_BW, 0.0)
  # Enough that `num_beams` of them do not end.
  count = (1 + len(options.ends(constrain.eos_id))) * options.num_beams
  # First of each beam: that needs no copy of what all beams could say.
  logits_BWK, token_BWK = jax.lax.top_k(
    allowed_BWV, min(count, allowed_BWV.shape[-1])
  )
  each = logits_BWK.shape[-1]
  sums_BX = (sums_BW[:, :, None] + logits_BWK).reshape(sums_BW.shape[0], -1)
  sums_BC, chosen_BC = jax.lax.top_k(sums_BX, min(count, sums_BX.shape[-1]))
  parents_BC = chosen_BC // each
  token_BC = take_outputs(token_BWK.reshape(sums_BX.shape), chosen_BC)
  tokens_BCT = interface.write(
    take_outputs(live.tokens, parents_BC), token_BC, position
  )
  found = Hypotheses(tokens_BCT, sums_BC, sums_BC)
  if live.likelihoods is not None:
    likelihoods_BWK = jnp.take_along_axis(logits_BWV, token_BWK, axis=-1)
    likelihoods_BWK -= jax.nn.logsumexp(logits_BWV, axis=-1, keepdims=True)
    likelihoods_BWK = live.likelihoods[:, :, None] + jnp.where(
      is_forced[:, :, None], 0.0, likelihoods_BWK
    )
    found = found.replace(
      likelihoods=take_outputs(
        likelihoods_BWK.reshape(sums_BX.shape), chosen_BC
      )
    )
  return found, parents_BC


def _finish(beams, candidates, ends_BC, penalty, options) -> Hypotheses:
  """The best of what had finished and of what finishes now."""
  if options.beam_rules == "transformers":
    ends_BC &= jnp.arange(ends_BC.shape[1])[None] < options.num_beams
  # A row that is closed stays as it is, however long the others take.
  ends_BC &= beams.open[:, None]
  ended = candidates.replace(
    scores=jnp.where(ends_BC, candidates.sums / penalty, -jnp.inf)
  )
  return beams.finished.with_others(ended).best(options.num_beams)[0]


def _penalty(length: jax.Array, options: DecodingOptions) -> jax.Array:
  """Returns the divisor of the log-likelihood of some tokens, EOS counted."""
  length = jnp.asarray(length, jnp.float32)
  if options.beam_rules == "t5x":
    length = (5.0 + length) / 6.0
  return length**options.length_exponent


def _can_improve(live, finished, made, options) -> jax.Array:
  """Whether a row is searched on, [B]."""
  longest = jnp.asarray(options.max_length)
  if options.beam_rules == "transformers" and options.early_stopping != "never":
    best_length = made
  else:
    # Sums only fall: a beam is best where the penalty is largest.
    best_length = longest if options.length_exponent > 0 else made
  best_B = live.sums[:, 0] / _penalty(best_length, options)
  improves_B = best_B > jnp.min(finished.scores, axis=1)
  if options.early_stopping is True:
    improves_B &= jnp.any(jnp.isneginf(finished.scores), axis=1)
  return improves_B


def _filled_up(finished, live, penalty) -> Hypotheses:
  """The finished, and after them, in empty places, the live."""
  both = finished.with_others(live.replace(scores=live.sums / penalty))
  width = finished.scores.shape[1]
  unfinished_X = jnp.arange(2 * width) >= width
  group_BX = jnp.where(
    jnp.isneginf(both.scores), 2, unfinished_X[None].astype(jnp.int32)
  )
  order_BX = jnp.lexsort((-both.scores, group_BX), axis=-1)
  return both.take(order_BX[:, :width])
