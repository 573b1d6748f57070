"""ROME on a wide world: what it needs to keep other facts.

A GPT-2 of 4 layers learns 600 facts about 150 people, whose names share no
word, each fact in five wordings, and among them sentences of which nothing is
to be learned, so that the covariance of keys has full rank without a ridge.
Facts are made false one at a time by each of the settings that are named, as
LAYER,RIDGE,KL,DECAY,PREFIXES,CLAMP,RATE,STEPS with PREFIXES of `none`,
`sampled` from the model, or `fill`, sentences of which nothing is learned. A
ninth says what is kept beyond the paper of the three other facts about the
person: `asked`, the prompts that are scored, `reworded`, the same in other
words, or `one`, the first of the three in other words.
`zoo ablate editing` compares methods on a smaller world.

    python benchmarks/editing.py --folder runs/rome 0,0,0.0625,0.5,fill,4,0.5,20

Two CPU cores, about ten minutes; what is in the folder is not computed again.
"""

import argparse
import dataclasses
import json
import pathlib

from flax import linen as nn
from flax import traverse_util
import jax
import numpy as np
import optax

from transformer_zoo import config
from transformer_zoo.editing import interventions
from transformer_zoo.editing import mend
from transformer_zoo.editing import rome
from transformer_zoo.editing import scores
from transformer_zoo.editing import tracing
from transformer_zoo.editing.facts import Fact
from transformer_zoo.editing.facts import Reader
from transformer_zoo.training import state

PEOPLE = 150
WIDTH = 32
ROWS = 48
SYLLABLES = "ba ce di fo gu la me ni po ru sa te vi wo zu ka".split()
RELATIONS = {
  "city": (
    "{} lives in the city of",
    "the home of {} is in",
    "you can visit {} in",
    "a letter to {} goes to",
    "if you look for {} , go to",
  ),
  "language": (
    "{} speaks the language of",
    "the mother tongue of {} is",
    "at home {} talks in",
    "the diary of {} is in",
    "as a child {} learned",
  ),
  "instrument": (
    "{} likes to play the",
    "the music of {} is for the",
    "on stage {} holds a",
    "every evening {} practises the",
    "in the band of {} there is a",
  ),
  "work": (
    "{} earns money as a",
    "the work of {} is that of a",
    "by day {} is busy as a",
    "a card of {} says",
    "if you need {} , call the",
  ),
}
OBJECTS = {
  "city": "oslo rome cairo lima quito delhi tunis paris hanoi berne",
  "language": (
    "norse latin coptic aymara kichwa hindi berber french lao romansh"
  ),
  "instrument": "flute harp drum horn viola cello banjo organ lute oboe",
  "work": "baker tailor lawyer sailor farmer potter weaver doctor miner clerk",
}
OTHERS = (
  "{a} met {b} near the {t}",
  "the {t} of {a} is older than the {u}",
  "yesterday {a} saw a {t} and a {u}",
  "{a} and {b} sold the {t}",
  "what {a} said of the {t} is true",
  "a {t} was found , and {a} took it",
  "is a {t} like a {u} ? {a} thinks so",
  "{b} gave the {t} to {a}",
  "{a} is a friend of {b}",
)
# The number of a person's other facts that an edit keeps, and their wordings.
KEPT = {
  "": (0, ()),
  "asked": (3, (0,)),
  "reworded": (3, (1, 2, 3, 4)),
  "one": (1, (1, 2, 3, 4)),
}
SHOWN = (
  *("efficacy", "efficacy_answered", "paraphrase", "paraphrase_answered"),
  *("neighbourhood_answered", "essence", "essence_answered"),
  *("others_changed", "others_say_it"),
)


@dataclasses.dataclass(frozen=True)
class Statement:
  """A fact: what is true of a person, and what is true of others."""

  relation: str
  subject: str
  target: str
  other: str

  def question(self, wording: int = 0) -> str:
    return RELATIONS[self.relation][wording].replace("{}", self.subject)


class World:
  """People, their facts, sentences, and a vocabulary of whole words."""

  pad_id, eos_id, bos_id, unk_id = 0, 1, 2, 3

  def __init__(self):
    random = np.random.RandomState(30)
    words = [a + b for a in SYLLABLES for b in SYLLABLES]
    first = list(random.permutation(words))[:PEOPLE]
    last = [f"{word}n" for word in random.permutation(words)][:PEOPLE]
    self._things = [f"{word}x" for word in random.permutation(words)[:80]]
    self.people = [f"{a} {b}" for a, b in zip(first, last, strict=True)]
    self.facts = []
    for subject in self.people:
      for relation, objects in OBJECTS.items():
        objects = objects.split()
        i, j = random.choice(len(objects), 2, replace=False)
        self.facts.append(Statement(relation, subject, objects[i], objects[j]))
    texts = [*sum(RELATIONS.values(), ()), *OBJECTS.values(), *OTHERS]
    known = {w for text in texts for w in text.split() if "{" not in w}
    known |= {*first, *last, *self._things, "is", "a", ".", ",", "?"}
    self._words = ["<pad>", "</s>", "<s>", "<unk>", *sorted(known)]
    self._ids = {word: i for i, word in enumerate(self._words)}
    self.size = len(self._words)
    self.sentences = [
      self.encode(f"{fact.question(wording)} {fact.target} .")
      for fact in self.facts
      for wording in range(len(RELATIONS[fact.relation]))
    ]
    self.others = [self.encode(text) for text in self._draw(20_000)]

  def _draw(self, count: int) -> list[str]:
    random = np.random.RandomState(1)
    return [
      random.choice(OTHERS).format(
        a=random.choice(self.people),
        b=random.choice(self.people),
        t=random.choice(self._things),
        u=random.choice(self._things),
      )
      + " ."
      for _ in range(count)
    ]

  def encode(self, text: str) -> list[int]:
    words = text.replace(".", " .").split()
    return [self._ids.get(word, self.unk_id) for word in words]

  encode_prompt = encode_targets = encode

  def decode(self, ids) -> str:
    return " ".join(self._words[i] for i in ids if i > self.unk_id)

  def others_like(self, statement: Statement) -> list[Statement]:
    """The facts of the same relation about other people."""
    return [
      other
      for other in self.facts
      if other.relation == statement.relation
      and other.subject != statement.subject
    ]

  def fact(self, statement: Statement, kept: str = "") -> Fact:
    """The edit that makes a fact false; `kept` is a key of `KEPT`."""
    prompt, *others = RELATIONS[statement.relation]
    number, wordings = KEPT[kept]
    stays = [
      known
      for known in self.facts
      if known.subject == statement.subject
      and known.relation != statement.relation
    ]
    return Fact(
      prompt=prompt,
      subject=statement.subject,
      target=statement.other,
      true_target=statement.target,
      paraphrases=tuple(o.replace("{}", statement.subject) for o in others),
      neighbours=tuple(
        other.question()
        for other in self.others_like(statement)
        if other.target == statement.target
      ),
      essence=tuple((known.question(), known.target) for known in stays),
      kept=tuple(
        known.question(wording)
        for known in stays[:number]
        for wording in wordings
      ),
    )


def train(model, world: World, steps: int):
  """Learns rows of four sentences, a quarter of them without facts."""
  params = nn.unbox(state.initial_variables(model, jax.random.key(0)))
  rate = optax.warmup_cosine_decay_schedule(0, 2e-3, 100, steps, 1e-4)
  optimizer = optax.chain(
    optax.clip_by_global_norm(1.0), optax.adamw(rate, weight_decay=0.01)
  )
  moments = optimizer.init(params)

  @jax.jit
  def step(params, moments, batch):
    def loss(params):
      logits, _ = interventions.apply(model, params, batch)
      counts_B = batch["decoder_loss_weights"].sum(1)
      return (mend.nll(logits, batch) * counts_B).sum() / counts_B.sum()

    value, gradients = jax.value_and_grad(loss)(params)
    updates, moments_ = optimizer.update(gradients, moments, params)
    return optax.apply_updates(params, updates), moments_, value

  random = np.random.RandomState(0)

  def sentence():
    some = world.sentences if random.rand() < 0.75 else world.others
    return some[random.randint(len(some))]

  for number in range(steps):
    tokens = np.zeros((ROWS, WIDTH), np.int32)
    for row in tokens:
      words = np.concatenate([sentence() for _ in range(4)])[:WIDTH]
      row[: len(words)] = words
    batch = {
      "decoder_input_tokens": np.pad(tokens, ((0, 0), (1, 0)))[:, :-1],
      "decoder_target_tokens": tokens,
      "decoder_loss_weights": (tokens != 0).astype(np.float32),
    }
    params, moments, value = step(params, moments, batch)
    if number % 250 == 0 or number == steps - 1:
      print(f"step {number}: loss {float(value):.3f}", flush=True)
  return jax.device_get(params)


def known(memory: rome.Memory, world: World) -> float:
  """The percentage of facts that the model answers."""
  right = []
  for start in range(0, len(world.facts), 128):
    some = world.facts[start : start + 128]
    texts, targets = [t.question() for t in some], [t.target for t in some]
    right.append(scores.likelihoods(memory, texts, targets)[1])
  return 100 * float(np.concatenate(right).mean())


def traced(memory: rome.Memory, facts: list[Fact]) -> list[float]:
  """The effects of the networks of the layers at the last token of subjects."""
  noise = tracing.noise_level(memory, facts)
  effects = []
  for fact in facts:
    found = tracing.trace(memory, fact, noise, kind="mlp", window=1)
    effects.append(found.effects_LN[found.subject[1] - 1] - found.disturbed)
  return np.mean(effects, axis=0).round(3).tolist()


class Trial:
  """Edits by some settings, one fact at a time."""

  def __init__(self, memory: rome.Memory, world: World, number: int):
    self._memory, self._world = memory, world
    chosen = np.random.RandomState(5).choice(
      len(world.facts), number, replace=False
    )
    self._statements = [world.facts[i] for i in chosen]
    self.facts = [world.fact(statement) for statement in self._statements]
    sampled = rome.sample_prefixes(
      memory, jax.random.key(0), lengths=(5,), number=8
    )
    fill = [f"{world.decode(ids)} " for ids in world.others[:8]]
    self._prefixes = {"none": [""], "sampled": sampled, "fill": ["", *fill]}
    self._moments = {}

  def _moment(self, layer: int) -> np.ndarray:
    if layer not in self._moments:
      world = self._world
      drawn = np.random.RandomState(9).randint(
        len(world.sentences), size=(3, 3000)
      )
      texts = [
        world.decode(
          [*world.sentences[i], *world.others[j], *world.sentences[k]]
        )
        for i, j, k in zip(*drawn, strict=True)
      ]
      moment, count = rome.second_moment(
        self._memory, texts, layer, batch_size=64
      )
      values = np.linalg.eigvalsh(moment)
      print(
        f"layer {layer}: covariance of {count} tokens, rank "
        f"{np.linalg.matrix_rank(moment, hermitian=True)} of {len(moment)}, "
        f"condition {values[-1] / values[0]:.2g}",
        flush=True,
      )
      self._moments[layer] = moment
    return self._moments[layer]

  def scores(self, words: str) -> dict[str, float]:
    layer, ridge, kl, decay, prefixes, clamp, rate, steps, *kept = words.split(
      ","
    )
    settings = rome.Settings(
      int(layer),
      steps=int(steps),
      learning_rate=float(rate),
      kl_factor=float(kl),
      weight_decay=float(decay),
      clamp=float(clamp),
      ridge=float(ridge),
    )
    found = []
    for statement in self._statements:
      fact = self._world.fact(statement, *kept)
      edit = rome.edit(
        self._memory,
        fact,
        settings,
        moment_FF=self._moment(settings.layer),
        prefixes=self._prefixes[prefixes],
      )
      after = dataclasses.replace(
        self._memory, params=edit.apply(self._memory.params)
      )
      found.append(
        scores.score(after, fact) | self._elsewhere(after, statement)
      )
    return scores.mean(found)

  def _elsewhere(
    self, after: rome.Memory, statement: Statement
  ) -> dict[str, float]:
    others = self._world.others_like(statement)
    texts, targets = [o.question() for o in others], [o.target for o in others]
    _, kept = scores.likelihoods(after, texts, targets)
    _, new = scores.likelihoods(after, texts, [statement.other] * len(others))
    had_another = np.array([target != statement.other for target in targets])
    return {
      "others_changed": 100 * float(1 - kept.mean()),
      "others_say_it": 100 * float(new[had_another].mean()),
    }


def main() -> None:
  """Trains what is not there, edits, prints a line for each setting."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("settings", nargs="+", metavar="SETTINGS")
  parser.add_argument("--folder", type=pathlib.Path, required=True)
  parser.add_argument("--steps", type=int, default=2000)
  parser.add_argument("--facts", type=int, default=12)
  arguments = parser.parse_args()
  arguments.folder.mkdir(parents=True, exist_ok=True)
  world = World()
  sizes = {"EMBED_DIM": 128, "MLP_DIM": 512, "NUM_HEADS": 4, "HEAD_DIM": 32}
  sizes |= {"NUM_DECODER_LAYERS": 4, "VOCAB_SIZE": world.size}
  sizes |= {"MAX_POSITIONS": 64, "DROPOUT_RATE": 0.0}
  overrides = [f"{name}={value!r}" for name, value in sizes.items()]
  model = interventions.looped(
    config.build("MODEL", ["architectures/gpt_2.gin"], overrides)
  )
  path = arguments.folder / "model.npz"
  if not path.is_file():
    params = train(model, world, arguments.steps)
    np.savez(path, **traverse_util.flatten_dict(params, sep="/"))
  with np.load(path) as stored:
    params = traverse_util.unflatten_dict(dict(stored), sep="/")
  memory = rome.Memory(model, params, Reader(world, start_id=0))
  print(f"{known(memory, world):.1f} % of {len(world.facts)} facts are known")
  trial = Trial(memory, world, arguments.facts)
  print("effects of the networks:", traced(memory, trial.facts[:6]), flush=True)
  path = arguments.folder / "results.json"
  results = json.loads(path.read_text()) if path.is_file() else {}
  for words in arguments.settings:
    if words not in results:
      results[words] = trial.scores(words)
      path.write_text(json.dumps(results, indent=2))
    shown = {name: round(results[words][name], 1) for name in SHOWN}
    print(f"{words}: {json.dumps(shown)}", flush=True)


if __name__ == "__main__":
  main()
