"""The losses of T-Few, over all answers that a task allows.

Liu et al. 2022, section 3.2; `src/models/EncoderDecoder.py` of r-three/t-few
114dece. The encoder reads each input once, the decoder every answer.
"""

from collections.abc import Mapping, Sequence
import dataclasses
import functools

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp
import numpy as np

from transformer_zoo import environment
from transformer_zoo.errors import UserError
from transformer_zoo.modules import dropout
from transformer_zoo.objectives import losses
from transformer_zoo.objectives.interface import Objective
from transformer_zoo.objectives.terms import Term

# Added to 1 - p before the logarithm, in the authors' code.
_EPSILON = 1e-2


@gin.register
@dataclasses.dataclass(frozen=True)
class FewShotObjective(Objective):
  """Likelihood of the right answer, and two losses of the others.

  For an example with the answers y_1, ..., y_C, of which y is right:

  - `tokens`, the mean over tokens of -log p(y_t | x, y_<t);
  - `unlikelihood`, the mean over tokens of the wrong answers of
    -log(1 - p(y_t | x, y_<t));
  - `choices`, the cross-entropy of y among all answers, whose logits are their
    log-likelihoods over their numbers of tokens.

  The loss is their sum. Rows hold one example each, `train.packing = False`.
  Answers are compared with the others of their template.

  Attributes:
    answers: For each template, the ids of each of its answers, EOS included
      (`answer_ids`). No two templates have an answer in common.
    unlikelihood_scale: The factor of `unlikelihood`; 0 leaves it out.
    choices_scale: The factor of `choices`; 0 leaves it out.
  """

  answers: Sequence[Sequence[Sequence[int]]]
  unlikelihood_scale: float = 1.0
  choices_scale: float = 1.0

  def __post_init__(self):
    for some in self.answers:
      if len(some) < 2 or not all(some):
        raise UserError(
          f"FewShotObjective.answers has {len(some)} answers; it takes two or "
          "more that are not empty, the target texts of the task"
        )
    every = [tuple(answer) for some in self.answers for answer in some]
    if len(set(every)) < len(every):
      raise UserError(
        "FewShotObjective.answers has an answer twice, so that a target does "
        "not show which others it is compared with; put lists with a common "
        "answer into one, or give templates other choices"
      )

  def check(self, model: nn.Module) -> None:
    """Raises UserError for a model that is no encoder-decoder."""
    if model.offers.writes != "answer":
      raise UserError(
        "train.objective is @FewShotObjective, whose encoder reads an input "
        f"once for all answers, and {type(model).__name__} has none"
      )

  def __call__(
    self,
    model: nn.Module,
    params,
    batch: Mapping[str, jax.Array],
    dropout_key: jax.Array | None = None,
  ) -> dict[str, Term]:
    """The terms of a batch.

    An example whose target is none of the answers has no weight.

    Args:
      model: an encoder-decoder.
      params: The parameters of the model.
      batch: SeqIO's features, one example a row.
      dropout_key: key for dropout; None for no dropout.

    Raises:
      UserError: Rows are packed, or shorter than an answer.
    """
    targets_BL = batch["decoder_target_tokens"]
    answers_CL = self._answers(batch, model.pad_id)
    is_token_1CL = (answers_CL != model.pad_id)[None]
    is_right_BC = jnp.all(targets_BL[:, None] == answers_CL[None], axis=-1)
    nll_BCL = self._losses(model, params, batch, answers_CL, dropout_key)
    nll_BCL = jnp.where(is_token_1CL, nll_BCL, 0.0)

    weights_BCL = is_right_BC[..., None] & is_token_1CL
    loss = jnp.sum(nll_BCL * weights_BCL)
    metrics = {"loss_sum": loss}
    terms = {"tokens": Term(loss, _count(weights_BCL), metrics)}
    known_B = jnp.any(is_right_BC, axis=1)
    # Whether an answer is of the same template as the right one.
    sizes = [len(some) for some in self.answers]
    template_C = np.repeat(np.arange(len(sizes)), sizes)
    same_CC = template_C[:, None] == template_C
    beside_BC = jnp.any(is_right_BC[..., None] & same_CC[None], axis=1)
    if self.unlikelihood_scale:
      wrong_BCL = (~is_right_BC & beside_BC)[..., None] & is_token_1CL
      unlikely_BCL = -jnp.log(1 - jnp.exp(-nll_BCL) + _EPSILON)
      loss = jnp.sum(unlikely_BCL * wrong_BCL)
      terms["unlikelihood"] = Term(
        loss, _count(wrong_BCL), {"loss_sum": loss}, self.unlikelihood_scale
      )
    if self.choices_scale:
      scores_BC = -jnp.sum(nll_BCL, -1) / np.sum(is_token_1CL, -1)
      # Of an example without a right answer nothing counts.
      compared_BC = beside_BC | ~known_B[:, None]
      scores_BC = jnp.where(compared_BC, scores_BC, -jnp.inf)
      nll_BC = -jax.nn.log_softmax(scores_BC)
      loss = jnp.sum(jnp.where(is_right_BC, nll_BC, 0.0))
      right_B = jnp.argmax(scores_BC, 1) == jnp.argmax(is_right_BC, 1)
      terms["choices"] = Term(
        loss,
        _count(known_B),
        {"loss_sum": loss, "correct_sum": _count(right_B & known_B)},
        self.choices_scale,
      )
    return terms

  def _answers(self, batch, pad_id: int) -> np.ndarray:
    """The answers, padded to the length of the targets, [C, L]."""
    if "decoder_segment_ids" in batch:
      raise UserError(
        "FewShotObjective reads one example a row; bind train.packing = False"
      )
    length = batch["decoder_target_tokens"].shape[1]
    answers = [answer for some in self.answers for answer in some]
    longest = max(map(len, answers))
    if longest > length:
      raise UserError(
        f"FewShotObjective.answers has an answer of {longest} tokens, and rows "
        f"have {length}; set TASK_FEATURE_LENGTHS['targets'] to as many"
      )
    padded = np.full((len(answers), length), pad_id, np.int32)
    for row, ids in zip(padded, answers, strict=True):
      row[: len(ids)] = ids
    return padded

  def _losses(self, model, params, batch, answers_CL, dropout_key):
    """Negative log-likelihoods of the tokens of all answers, [B, C, L]."""
    rngs = None if dropout_key is None else {"dropout": dropout_key}
    apply = functools.partial(model.apply, {"params": params})
    how = {"deterministic": rngs is None, "rngs": rngs}
    inputs_BM = batch["encoder_input_tokens"]
    encoded_BMD = apply(inputs_BM, method="encode", **how)
    number = len(answers_CL)
    # All answers of a row lie side by side, so that devices keep their rows.
    encoded_XMD = jnp.repeat(encoded_BMD, number, axis=0)
    targets_XL = jnp.tile(answers_CL, (len(inputs_BM), 1))
    first_B1 = batch["decoder_input_tokens"][:, :1]
    read_XL = jnp.concatenate(
      [jnp.repeat(first_B1, number, axis=0), targets_XL[:, :-1]], axis=1
    )
    with dropout.copies(number):
      hidden_XLD = apply(
        encoded_XMD,
        jnp.repeat(inputs_BM, number, axis=0),
        read_XL,
        targets_XL,
        method="decode_hidden",
        **how,
      )
    nll_XL, _ = losses.cross_entropy(
      apply(hidden_XLD, method="logits"), targets_XL, 0.0
    )
    return nll_XL.reshape(len(inputs_BM), number, -1)


def _count(mask: jax.Array) -> jax.Array:
  return jnp.sum(mask, dtype=jnp.float32)


@gin.register
def answer_ids(
  answers: Sequence[str] | Sequence[Sequence[str]],
  vocabulary: str | None = None,
) -> list[list[list[int]]]:
  """Returns the ids of the answers of each template, each with EOS.

  Args:
    answers: The target texts of a task, or a list of them for each template.
    vocabulary: The path of its vocabulary, which has to be given; a relative
      path starts at the current folder or at the folder of the package.

  Raises:
    UserError: There are no answers, or no vocabulary.
  """
  if not answers or vocabulary is None:
    raise UserError(
      f"answer_ids.answers is {answers!r} and answer_ids.vocabulary "
      f"{vocabulary!r}; set ANSWERS to the target texts of the task and "
      "ANSWERS_VOCABULARY to the file or folder of its vocabulary"
    )
  from transformer_zoo.data.vocabularies import Vocabulary

  coder = Vocabulary(str(environment.here_or_shipped(vocabulary)))

  def of(text):
    return [*map(int, coder.encode(text)), coder.eos_id]

  of_one = all(isinstance(text, str) for text in answers)
  templates = [answers] if of_one else answers
  return [[of(text) for text in texts] for texts in templates]
