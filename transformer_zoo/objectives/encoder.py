"""Losses of an encoder's heads: masked tokens, pairs, classes, numbers, spans.

All losses except of whole rows are sums over places: the converter `Encoder`
gives targets and weights place by place and, as `encoder_predicted_places`, the
few places of a row that have a weight; logits are computed of these alone.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
import dataclasses
import functools
from typing import Protocol

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo.errors import UserError
from transformer_zoo.objectives import losses
from transformer_zoo.objectives.interface import Objective
from transformer_zoo.objectives.terms import Term
from transformer_zoo.objectives.terms import with_costs

Batch = Mapping[str, jax.Array]
# (head, places [B, P] or None for all, further inputs of the head) -> float32
# logits [B, P, K].
Logits = Callable[..., jax.Array]


class EncoderLoss(Protocol):
  """One term of an encoder's objective.

  Attributes:
    head: The name of the head, and of the term.
    scale: The factor of the term in the loss.
  """

  head: str
  scale: float

  def __call__(self, logits: Logits, batch: Batch) -> Term:
    """Returns the term; `encoder_real` [B, L] is 0 at a batch's padding."""


@gin.register
@dataclasses.dataclass(frozen=True)
class EncoderObjective(Objective):
  """The sum of the losses of some heads over one batch.

  Attributes:
    losses: The losses; each names its head.
    auxiliary: Further losses, which only help training.
  """

  losses: Sequence[EncoderLoss]
  auxiliary: Sequence[EncoderLoss] = ()

  def check(self, model: nn.Module) -> None:
    """Raises UserError for a model that lacks a head that a loss needs."""
    _check_heads(
      self, model, [each.head for each in (*self.losses, *self.auxiliary)]
    )

  def __call__(
    self,
    model: nn.Module,
    params,
    batch: Batch,
    dropout_key: jax.Array | None = None,
  ) -> dict[str, Term]:
    """The terms of one batch.

    Args:
      model: an `EncoderOnly`.
      params: The parameters of the model.
      batch: what the converter `Encoder` lays out.
      dropout_key: key for dropout; None for no dropout.

    Returns:
      A term for each loss, by its head, and for each cost of a part.
    """
    logits, batch, of_parts = _logits_of(model, params, batch, dropout_key)
    of_heads = {
      each.head: each(logits, batch) for each in (*self.losses, *self.auxiliary)
    }
    return of_heads | of_parts


def _check_heads(
  objective: Objective, model: nn.Module, heads: Iterable[str]
) -> None:
  """Raises UserError for a model that lacks one of the heads."""
  if model.offers.has_decoder:
    raise UserError(
      f"train.objective is @{type(objective).__name__}(), but "
      f"{type(model).__name__} has no heads that it could learn; bind "
      "@SequenceToSequence(), or choose an encoder like architectures/bert.gin"
    )
  for head in heads:
    model.check_head(head)


def _logits_of(
  model: nn.Module, params, batch: Batch, dropout_key: jax.Array | None
) -> tuple[Logits, dict[str, jax.Array], dict[str, Term]]:
  """The logits of heads, the batch with `encoder_real`, and terms of costs."""
  rngs = None if dropout_key is None else {"dropout": dropout_key}
  apply = functools.partial(
    model.apply, {"params": params}, rngs=rngs, deterministic=rngs is None
  )
  hidden_BLD, of_parts = with_costs(apply, batch, method="hidden")
  real_BL = batch["encoder_input_tokens"] != model.pad_id

  def logits(head, places_BP, **inputs):
    return apply(
      hidden_BLD, head, places_BP=places_BP, method="logits", **inputs
    )

  return logits, {**batch, "encoder_real": real_BL}, of_parts


@gin.register
@dataclasses.dataclass(frozen=True)
class MultiTaskObjective(Objective):
  """The mean loss over the examples of several tasks, by a head for each.

  Multi-task fine-tuning with one encoder (MT-DNN; Liu et al. 2019). All
  examples count the same: how often a task is seen is the mixture's matter. The
  loss of each task alone is reported too.

  Attributes:
    losses: The loss of each task by its name, which is its head's; their own
      heads are not read.
  """

  losses: Mapping[str, EncoderLoss]

  def check(self, model: nn.Module) -> None:
    """Raises UserError for a model that has other heads than the tasks'."""
    _check_heads(self, model, self.losses)
    if others := sorted({*model.offers.heads} - {*self.losses}):
      raise UserError(
        f"the model has the head {others[0]!r}, and MultiTaskObjective.losses "
        f"has {', '.join(map(repr, self.losses))}; name a loss for each head"
      )

  def _by_head(self) -> dict[str, EncoderLoss]:
    return {
      task: dataclasses.replace(loss, head=task, scale=1.0)
      for task, loss in sorted(self.losses.items())
    }

  def __call__(
    self,
    model: nn.Module,
    params,
    batch: Batch,
    dropout_key: jax.Array | None = None,
  ) -> dict[str, Term]:
    """The terms of one batch; arguments as of `EncoderObjective.__call__`.

    Returns:
      `tasks`, which is trained, a term of no weight for each task, and a term
      for each cost of a part.
    """
    logits, batch, of_parts = _logits_of(model, params, batch, dropout_key)
    found = {
      task: loss(logits, _of_task(batch, number))
      for number, (task, loss) in enumerate(self._by_head().items())
    }
    total = sum(term.total for term in found.values())
    whole = Term(
      total,
      sum(term.weight for term in found.values()),
      {"loss_sum": sum(t.metrics["loss_sum"] for t in found.values())},
    )
    apart = {task: term.replace(scale=0.0) for task, term in found.items()}
    return {"tasks": whole} | apart | of_parts


def _of_task(batch: Batch, number: int) -> dict[str, jax.Array]:
  """The batch without the targets of other tasks."""
  is_own_BL = batch["encoder_heads"] == number
  own = {
    "encoder_loss_weights": jnp.where(
      is_own_BL, batch["encoder_loss_weights"], 0
    )
  }
  for name in ("answer_starts", "answer_ends"):
    own[name] = jnp.where(is_own_BL[:, 0], batch[name], -1)
  return {**batch, **own}


def example_sums(
  model: nn.Module,
  params,
  batch: Batch,
  *,
  hidden: str = "hidden",
  logits: str = "logits",
) -> dict[str, jax.Array]:
  """Returns the masked-token head's results for each row, without dropout.

  Args:
    model: an `EncoderOnly`.
    params: The parameters of the model.
    batch: what the converter `Encoder` lays out.
    hidden: The method of the hidden states.
    logits: The method of the logits.

  Returns:
    float32 [B] each: `loss_sum`, in nats, `correct_sum` and `weight_sum` of the
    masked tokens, as `sequence_to_sequence.example_sums`.
  """
  apply = functools.partial(model.apply, {"params": params})
  hidden_BLD = apply(batch, method=hidden)
  places_BP, targets_BP, weights_BP = _predicted(batch)
  logits_BPV = apply(hidden_BLD, places_BP=places_BP, method=logits)
  nll_BP, correct_BP = _cross_entropy(logits_BPV, targets_BP)
  return {
    "loss_sum": jnp.sum(nll_BP * weights_BP, axis=1),
    "correct_sum": jnp.sum(correct_BP * weights_BP, axis=1),
    "weight_sum": jnp.sum(weights_BP, axis=1),
  }


@gin.register
@dataclasses.dataclass(frozen=True)
class MaskedTokenLoss:
  """Cross-entropy of masked tokens (Devlin et al. 2019, section 3.1).

  Attributes:
    z_loss: coefficient of the z-loss.
    label_smoothing: The probability that targets leave to other tokens, at
      least 0 and below 1, as `losses.smoothing_cost` has it.
  """

  head: str = "tokens"
  scale: float = 1.0
  z_loss: float = 0.0
  label_smoothing: float = 0.0

  def __post_init__(self):
    if not 0 <= self.label_smoothing < 1:
      raise UserError(
        f"MaskedTokenLoss.label_smoothing is {self.label_smoothing}; it has to "
        "be at least 0 and below 1"
      )

  def __call__(self, logits: Logits, batch: Batch) -> Term:
    """As `EncoderLoss.__call__`."""
    places_BP, targets_BP, weights_BP = _predicted(batch)
    # A fifth of the places need no chunks: all their logits are made at once.
    found = losses.token_losses(
      lambda places: logits(self.head, places),
      places_BP,
      targets_BP,
      z_loss=self.z_loss,
      label_smoothing=self.label_smoothing,
      tokens=targets_BP.size,
    )
    term = _term(
      self.scale, found.nll_BL, found.correct_BL, weights_BP, found.z_BL
    )
    if not self.label_smoothing:
      return term
    smoothing = jnp.sum(found.smoothing_BL * weights_BP)
    return term.replace(total=term.total + smoothing)


@gin.register
@dataclasses.dataclass(frozen=True)
class NextTokenLoss:
  """Cross-entropy of the token that follows each, of the same text.

  The auxiliary loss of GPT's fine-tuning, over all tokens of the input, special
  ones too (Radford et al. 2018, section 3.2, equation 5; its code has 0.5). It
  is a mean over tokens; the code has a mean over texts of their means. With
  that of the token before it is ELMo's (Peters et al. 2018, section 3.1).

  Attributes:
    scale: The weight of the loss.
    logits_chunk: The approximate number of tokens on a device of which there
      are logits at a time.
    offset: The place of the token that is predicted, 1 for the one that
      follows, -1 for the one before.
  """

  head: str = "tokens"
  scale: float = 0.5
  logits_chunk: int = 2048
  offset: int = 1

  def __post_init__(self):
    if self.offset not in (1, -1):
      raise UserError(
        f"NextTokenLoss.offset is {self.offset}; allowed: 1, the token that "
        "follows, and -1, the one before"
      )

  def __call__(self, logits: Logits, batch: Batch) -> Term:
    """As `EncoderLoss.__call__`."""
    tokens_BL = batch["encoder_input_tokens"]
    texts_BL = batch.get("encoder_segment_ids")
    if texts_BL is None:
      texts_BL = batch["encoder_real"].astype(jnp.int32)
    last = -1 if self.offset == 1 else 0
    other_BL = jnp.roll(texts_BL, -self.offset, axis=1).at[:, last].set(0)
    weights_BL = (texts_BL > 0) & (texts_BL == other_BL)
    places_BL = jnp.broadcast_to(
      jnp.arange(tokens_BL.shape[1]), tokens_BL.shape
    )
    found = losses.token_losses(
      lambda places: logits(self.head, places),
      places_BL,
      jnp.roll(tokens_BL, -self.offset, axis=1),
      z_loss=0.0,
      tokens=self.logits_chunk,
    )
    return _term(self.scale, found.nll_BL, found.correct_BL, weights_BL)


@gin.register
@dataclasses.dataclass(frozen=True)
class SpanBoundaryLoss:
  """Cross-entropy of masked tokens by the tokens around their span.

  A span is masked tokens side by side; the tokens around it are of the same
  text, [CLS] and [SEP] among them (Joshi et al. 2020, section 3.2).

  Attributes:
    scale: The weight of the objective, 1 in equation (1).
    longest: The tokens of a span that count, from its first one on; the head's
      `num_offsets`.
  """

  head: str = "span_boundary"
  scale: float = 1.0
  longest: int = 20

  def __call__(self, logits: Logits, batch: Batch) -> Term:
    """As `EncoderLoss.__call__`."""
    places_BP, targets_BP, weights_BP = _predicted(batch)
    left_BL, right_BL = span_boundaries(batch)
    left_BP, right_BP = (
      jnp.take_along_axis(ends_BL, places_BP, axis=1)
      for ends_BL in (left_BL, right_BL)
    )
    offsets_BP = places_BP - left_BP - 1
    has_both_BP = (left_BP >= 0) & (right_BP >= 0) & (offsets_BP < self.longest)
    logits_BPV = logits(
      self.head,
      jnp.maximum(jnp.concatenate([left_BP, right_BP], axis=1), 0),
      offsets_BP=jnp.clip(offsets_BP, 0, self.longest - 1),
    )
    nll_BP, correct_BP = _cross_entropy(logits_BPV, targets_BP)
    return _term(self.scale, nll_BP, correct_BP, weights_BP * has_both_BP)


def span_boundaries(batch: Batch) -> tuple[jax.Array, jax.Array]:
  """The places before and behind the masked tokens around each place.

  Args:
    batch: what the converter `Encoder` lays out, with `encoder_real`.

  Returns:
    int32 [B, L] each: the nearest place to the left, and to the right, that is
    not hidden; -1 where that is of another text, or padding, or not there.
  """
  visible_BL = batch["encoder_loss_weights"] == 0
  length = visible_BL.shape[1]
  places_L = jnp.arange(length)
  left_BL = jax.lax.cummax(jnp.where(visible_BL, places_L, -1), axis=1)
  right_BL = jax.lax.cummin(
    jnp.where(visible_BL, places_L, length), axis=1, reverse=True
  )
  segments_BL = batch.get("encoder_segment_ids")
  if segments_BL is None:
    segments_BL = batch["encoder_real"].astype(jnp.int32)

  def of_same_text(ends_BL):
    inside_BL = (ends_BL >= 0) & (ends_BL < length)
    found_BL = jnp.take_along_axis(
      segments_BL, jnp.clip(ends_BL, 0, length - 1), axis=1
    )
    return jnp.where(inside_BL & (found_BL == segments_BL), ends_BL, -1)

  return of_same_text(left_BL), of_same_text(right_BL)


@gin.register
@dataclasses.dataclass(frozen=True)
class ClassLoss:
  """Cross-entropy of classes: of texts at their first token, or of tokens.

  Attributes:
    head: 'classes' or 'tags'.
  """

  head: str = "classes"
  scale: float = 1.0

  def __call__(self, logits: Logits, batch: Batch) -> Term:
    """As `EncoderLoss.__call__`."""
    places_BP, targets_BP, weights_BP = _predicted(batch)
    logits_BPK = logits(self.head, places_BP)
    nll_BP, correct_BP = _cross_entropy(logits_BPK, targets_BP)
    return _term(self.scale, nll_BP, correct_BP, weights_BP)


@gin.register
@dataclasses.dataclass(frozen=True)
class SentencePairLoss:
  """Cross-entropy of a label of the row, that its first token predicts.

  Attributes:
    head: 'next_sentence', whose class 0 is the sentence that follows (Devlin et
      al. 2019), or 'sentence_order', whose class 0 is the order of the text
      (Lan et al. 2020); the name of the label in the batch. A negative label is
      none.
  """

  head: str = "next_sentence"
  scale: float = 1.0

  def __call__(self, logits: Logits, batch: Batch) -> Term:
    """As `EncoderLoss.__call__`."""
    labels_B1 = batch[self.head][:, None]
    logits_B1K = logits(self.head, jnp.zeros_like(labels_B1))
    nll_B1, correct_B1 = _cross_entropy(logits_B1K, labels_B1)
    return _term(self.scale, nll_B1, correct_B1, labels_B1 >= 0)


@gin.register
@dataclasses.dataclass(frozen=True)
class NumberLoss:
  """Squared error of a number at the first token of a text (STS-B).

  The targets are the bits of float32 numbers.
  """

  head: str = "number"
  scale: float = 1.0

  def __call__(self, logits: Logits, batch: Batch) -> Term:
    """As `EncoderLoss.__call__`."""
    places_BP, targets_BP, weights_BP = _predicted(batch)
    numbers_BP = jax.lax.bitcast_convert_type(targets_BP, jnp.float32)
    # Padding has the bits of no number in particular.
    numbers_BP = jnp.where(weights_BP > 0, numbers_BP, 0.0)
    error_BP = logits(self.head, places_BP)[..., 0] - numbers_BP
    total = jnp.sum(jnp.square(error_BP) * weights_BP)
    return Term(
      total, jnp.sum(weights_BP), {"loss_sum": total}, scale=self.scale
    )


@gin.register
@dataclasses.dataclass(frozen=True)
class ChoiceLoss:
  """Cross-entropy of the right one among the choices of a row.

  A row holds the choices of one question, each a text of its own with a weight
  at its first token and a target there: 1 for the right one and 0 for the
  others. Their scores share one softmax (Devlin et al. 2019, section 4.4).
  """

  head: str = "choice"
  scale: float = 1.0

  def __call__(self, logits: Logits, batch: Batch) -> Term:
    """As `EncoderLoss.__call__`."""
    places_BP, targets_BP, weights_BP = _predicted(batch)
    scores_BP = logits(self.head, places_BP)[..., 0]
    scores_BP = jnp.where(weights_BP > 0, scores_BP, _NEVER)
    right_BP = jnp.where(weights_BP > 0, targets_BP, 0)
    nll_B1, correct_B1 = _cross_entropy(
      scores_BP[:, None], jnp.argmax(right_BP, axis=1)[:, None]
    )
    answered_B1 = jnp.max(right_BP, axis=1, keepdims=True)
    return _term(self.scale, nll_B1, correct_B1, answered_B1)


@gin.register
@dataclasses.dataclass(frozen=True)
class SpanLoss:
  """Mean cross-entropy of the first and the last token of an answer.

  Both have a softmax over the tokens of the row (Devlin et al. 2019, section
  4.2). A text without an answer has both at place 0; a row whose
  `answer_starts` is negative counts for nothing. Correct is a row with both.
  """

  head: str = "spans"
  scale: float = 1.0

  def __call__(self, logits: Logits, batch: Batch) -> Term:
    """As `EncoderLoss.__call__`."""
    logits_B2L = logits(self.head, None).swapaxes(1, 2)
    real_B1L = jnp.expand_dims(batch["encoder_real"], 1)
    logits_B2L = jnp.where(real_B1L, logits_B2L, _NEVER)
    ends_B2 = jnp.stack([batch["answer_starts"], batch["answer_ends"]], axis=1)
    nll_B2, correct_B2 = _cross_entropy(logits_B2L, ends_B2)
    return _term(
      self.scale,
      jnp.mean(nll_B2, axis=1, keepdims=True),
      jnp.min(correct_B2, axis=1, keepdims=True),
      ends_B2[:, :1] >= 0,
    )


@gin.register
@dataclasses.dataclass(frozen=True)
class SpanBeamLoss:
  """`SpanLoss` with the end given the start, and whether there is an answer.

  The head (`modules.span_beam`) is given the start of the answer. A question,
  or a window of its context, without an answer has its start at place 0.

  Attributes:
    answer_scale: The weight of the cross-entropy of there being no answer,
      relative to the mean cross-entropy of start and end; 0.5 in XLNet and
      ELECTRA.
  """

  head: str = "span_beam"
  scale: float = 1.0
  answer_scale: float = 0.5

  def __call__(self, logits: Logits, batch: Batch) -> Term:
    """As `EncoderLoss.__call__`."""
    # A run of another objective does not need the head.
    from transformer_zoo.modules import span_beam

    ends_B2 = jnp.stack([batch["answer_starts"], batch["answer_ends"]], axis=1)
    found_BL3 = logits(
      self.head,
      None,
      may_answer_BL=span_beam.may_answer(batch, batch["encoder_real"]),
      starts_B1=jnp.maximum(ends_B2[:, :1], 0),
    )
    logits_B2L = found_BL3[..., :2].swapaxes(1, 2)
    nll_B2, correct_B2 = _cross_entropy(logits_B2L, ends_B2)
    none_B1 = found_BL3[:, :1, 2]
    is_none_B1 = ends_B2[:, :1] == 0
    nll_B1 = jax.nn.softplus(jnp.where(is_none_B1, -none_B1, none_B1))
    return _term(
      self.scale,
      jnp.mean(nll_B2, axis=1, keepdims=True) + self.answer_scale * nll_B1,
      jnp.min(correct_B2, axis=1, keepdims=True),
      ends_B2[:, :1] >= 0,
    )


# The logit of what cannot be: its exponent is 0, and no gradient is a NaN.
_NEVER = -1e9


def _predicted(batch: Batch) -> tuple[jax.Array, jax.Array, jax.Array]:
  """Places, targets and float32 weights [B, P] of what a row predicts."""
  places_BP = batch["encoder_predicted_places"]
  targets_BP, weights_BP = (
    jnp.take_along_axis(batch[name], places_BP, axis=1)
    for name in ("encoder_target_tokens", "encoder_loss_weights")
  )
  return places_BP, targets_BP, weights_BP.astype(jnp.float32)


def _cross_entropy(
  logits_BPK: jax.Array, targets_BP: jax.Array
) -> tuple[jax.Array, jax.Array]:
  """Nats, and 1 where no class is likelier, float32 [B, P].

  A target that is no class is taken for the nearest; its weight has to be 0.
  """
  targets_BP = jnp.clip(targets_BP, 0, logits_BPK.shape[-1] - 1)
  nll_BP, _ = losses.cross_entropy(logits_BPK, targets_BP, 0.0)
  target_logits_BP = jnp.take_along_axis(
    logits_BPK, targets_BP[..., None], axis=-1
  )[..., 0]
  correct_BP = target_logits_BP == jnp.max(logits_BPK, axis=-1)
  return nll_BP, correct_BP.astype(jnp.float32)


def _term(scale, nll_BP, correct_BP, weights_BP, z_BP=None) -> Term:
  """A term of single places and their weights."""
  weights_BP = weights_BP.astype(jnp.float32)
  metrics = {
    "loss_sum": jnp.sum(nll_BP * weights_BP),
    "correct_sum": jnp.sum(correct_BP * weights_BP),
  }
  total = metrics["loss_sum"]
  if z_BP is not None:
    metrics["z_loss_sum"] = jnp.sum(z_BP * weights_BP)
    total += metrics["z_loss_sum"]
  return Term(total, jnp.sum(weights_BP), metrics, scale=scale)
