"""Distillation: a student learns what a teacher computes of the same batch.

To the loss of another objective come the divergence of the student's answers
from the teacher's, softened by a temperature (Hinton et al. 2015, section 2),
the cosine between their hidden states (DistilBERT, Sanh et al. 2019, section 3)
and the divergence of their attention. The teacher reads without dropout and
learns nothing: `Trainable.parameters` leaves `teacher/` out.
"""

from collections.abc import Mapping
import contextlib
import dataclasses
import functools
from typing import Any

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import parameter_names
from transformer_zoo import tracing
from transformer_zoo.errors import UserError
from transformer_zoo.modules.attention.attention import Attention
from transformer_zoo.modules.attention.dot_product import REFERENCE
from transformer_zoo.objectives import losses
from transformer_zoo.objectives.interface import Objective
from transformer_zoo.objectives.terms import Term
from transformer_zoo.peft import substitution

_SMALLEST = 1e-30  # of a share of attention, before its logarithm
_FILE = "parts/distillation.gin"


@gin.register
@dataclasses.dataclass(frozen=True)
class Distillation(Objective):
  """An objective, and the terms of a teacher.

  - `distilled_logits`, T^2 times the mean over tokens of the divergence of the
    student's distribution from the teacher's, both at temperature T: all tokens
    that an encoder reads, the targets of a decoder;
  - `distilled_hidden`, the mean over these of 1 less the cosine between the
    last hidden states;
  - `distilled_attention`, the mean over tokens, heads and layers of the
    divergence of the student's attention from the teacher's at the same
    relative depth (`parameter_names.layer_at_depth`).

  The scales are those of DistilBERT's code (`research_projects/distillation` of
  huggingface/transformers), which has no term of attention.

  Attributes:
    objective: The objective of the student alone.
    temperature: T.
    objective_scale: The factor of that objective's terms.
    logits_scale: The factor of `distilled_logits`; 0 leaves it out.
    hidden_scale: The factor of `distilled_hidden`; 0 leaves it out.
    attention_scale: The factor of `distilled_attention`; 0 leaves it out.
    logits_chunk: As in `SequenceToSequence`.
  """

  objective: Objective
  temperature: float = 2.0
  objective_scale: float = 2.0
  logits_scale: float = 5.0
  hidden_scale: float = 1.0
  attention_scale: float = 0.0
  logits_chunk: int = 1024

  def __post_init__(self):
    if not self.temperature > 0:
      raise UserError(
        f"Distillation.temperature is {self.temperature}; it must be positive"
      )
    scales = ("logits_scale", "hidden_scale", "attention_scale")
    for name in ("objective_scale", *scales):
      if getattr(self, name) < 0:
        raise UserError(
          f"Distillation.{name} is {getattr(self, name)}; it must be 0 or more"
        )
    if not any(getattr(self, name) for name in scales):
      raise UserError(
        f"Distillation: {', '.join(scales)} are all 0, so that nothing is "
        "learned of the teacher; leave the teacher out"
      )

  def check(self, model: nn.Module) -> None:
    """Raises UserError for a model without a teacher, or an unlike one."""
    student = model.offers.student
    if student is None:
      raise UserError(
        f"train.objective is @Distillation(), but {type(model).__name__} has "
        f"no teacher; include {_FILE}, which binds train.model = @Distilled()"
      )
    self.objective.check(student)
    teacher = model.teacher
    kinds = [type(each).__name__ for each in (teacher, student)]
    if kinds[0] != kinds[1]:
      raise UserError(
        f"the teacher is {kinds[0]} and the student {kinds[1]}; they have to "
        "read the same batches"
      )
    numbers = [each.offers.num_outputs for each in (teacher, student)]
    if numbers[0] != numbers[1]:
      raise UserError(
        f"the teacher predicts {numbers[0]} tokens and the student "
        f"{numbers[1]}; they need one vocabulary, that of the teacher"
      )
    if not student.offers.has_decoder:
      teacher.check_head("tokens")
      student.check_head("tokens")
    if self.attention_scale:
      for name, each in (("teacher", teacher), ("student", student)):
        _check_attention(name, each)

  def __call__(
    self,
    model: nn.Module,
    params: Mapping[str, Any],
    batch: Mapping[str, jax.Array],
    dropout_key: jax.Array | None = None,
  ) -> dict[str, Term]:
    """Returns the terms of the objective and those of the teacher.

    Args:
      model: A `Distilled`.
      params: Its parameters.
      batch: The features that the student reads.
      dropout_key: The key for dropout; None for no dropout.

    Raises:
      UserError: Hidden states or heads of attention differ in number.
    """
    student, teacher = model.student, model.teacher
    maps = contextlib.nullcontext
    if self.attention_scale:
      student, teacher = map(_with_weights, (student, teacher))
      maps = tracing.recorded_weights
    of_teacher = params["teacher"]
    own = {name: leaf for name, leaf in params.items() if name != "teacher"}
    seen = _Seen(student)
    with maps() as weights:
      terms = self.objective(seen, own, batch, dropout_key)
    with maps() as taught_weights:
      taught_BLD = teacher.apply({"params": of_teacher}, batch, method="hidden")
    weights_BL = _weights(student, batch)
    count = jnp.sum(weights_BL)

    def term(each_BL, scale):
      total = jnp.sum(each_BL * weights_BL)
      return Term(total, count, {"loss_sum": total}, scale)

    found = {
      name: each.replace(scale=each.scale * self.objective_scale)
      for name, each in terms.items()
    }
    if self.logits_scale:
      heads = [
        functools.partial(each.apply, {"params": some}, method="logits")
        for each, some in ((student, own), (teacher, of_teacher))
      ]
      found["distilled_logits"] = term(
        self._divergence(*heads, seen.hidden_BLD, taught_BLD),
        self.logits_scale,
      )
    if self.hidden_scale:
      found["distilled_hidden"] = term(
        1 - _cosine(seen.hidden_BLD, taught_BLD), self.hidden_scale
      )
    if self.attention_scale:
      found["distilled_attention"] = term(
        _of_attention(weights, taught_weights), self.attention_scale
      )
    return found

  def _divergence(self, student, teacher, hidden_BLD, taught_BLD) -> jax.Array:
    """T^2 times the divergence of each token, [B, L]."""
    cooler = 1 / self.temperature

    def of_chunk(chunk):
      logs_BlV, taught_BlV = (
        jax.nn.log_softmax(head(x_BlD) * cooler)
        for head, x_BlD in zip((student, teacher), chunk, strict=True)
      )
      return jnp.sum(jnp.exp(taught_BlV) * (taught_BlV - logs_BlV), axis=-1)

    each_BL = losses.by_chunks(
      of_chunk,
      (hidden_BLD, taught_BLD),
      hidden_BLD.shape[:2],
      self.logits_chunk,
    )
    return self.temperature**2 * each_BL


class _Seen:
  """A model whose hidden states are noted when an objective computes them."""

  def __init__(self, model: nn.Module):
    self._model = model
    self.hidden_BLD = None

  def apply(self, *arguments, method=None, **keywords):
    made = self._model.apply(*arguments, method=method, **keywords)
    if method == "hidden":
      self.hidden_BLD = made[0] if "mutable" in keywords else made
    return made

  def __getattr__(self, name: str):
    return getattr(self._model, name)


def _weights(student, batch) -> jax.Array:
  """1 for each token of which the teacher is asked, float32 [B, L]."""
  if student.offers.has_decoder:
    return (batch["decoder_loss_weights"] > 0).astype(jnp.float32)
  real_BL = batch["encoder_input_tokens"] != student.pad_id
  return real_BL.astype(jnp.float32)


def _cosine(x_BLD: jax.Array, y_BLD: jax.Array) -> jax.Array:
  """The cosine of each pair of vectors; 0 of those that are 0."""
  if x_BLD.shape != y_BLD.shape:
    raise UserError(
      f"the hidden states of the student have {x_BLD.shape[-1]} features and "
      f"those of the teacher {y_BLD.shape[-1]}, so that they have no cosine; "
      "bind Distillation.hidden_scale = 0"
    )
  x_BLD, y_BLD = (each.astype(jnp.float32) for each in (x_BLD, y_BLD))
  squares_BL = (jnp.sum(jnp.square(each), -1) for each in (x_BLD, y_BLD))
  product_BL = functools.reduce(jnp.multiply, squares_BL)
  # Where the product is 0 its root has no gradient.
  safe_BL = jnp.where(product_BL > 0, product_BL, 1.0)
  return jnp.sum(x_BLD * y_BLD, axis=-1) / jnp.sqrt(safe_BL)


def _of_attention(weights, taught) -> jax.Array:
  """The mean divergence over layers and heads of each query, [B, L]."""
  total_BL = 0.0
  for layer, weights_BHLM in enumerate(weights):
    there = parameter_names.layer_at_depth(layer, len(weights), len(taught))
    taught_BHLM = taught[there]
    if weights_BHLM.shape != taught_BHLM.shape:
      raise UserError(
        f"the student has {weights_BHLM.shape[1]} heads of attention and the "
        f"teacher {taught_BHLM.shape[1]}; bind Distillation.attention_scale = 0"
      )
    logs = [
      jnp.log(jnp.maximum(each.astype(jnp.float32), _SMALLEST))
      for each in (taught_BHLM, weights_BHLM)
    ]
    each_BHL = jnp.sum(taught_BHLM * (logs[0] - logs[1]), axis=-1)
    total_BL += jnp.mean(each_BHL, axis=1)
  return total_BL / len(weights)


def _check_attention(name: str, model: nn.Module) -> None:
  """Raises UserError for layers whose attention cannot be compared."""
  transformers = list(model.offers.transformers.values())
  if len(transformers) > 1:
    raise UserError(
      "Distillation.attention_scale compares layers that have one attention, "
      f"and {type(model).__name__} has two stacks; bind it to 0"
    )
  stack = transformers[0].layer_stack
  if stack.scan or stack.remat != "none":
    raise UserError(
      f"the layers of the {name} are scanned or computed again, so that their "
      "attention is not read; bind SCAN_LAYERS = False, REMAT = 'none' and "
      "teacher_of.looped = True, or Distillation.attention_scale = 0"
    )


def _with_weights(model: nn.Module) -> nn.Module:
  """The model with the kernel that computes the weights of attention."""

  def rule(name: str, part: nn.Module) -> nn.Module:
    del name
    is_attention = isinstance(part, Attention)
    return part.clone(kernel=REFERENCE) if is_attention else part

  return substitution.rebuilt(model, rule)
