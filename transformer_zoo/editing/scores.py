"""Scores of an edit: is it said, does it generalise, does it stay in its place.

Those of CounterFact (Meng et al. 2022, section 3.3): of each prompt the
likelihoods of the new and of the true object are compared. *Efficacy* asks the
prompt itself, *paraphrase* the same fact in other words, *neighbourhood* other
subjects, of which the true object stays true. *Essence* is the loss of the
other facts about the subject, before and after; a rise is what was lost of it.

A fact without a true object, as in zsRE, has accuracies instead: how many
tokens of the answer are the likeliest where those before them are given
(Mitchell et al. 2022).
"""

from collections.abc import Sequence

from flax import linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from transformer_zoo.editing import interventions
from transformer_zoo.editing import mend
from transformer_zoo.editing.facts import Fact
from transformer_zoo.editing.rome import Memory


def likelihoods(
  memory: Memory, texts: Sequence[str], targets: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
  """Mean log-likelihoods of the tokens of targets, and whether all are first.

  Args:
    memory: The model.
    texts: What precedes the targets.
    targets: The targets.

  Returns:
    [B] in nats a token, and bool [B]: greedy decoding writes the target.
  """
  means_B, greedy_B, _ = _measured(memory, texts, targets)
  return means_B, greedy_B


def _measured(memory, texts, targets) -> list[np.ndarray]:
  """`likelihoods`, and the share of each target's tokens that are likeliest."""
  rows = memory.reader.rows(texts, targets)
  # One program for all facts: rows are added to a power of two.
  number = 1 << (len(texts) - 1).bit_length()

  def filled(array):
    pad = [(0, number - len(array))] + [(0, 0)] * (array.ndim - 1)
    return np.pad(array, pad)

  batch = {name: filled(array) for name, array in rows.batch.items()}
  compute = _likelihoods(memory.model)
  made = compute(memory.params, batch, filled(rows.weights_BL))
  return [np.asarray(each)[: len(texts)] for each in made]


def score(memory: Memory, fact: Fact) -> dict[str, float]:
  """Measures a model, edited or not, by one fact.

  Args:
    memory: The model, with its parameters.
    fact: The fact.

  Returns:
    `efficacy`, `paraphrase`, `neighbourhood`: the percentage of prompts where
    the wanted object is likelier, with `_margin`, the mean difference of the
    probabilities, and `_answered`, the percentage that greedy decoding answers
    as wanted; `essence`, nats a token, and `essence_answered`. Of a fact
    without a true target, and of `Fact.elsewhere`: `efficacy_accuracy`,
    `paraphrase_accuracy` and `neighbourhood_accuracy`, the percentage of the
    tokens of answers that are the likeliest. What a fact lists no prompt for is
    left out.
  """
  accuracies = _accuracies(memory, fact)
  if not fact.true_target:
    return accuracies
  groups = {
    "efficacy": (fact.question,),
    "paraphrase": fact.paraphrases,
    "neighbourhood": fact.neighbours,
  }
  texts, targets = [], []
  for prompts in groups.values():
    for prompt in prompts:
      texts += [prompt, prompt]
      targets += [fact.target, fact.true_target]
  for prompt, answer in fact.essence:
    texts.append(prompt)
    targets.append(answer)
  means_B, greedy_B = likelihoods(memory, texts, targets)
  scores, start = {}, 0
  for name, prompts in groups.items():
    if not prompts:
      continue
    stop = start + 2 * len(prompts)
    probabilities_X2 = np.exp(means_B[start:stop].reshape(-1, 2))
    answered_X2 = greedy_B[start:stop].reshape(-1, 2)
    if name == "neighbourhood":  # The true object is the wanted one.
      probabilities_X2 = probabilities_X2[:, ::-1]
      answered_X2 = answered_X2[:, ::-1]
    margins_X = probabilities_X2[:, 0] - probabilities_X2[:, 1]
    scores[name] = 100 * float((margins_X > 0).mean())
    scores[f"{name}_margin"] = float(margins_X.mean())
    scores[f"{name}_answered"] = 100 * float(answered_X2[:, 0].mean())
    start = stop
  if fact.essence:
    scores["essence"] = -float(means_B[start:].mean())
    scores["essence_answered"] = 100 * float(greedy_B[start:].mean())
  return scores | accuracies


def _accuracies(memory: Memory, fact: Fact) -> dict[str, float]:
  """The accuracies of `score`."""
  said = () if fact.true_target else (fact.question,)
  also = () if fact.true_target else fact.paraphrases
  groups = {
    "efficacy": [(text, fact.target) for text in said],
    "paraphrase": [(text, fact.target) for text in also],
    "neighbourhood": fact.elsewhere,
  }
  groups = {name: pairs for name, pairs in groups.items() if pairs}
  if not groups:
    return {}
  pairs = [pair for some in groups.values() for pair in some]
  *_, shares_B = _measured(memory, *zip(*pairs, strict=True))
  names = np.repeat(list(groups), [len(some) for some in groups.values()])
  return {
    f"{name}_accuracy": 100 * float(shares_B[names == name].mean())
    for name in groups
  }


def mean(scores: Sequence[dict[str, float]]) -> dict[str, float]:
  """The mean of each score over the facts that have it, and `score`.

  `score` is the harmonic mean of efficacy, paraphrase and neighbourhood, the
  paper's S; it is left out where one of them is.
  """
  names = dict.fromkeys(name for each in scores for name in each)
  means = {
    name: float(np.mean([each[name] for each in scores if name in each]))
    for name in names
  }
  three = [
    means.get(name) for name in ("efficacy", "paraphrase", "neighbourhood")
  ]
  if None not in three:
    positive = all(value > 0 for value in three)
    means["score"] = 3 / sum(1 / v for v in three) if positive else 0.0
  return means


@interventions.cached
def _likelihoods(model: nn.Module):
  @jax.jit
  def compute(params, batch, weights_BL):
    logits_BLV, _ = interventions.apply(model, params, batch)
    targets_BL, _ = mend.targets_of(batch)
    logs_BL = jnp.take_along_axis(
      jax.nn.log_softmax(logits_BLV), targets_BL[..., None], axis=-1
    )[..., 0]
    counts_B = jnp.maximum(weights_BL.sum(1), 1)
    right_BL = logits_BLV.argmax(-1) == targets_BL
    return (
      (logs_BL * weights_BL).sum(1) / counts_B,
      (right_BL | (weights_BL == 0)).all(1),
      (right_BL * weights_BL).sum(1) / counts_B,
    )

  return compute
