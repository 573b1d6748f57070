"""Facts edited in a checkpoint, and what the edits change elsewhere.

A checkpoint of any shape is asked by its own means, as probes ask it: a gap is
continued, filled behind a sentinel, or masked. Facts of people of whom no
editor learned are made false, one at a time and several at once. Of each edit
the scores of CounterFact are taken (`editing/scores.py`), and of all other
people who are asked the same the percentage whose answer stays, and of those
who had another answer the percentage that does not get the new one: what is
missing there is over-generalisation, the known failure of all methods. Facts
that are edited together are not among those that are to stay.
"""

from collections.abc import Callable, Iterator, Sequence
import dataclasses
from typing import Any, NamedTuple

from flax import linen as nn
import gin
import jax
import numpy as np

from transformer_zoo.editing import facts as facts_lib
from transformer_zoo.editing import fluency
from transformer_zoo.editing import memit
from transformer_zoo.editing import mend
from transformer_zoo.editing import programs
from transformer_zoo.editing import rome
from transformer_zoo.editing import scores
from transformer_zoo.editing.facts import Fact
from transformer_zoo.errors import UserError
from transformer_zoo.runs.analysis import costs
from transformer_zoo.runs.analysis import probing
from transformer_zoo.runs.loading import loaded_checkpoint

# Parameters and facts -> the parameters with all of the facts written in.
Editor = Callable[[Any, Sequence[Fact]], Any]
_KEPT = 6  # facts that are to stay in an example: of the same question, of all


class _Rows(NamedTuple):
  batch: dict[str, np.ndarray]
  weights_BL: np.ndarray


@dataclasses.dataclass(frozen=True)
class Asked:
  """A model that is asked by its own means, in the place of a `rome.Memory`.

  Attributes:
    found: The checkpoint.
    params: Its parameters, edited or not.
    width: The number of tokens of a row.
  """

  found: loaded_checkpoint.LoadedCheckpoint
  params: Any
  width: int = 32

  @property
  def model(self) -> nn.Module:
    """The model."""
    return self.found.model

  @property
  def reader(self) -> "Asked":
    """The object that lays texts out: this one."""
    return self

  def rows(self, texts: Sequence[str], targets: Sequence[str]) -> _Rows:
    """Lays questions and their answers out, which are weighted."""
    reads_on = self.model.offers.continues
    after = "" if reads_on else "."
    lay_out = probing.layout(self.found)
    rows = [
      lay_out(text, after, target)[0]
      for text, target in zip(texts, targets, strict=True)
    ]
    pad_id = self.found.vocabulary.pad_id
    batch = probing.batch_of(rows, len(rows), self.width, pad_id)
    # Logits are wanted at all places.
    batch.pop("encoder_predicted_places", None)
    side = self.model.offers.sides[-1]
    return _Rows(batch, batch[f"{side}_loss_weights"])

  def memory(self, method: str) -> rome.Memory:
    """Returns the decoder that reads a subject and continues.

    Args:
      method: The name of the method that edits it.

    Raises:
      UserError: An encoder reads it.
    """
    if self.model.offers.has_encoder:
      raise UserError(
        f"{method} edits what a decoder says of a subject that it has read, "
        f"and here the encoder of {type(self.model).__name__} reads it; choose "
        "FineTuning or MendEditors"
      )
    reader = facts_lib.Reader(self.found.vocabulary, self.found.start_id)
    return rome.Memory(self.model, self.params, reader)

  def batch(self, pairs: Sequence[tuple[str, str]]) -> dict[str, np.ndarray]:
    """Lays pairs of a question and an answer out."""
    texts, targets = zip(*pairs, strict=True)
    return self.rows(texts, targets).batch


@gin.register
@dataclasses.dataclass(frozen=True)
class FineTuning:
  """Fine-tuning of the last feed-forward networks on the edits.

  Attributes:
    blocks: The number of blocks, of an encoder-decoder on both sides.
    learning_rate: That of Adam.
    steps: The largest number of steps.
  """

  blocks: int = 2
  learning_rate: float = 1e-3
  steps: int = 25

  def editor(self, asked: Asked, facts: Sequence[Fact], seed: int) -> Editor:
    """Returns the editor; it learns nothing of other facts."""
    del facts, seed
    paths = mend.last_projections(asked.model, self.blocks)

    def edit(params, some):
      batch = asked.batch([(fact.question, fact.target) for fact in some])
      return mend.fine_tuned(
        asked.model,
        params,
        paths,
        batch,
        learning_rate=self.learning_rate,
        steps=self.steps,
      )

    return edit


@gin.register
@dataclasses.dataclass(frozen=True)
class Rome:
  """ROME in one layer of a decoder that reads the question.

  Attributes:
    layer: The number of the layer.
    ridge: What is added to the diagonal of the covariance, in units of its
      mean (`rome.Settings`).
    prefixes: The number of texts that precede prompts.
    texts: Texts that the covariance of keys is taken from, and the beginnings
      of which precede prompts.
    learning_rate: That of the search for the value.
    steps: The number of its steps.
    kept_factor: The factor of what the texts of `Fact.kept` are followed by
      (`rome.Settings`); 0 as published.
  """

  texts: Sequence[str]
  layer: int = 0
  ridge: float = 0.0
  prefixes: int = 8
  learning_rate: float = 0.5
  steps: int = 20
  kept_factor: float = 0.0

  def editor(self, asked: Asked, facts: Sequence[Fact], seed: int) -> Editor:
    """Returns the editor; it learns nothing of other facts."""
    del facts, seed
    memory = asked.memory("ROME")
    moment_FF, _ = rome.second_moment(
      memory, self.texts, self.layer, batch_size=32
    )
    prefixes = _prefixes(self.texts[: self.prefixes])
    settings = rome.Settings(
      self.layer,
      steps=self.steps,
      learning_rate=self.learning_rate,
      kept_factor=self.kept_factor,
      ridge=self.ridge,
    )

    def edit(params, some):
      for fact in some:
        now = dataclasses.replace(memory, params=params)
        params = rome.edit(
          now, fact, settings, moment_FF=moment_FF, prefixes=prefixes
        ).apply(params)
      return params

    return edit


@gin.register
@dataclasses.dataclass(frozen=True)
class Memit:
  """MEMIT in several layers of a decoder that reads the question.

  Attributes:
    texts: As in `Rome`.
    layers: The numbers of the layers.
    moment_weight: The weight of the covariance of keys (`memit.Settings`).
    ridge: As in `Rome`.
    prefixes: As in `Rome`.
    learning_rate: As in `Rome`.
    steps: As in `Rome`.
    clamp: The largest change of z, in units of z.
  """

  texts: Sequence[str]
  layers: Sequence[int] = (0, 1)
  moment_weight: float | None = None
  ridge: float = 0.0
  prefixes: int = 8
  learning_rate: float = 0.5
  steps: int = 25
  clamp: float = 0.75

  def editor(self, asked: Asked, facts: Sequence[Fact], seed: int) -> Editor:
    """Returns the editor; it learns nothing of other facts."""
    del facts, seed
    memory = asked.memory("MEMIT")
    moments = {
      layer: rome.second_moment(memory, self.texts, layer, batch_size=32)[0]
      for layer in self.layers
    }
    prefixes = _prefixes(self.texts[: self.prefixes])
    settings = memit.Settings(
      tuple(self.layers),
      moment_weight=self.moment_weight,
      ridge=self.ridge,
      steps=self.steps,
      learning_rate=self.learning_rate,
      kept_factor=0.0,
      clamp=self.clamp,
    )

    def edit(params, some):
      now = dataclasses.replace(memory, params=params)
      made = memit.edit(now, some, settings, moments=moments, prefixes=prefixes)
      for one in made:
        params = one.apply(params)
      return params

    return edit


@gin.register
@dataclasses.dataclass(frozen=True)
class MendEditors:
  """Editors of gradients that learn on facts, MEND.

  Attributes:
    blocks: As in `FineTuning`.
    rank: The rank of an editor's layers.
    steps: The number of examples that editors learn from.
    learning_rate: That of the networks and of every alpha.
    at_once: The largest number of facts in an example.
  """

  blocks: int = 2
  rank: int = 64
  steps: int = 1500
  learning_rate: float = 1e-3
  at_once: int = 1

  def editor(self, asked: Asked, facts: Sequence[Fact], seed: int) -> Editor:
    """Learns editors on facts and returns them as one."""
    paths = mend.last_projections(asked.model, self.blocks)
    editors = mend.Mend(asked.model, paths, rank=self.rank)
    examples = _examples(asked, facts, self.at_once, seed)
    statistics = editors.statistics(
      asked.params, [next(examples)[0] for _ in range(64)]
    )
    learned, _ = editors.train(
      jax.random.key(seed),
      asked.params,
      examples,
      steps=self.steps,
      statistics=statistics,
      learning_rate=self.learning_rate,
      rate_learning_rate=self.learning_rate,
      accumulate=4,
      initial_rate=1e-3,
    )
    apply = programs.compiled(editors.apply)

    def edit(params, some):
      batch = asked.batch([(fact.question, fact.target) for fact in some])
      return apply(learned, statistics, params, batch)

    return edit


@gin.register
@dataclasses.dataclass(frozen=True)
class Edits:
  """Edits of facts that a checkpoint knows.

  Attributes:
    facts: All facts; the facts of a subject stand together.
    method: `FineTuning`, `Rome`, `Memit` or `MendEditors`; None for no edit.
    held_out: The number of facts, the last ones, that are edited and that no
      editor learns from.
    at_once: The numbers of facts that are edited together, each a task of the
      result, `<mixture>_<number>`.
    seed: The seed of what an editor draws.
  """

  facts: Sequence[Fact]
  method: FineTuning | Rome | Memit | MendEditors | None = None
  held_out: int = 24
  at_once: Sequence[int] = (1, 4, 12)
  seed: int = 0

  def __post_init__(self):
    if not 0 < self.held_out < len(self.facts):
      raise UserError(
        f"Edits.held_out is {self.held_out}; of {len(self.facts)} facts at "
        "least one is edited and one learned from"
      )
    for size in self.at_once:
      if not 0 < size <= self.held_out:
        raise UserError(
          f"Edits.at_once has {size}; it must be between 1 and held_out, "
          f"{self.held_out}"
        )

  def scores(self, found: loaded_checkpoint.LoadedCheckpoint) -> dict[str, Any]:
    """Edits a checkpoint and measures it.

    Args:
      found: The checkpoint.

    Returns:
      `scores`, by the number of facts that are edited together: the values of
      `editing.scores` and, of a language model, of `editing.fluency`; and
      `others_kept` and `others_spared`, percentages of other subjects, left out
      where no other is asked the same; and `cost`: the seconds and FLOPs that
      an edit took and those that its editor took to learn, the bytes of the
      changed parameters, and `known`, the percentage of facts with a true
      object that the checkpoint answers rightly.
    """
    asked = Asked(found, jax.device_get(found.params))
    told = [fact for fact in self.facts if fact.true_target]
    known = {}
    if told:
      _, right = scores.likelihoods(
        asked,
        [fact.question for fact in told],
        [fact.true_target for fact in told],
      )
      known = {"known": 100 * float(right.mean())}
    learned, edited = (
      self.facts[: -self.held_out],
      self.facts[-self.held_out :],
    )
    editor = _no_edit
    with costs.measured() as learning:
      if self.method is not None:
        editor = self.method.editor(asked, learned, self.seed)
    cost = {
      **known,
      "learning_seconds": learning["seconds"],
      "learning_flops": learning["flops"],
    }
    made = {}
    for size in self.at_once:
      groups = [edited[i : i + size] for i in range(0, len(edited), size)]
      each, seconds, flops, changed = [], 0.0, 0, asked.params
      for group in groups:
        with costs.measured() as spent:
          changed = jax.block_until_ready(editor(asked.params, group))
        seconds += spent["seconds"]
        flops += spent["flops"]
        after = dataclasses.replace(asked, params=changed)
        each += [
          scores.score(after, _unedited(fact, group))
          | self._elsewhere(after, fact, group)
          | self._written(after, fact)
          for fact in group
        ]
      made[str(size)] = scores.mean(each)
      cost[f"seconds_an_edit_{size}"] = round(seconds / len(edited), 3)
      cost[f"flops_an_edit_{size}"] = flops // len(edited)
    cost["bytes"] = sum(
      np.asarray(new).nbytes
      for new, old in zip(
        jax.tree.leaves(changed), jax.tree.leaves(asked.params), strict=True
      )
      if not np.array_equal(new, old)
    )
    return {"scores": made, "cost": cost}

  def _elsewhere(
    self, after: Asked, fact: Fact, group: Sequence[Fact]
  ) -> dict[str, float]:
    """Returns scores of what others answer to the question of an edit."""
    edited = {each.question for each in group}
    others = [
      other
      for other in self.facts
      if other.true_target
      and other.prompt == fact.prompt
      and other.question not in edited
    ]
    if not others:
      return {}
    texts = [other.question for other in others]
    targets = [other.true_target for other in others]
    _, kept = scores.likelihoods(after, texts, targets)
    _, new = scores.likelihoods(after, texts, [fact.target] * len(others))
    found = {"others_kept": 100 * float(kept.mean())}
    had_another = np.array([target != fact.target for target in targets])
    if had_another.any():
      found["others_spared"] = 100 * float(1 - new[had_another].mean())
    return found

  def _written(self, after: Asked, fact: Fact) -> dict[str, float]:
    """Returns the scores of what a language model writes."""
    if not fact.generations or not after.model.offers.continues:
      return {}
    key = jax.random.key(self.seed)
    return fluency.score(after.memory("Fluency"), fact, key)


def _prefixes(texts: Sequence[str]) -> list[str]:
  """The beginnings of texts, which precede prompts, after none."""
  return ["", *(f"{text.partition('.')[0]}. " for text in texts)]


def _unedited(fact: Fact, group: Sequence[Fact]) -> Fact:
  """Returns a fact without the prompts that are to stay and that a group edits.

  What an edit beside this one changes on purpose is no loss.
  """
  edited = {each.question for each in group}
  return dataclasses.replace(
    fact,
    neighbours=tuple(text for text in fact.neighbours if text not in edited),
    essence=tuple(pair for pair in fact.essence if pair[0] not in edited),
  )


def _no_edit(params: Any, some: Sequence[Fact]) -> Any:
  del some
  return params


def _examples(
  asked: Asked, facts: Sequence[Fact], count: int, seed: int
) -> Iterator[tuple[dict, dict, dict]]:
  """Draws edits, the same in other words, and facts that are to stay."""
  random = np.random.RandomState(seed)
  answers = {}
  for fact in facts:
    answers.setdefault(fact.prompt, []).append(fact.true_target)
  answers = {prompt: sorted(set(some)) for prompt, some in answers.items()}

  def kept_of(some):
    return [some[i] for i in random.choice(len(some), _KEPT)]

  while True:
    chosen = [facts[i] for i in random.choice(len(facts), count, replace=False)]
    edits, equivalents = [], []
    for fact in chosen:
      answer = str(random.choice(answers[fact.prompt]))
      edits.append((fact.question, answer))
      equivalents += [(text, answer) for text in fact.paraphrases]
    edited = {(fact.subject, fact.prompt) for fact in chosen}
    others = [f for f in facts if (f.subject, f.prompt) not in edited]
    same = [f for f in others if f.prompt == chosen[0].prompt]
    kept = kept_of(same) + kept_of(others)
    yield (
      asked.batch(edits),
      asked.batch(edits + equivalents),
      asked.batch([(fact.question, fact.true_target) for fact in kept]),
    )
