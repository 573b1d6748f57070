"""Losses of vectors of texts: contrasts, classes and similarities of pairs.

A row has the texts of one example, a segment each: an anchor, its positive, and
hard negatives (`data/features/forms.py`). Terms depend on the vectors of the
whole batch, of all devices of a mesh; with microbatches vectors are computed
part by part, and once more for the gradient (Gao et al. 2021, "Scaling deep
contrastive learning batch size under memory limited setup", section 3).
"""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import functools
from typing import ClassVar, Protocol

from flax import linen as nn
from flax import struct
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo.errors import UserError
from transformer_zoo.modules.text_vectors import HIGHEST
from transformer_zoo.modules.text_vectors import unit
from transformer_zoo.objectives import losses
from transformer_zoo.objectives.interface import Objective
from transformer_zoo.objectives.terms import Term
from transformer_zoo.objectives.terms import with_costs

Batch = Mapping[str, jax.Array]
HEAD = "embedding"
SIMILARITIES = ("cosine", "dot")
# The logit of what cannot be: its exponent is 0, and no gradient is a NaN.
_NEVER = -1e9


@struct.dataclass
class Texts:
  """The texts of a batch.

  Attributes:
    vectors_BTE: Their vectors, float32: anchors, positives, hard negatives.
    is_there_BT: False where a row has no such text.
    labels_B: The number of each row's first two texts, NaN without one.
  """

  vectors_BTE: jax.Array
  is_there_BT: jax.Array
  labels_B: jax.Array


class LossOfVectors(Protocol):
  """One term of the objective.

  Attributes:
    name: The name of the term.
    head: The head that it needs beside the vectors; None for none.
    scale: The factor of the term in the loss.
  """

  name: ClassVar[str]
  scale: float

  @property
  def head(self) -> str | None:
    """The head that it needs beside the vectors; None for none."""

  def __call__(
    self, texts: Texts, logits: Callable[[str, jax.Array], jax.Array]
  ) -> Term:
    """Returns the term.

    Args:
      texts: The texts of the whole batch.
      logits: The output of a head by its name and what it reads.
    """


def vectors_of(
  apply: Callable[..., jax.Array],
  hidden_BLD: jax.Array,
  batch: Batch,
  pad_id: int,
  num_texts: int = 1,
) -> jax.Array:
  """Returns the vectors of the texts of each row, float32 [B, T, E].

  Args:
    apply: A function of arguments of `logits` of a model with the head.
    hidden_BLD: The hidden states of the batch.
    batch: What the converter `Encoder` lays out; a row without segments is one
      text.
    pad_id: The id of padding.
    num_texts: T, the most texts of a row.
  """
  real_BL = (batch["encoder_input_tokens"] != pad_id).astype(jnp.int32)
  texts_BL = batch.get("encoder_segment_ids", 1) * real_BL
  return apply(
    hidden_BLD, HEAD, texts_BL=texts_BL, num_texts=num_texts, method="logits"
  )


@gin.register
@dataclasses.dataclass(frozen=True)
class EmbeddingObjective(Objective):
  """The sum of losses of the vectors of a batch.

  Attributes:
    losses: The losses.
    widths: The numbers of first features of the vectors over which the losses
      are averaged (Matryoshka: Kusupati et al. 2022); none for whole vectors.
  """

  losses: Sequence[LossOfVectors]
  widths: Sequence[int] = ()
  takes_parts: ClassVar[bool] = True

  def check(self, model: nn.Module) -> None:
    """Raises UserError for a model that lacks a head that a loss needs."""
    if model.offers.has_decoder:
      raise UserError(
        f"train.objective is @EmbeddingObjective(), but {type(model).__name__} "
        "has no heads that make vectors; choose an encoder like "
        "architectures/bert.gin, or parts/heads_on_t5.gin after T5's"
      )
    for head in (HEAD, *(each.head for each in self.losses)):
      if head is not None:
        model.check_head(head)

  def __call__(
    self,
    model: nn.Module,
    params,
    batch: Batch,
    dropout_key: jax.Array | None = None,
    in_parts: Callable | None = None,
  ) -> dict[str, Term]:
    """The terms of a whole batch.

    Args:
      model: An encoder with the head `embedding`.
      params: The parameters of the model.
      batch: What the converter `Encoder` lays out in the form `embedding`.
      dropout_key: The key for dropout; None for no dropout.
      in_parts: As `step.in_parts`, of a function of rows and a batch; None
        computes all rows at once.

    Returns:
      A term for each loss, by its name, and for each cost of a part.

    Raises:
      UserError: A width is none of the vectors.
    """
    rngs = None if dropout_key is None else {"dropout": dropout_key}
    apply = functools.partial(
      model.apply, {"params": params}, rngs=rngs, deterministic=rngs is None
    )

    def of_rows(rows):
      hidden_BLD, of_parts = with_costs(apply, rows, method="hidden")
      number = rows["encoder_predicted_places"].shape[1]
      return vectors_of(apply, hidden_BLD, rows, model.pad_id, number), of_parts

    made = of_rows(batch) if in_parts is None else in_parts(of_rows, batch)
    vectors_BTE, of_parts = made
    texts = Texts(vectors_BTE, *_labelled(batch))
    logits = functools.partial(_logits, apply)
    by_width = [
      {each.name: each(some, logits) for each in self.losses}
      for some in self._truncated(texts)
    ]
    number = len(by_width)
    return jax.tree.map(lambda *x: sum(x) / number, *by_width) | of_parts

  def _truncated(self, texts: Texts) -> list[Texts]:
    """The texts with the first features of their vectors, by width."""
    features = texts.vectors_BTE.shape[-1]
    wrong = [w for w in self.widths if not 1 <= w <= features]
    if wrong:
      raise UserError(
        f"EmbeddingObjective.widths has {wrong[0]}, and vectors have "
        f"{features} features; choose widths from 1 to {features}"
      )
    return [
      texts.replace(vectors_BTE=texts.vectors_BTE[..., :width])
      for width in self.widths or (features,)
    ]


def _labelled(batch: Batch) -> tuple[jax.Array, jax.Array]:
  """Returns which texts are there, bool [B, T], and labels, float32 [B]."""
  places_BT = batch["encoder_predicted_places"]
  bits_BT, weights_BT = (
    jnp.take_along_axis(batch[name], places_BT, axis=1)
    for name in ("encoder_target_tokens", "encoder_loss_weights")
  )
  labels_B = jax.lax.bitcast_convert_type(bits_BT[:, 0], jnp.float32)
  return weights_BT > 0, labels_B


def _logits(apply, head: str, x: jax.Array) -> jax.Array:
  return apply(x, head, method="logits")


@gin.register
@dataclasses.dataclass(frozen=True)
class ContrastiveLoss:
  """Cross-entropy of each anchor's positive among the texts of the batch.

  The candidates of every anchor are all positives and all hard negatives of the
  batch (Henderson et al. 2017; Gao et al. 2021, equation 5). The logit of an
  anchor u and a candidate v is s(u, v) / temperature, where the margin is
  subtracted from s(u, v) of an anchor and its own positive (Yang et al. 2019).

  Attributes:
    similarity: s, "cosine" or "dot".
    temperature: The temperature; None for the one that the head `temperature`
      learns.
    margin: The margin, 0.3 in LaBSE.
    both_directions: Whether the loss is the mean of this cross-entropy and that
      of each positive's anchor among all anchors.
    scale: The weight of the loss.
  """

  similarity: str = "cosine"
  temperature: float | None = 0.05
  margin: float = 0.0
  both_directions: bool = False
  scale: float = 1.0
  name: ClassVar[str] = "contrast"

  def __post_init__(self):
    if self.similarity not in SIMILARITIES:
      raise UserError(
        f"ContrastiveLoss.similarity is {self.similarity!r}; it must be one of "
        f"{', '.join(map(repr, SIMILARITIES))}"
      )
    if self.temperature is not None and not self.temperature > 0:
      raise UserError(
        f"ContrastiveLoss.temperature is {self.temperature}; it has to be "
        "above 0, or None for a learned one"
      )

  @property
  def head(self) -> str | None:
    """As `LossOfVectors.head`."""
    return "temperature" if self.temperature is None else None

  def __call__(
    self, texts: Texts, logits: Callable[[str, jax.Array], jax.Array]
  ) -> Term:
    """As `LossOfVectors.__call__`."""
    vectors_BTE = texts.vectors_BTE
    if self.similarity == "cosine":
      vectors_BTE = unit(vectors_BTE)
    rows, number = texts.is_there_BT.shape
    # Every device has all candidates: positives first, in the order of rows.
    candidates_CE, is_there_C = (
      jnp.moveaxis(x, 1, 0)[1:].reshape((number - 1) * rows, *x.shape[2:])
      for x in (vectors_BTE, texts.is_there_BT)
    )
    scores_BC = jnp.einsum(
      "be,ce->bc",
      vectors_BTE[:, 0],
      axes.constrain(candidates_CE, None, None),
      precision=HIGHEST,
    )
    scores_BC = axes.constrain(scores_BC, "batch", None)
    own_BC = jnp.eye(rows, len(is_there_C), dtype=bool)
    scores_BC -= jnp.where(own_BC, self.margin, 0.0)
    if self.temperature is None:
      scores_BC /= logits(self.head, vectors_BTE).reshape(1, 1)
    else:
      scores_BC /= self.temperature
    is_pair_B = texts.is_there_BT[:, 0] & texts.is_there_BT[:, 1]
    nll_B, is_best_B = _of_own(scores_BC, is_there_C)
    if self.both_directions:
      is_anchor_B = texts.is_there_BT[:, 0]
      back_B, _ = _of_own(scores_BC[:, :rows].T, is_anchor_B)
      nll_B = (nll_B + back_B) / 2
    return _term(self.scale, nll_B, is_pair_B, correct_sum=is_best_B)


def _of_own(
  scores_BC: jax.Array, is_there_C: jax.Array
) -> tuple[jax.Array, jax.Array]:
  """Cross-entropy of candidate i in row i, and whether it is the best, [B]."""
  scores_BC = jnp.where(is_there_C[None], scores_BC, _NEVER)
  targets_B = jnp.arange(len(scores_BC))
  nll_1B, _ = losses.cross_entropy(scores_BC[None], targets_B[None], 0.0)
  return nll_1B[0], jnp.argmax(scores_BC, axis=1) == targets_B


@gin.register
@dataclasses.dataclass(frozen=True)
class PairClassLoss:
  """Cross-entropy of the class of two texts (Reimers and Gurevych 2019).

  The label of a row is the number of the class; the head `pair_classes` reads
  both vectors.
  """

  scale: float = 1.0
  name: ClassVar[str] = "pair_classes"
  head: ClassVar[str] = "pair_classes"

  def __call__(
    self, texts: Texts, logits: Callable[[str, jax.Array], jax.Array]
  ) -> Term:
    """As `LossOfVectors.__call__`."""
    logits_B1K = logits(self.head, texts.vectors_BTE[:, :2])
    is_known_B = _is_known(texts)
    classes_B = jnp.where(is_known_B, texts.labels_B, 0.0).astype(jnp.int32)
    nll_B1, _ = losses.cross_entropy(logits_B1K, classes_B[:, None], 0.0)
    is_best_B = jnp.argmax(logits_B1K[:, 0], axis=-1) == classes_B
    return _term(self.scale, nll_B1[:, 0], is_known_B, correct_sum=is_best_B)


@gin.register
@dataclasses.dataclass(frozen=True)
class SimilarityLoss:
  """Squared error of the cosine of two texts (Reimers and Gurevych 2019).

  Attributes:
    largest: The label of texts that mean the same, whose cosine should be 1; 5
      in STS-B.
  """

  largest: float = 5.0
  scale: float = 1.0
  name: ClassVar[str] = "similarity"
  head: ClassVar[None] = None

  def __call__(
    self, texts: Texts, logits: Callable[[str, jax.Array], jax.Array]
  ) -> Term:
    """As `LossOfVectors.__call__`."""
    del logits
    unit_BTE = unit(texts.vectors_BTE)
    cosine_B = jnp.sum(unit_BTE[:, 0] * unit_BTE[:, 1], axis=-1)
    is_known_B = _is_known(texts)
    wanted_B = jnp.where(is_known_B, texts.labels_B / self.largest, 0.0)
    return _term(self.scale, jnp.square(cosine_B - wanted_B), is_known_B)


def _is_known(texts: Texts) -> jax.Array:
  """Whether the first two texts are there and have a label, bool [B]."""
  both_B = texts.is_there_BT[:, 0] & texts.is_there_BT[:, 1]
  return both_B & ~jnp.isnan(texts.labels_B)


def _term(
  scale: float, losses_B: jax.Array, counts_B: jax.Array, **metrics_B: jax.Array
) -> Term:
  """A term of the rows that count."""

  def summed(x_B):
    return jnp.sum(jnp.where(counts_B, x_B.astype(jnp.float32), 0.0))

  total = summed(losses_B)
  metrics = {name: summed(x_B) for name, x_B in metrics_B.items()}
  weight = jnp.sum(counts_B, dtype=jnp.float32)
  return Term(total, weight, {"loss_sum": total, **metrics}, scale=scale)
