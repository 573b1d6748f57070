"""Edits of a model that knows a small world: fine-tuning, ROME and MEND.

A GPT-2 of 4 layers learns 96 facts about 32 people, each told in three wordings
(`tasks/miniature/facts.py`). Facts of 8 people, of whom no editor was trained,
are made false, one at a time and several at once, by fine-tuning the last two
feed-forward networks, by ROME in one layer and by MEND. Printed are the scores
of CounterFact, and of all other people who are asked the same the percentage
that now gets another answer, and that gets the new one: the known failure.

    python benchmarks/editing.py --folder runs/editing

Two CPU cores, about ten minutes; what is in the folder is not computed again.
"""

import argparse
import functools
import json
import pathlib
import time

from flax import linen as nn
from flax import traverse_util
import jax
import numpy as np
import optax

from tasks.miniature import facts as world
from transformer_zoo import config
from transformer_zoo.editing import interventions
from transformer_zoo.editing import mend
from transformer_zoo.editing import rome
from transformer_zoo.editing import scores
from transformer_zoo.editing import tracing
from transformer_zoo.editing.facts import Fact
from transformer_zoo.editing.facts import Reader
from transformer_zoo.training import state

WORDS = world.Words()
READER = Reader(WORDS, start_id=0)
WORLD = world.world()
HELD_OUT = 8  # people
WIDTH = 32
SIZES = {
  "EMBED_DIM": 96,
  "MLP_DIM": 384,
  "NUM_HEADS": 4,
  "HEAD_DIM": 24,
  "NUM_DECODER_LAYERS": 4,
  "VOCAB_SIZE": WORDS.size,
  "MAX_POSITIONS": 64,
  "DROPOUT_RATE": 0.0,
}


def build():
  """The model, with layers that are looped."""
  overrides = [f"{name}={value!r}" for name, value in SIZES.items()]
  return interventions.looped(
    config.build("MODEL", ["architectures/gpt_2.gin"], overrides)
  )


def train(model, steps: int, rows: int = 48):
  """Learns rows of sentences, each of which may begin a row or not."""
  sentences = [WORDS.encode(text) for text in world.sentences(WORLD)]
  params = nn_params(model)
  optimizer = optax.adamw(optax.cosine_decay_schedule(2e-3, steps))
  moments = optimizer.init(params)

  @jax.jit
  def step(params, moments, batch):
    def loss(params):
      logits, _ = interventions.apply(model, params, batch)
      return mend.nll(logits, batch).mean()

    value, gradients = jax.value_and_grad(loss)(params)
    updates, moments_ = optimizer.update(gradients, moments, params)
    return optax.apply_updates(params, updates), moments_, value

  random = np.random.RandomState(0)
  for number in range(steps):
    tokens = np.zeros((rows, WIDTH), np.int32)
    for row in tokens:
      order = random.choice(len(sentences), 3)
      told = np.concatenate([sentences[i] for i in order])[:WIDTH]
      row[: len(told)] = told
    batch = {
      "decoder_input_tokens": np.pad(tokens, ((0, 0), (1, 0)))[:, :-1],
      "decoder_target_tokens": tokens,
      "decoder_loss_weights": (tokens != 0).astype(np.float32),
    }
    params, moments, value = step(params, moments, batch)
    if number % 200 == 0 or number == steps - 1:
      print(f"step {number}: loss {float(value):.3f}", flush=True)
  return jax.device_get(params)


def nn_params(model):
  """Initial parameters without their axes."""
  return nn.unbox(state.initial_variables(model, jax.random.key(0)))


def stored(path: pathlib.Path, compute):
  """What is in an .npz, or what is computed and written there."""
  if path.is_file():
    with np.load(path) as found:
      return traverse_util.unflatten_dict(dict(found), sep="/")
  made = jax.device_get(compute())
  np.savez(path, **traverse_util.flatten_dict(made, sep="/"))
  return made


def batch_of(prompts):
  """A batch of (text, answer)."""
  texts, answers = zip(*prompts, strict=True)
  return READER.rows(list(texts), list(answers), width=WIDTH).batch


def wordings(told, answer):
  """All wordings of a fact with an answer."""
  return [
    (prompt.replace("{}", told.subject), answer)
    for prompt in world.RELATIONS[told.relation]
  ]


def examples(facts, count: int, seed: int = 0):
  """Edits, the same in all wordings, and facts that are to stay."""
  random = np.random.RandomState(seed)
  while True:
    chosen = [facts[i] for i in random.choice(len(facts), count, replace=False)]
    answers = [str(random.choice(world.OBJECTS[t.relation])) for t in chosen]
    pairs = list(zip(chosen, answers, strict=True))
    edited = {(told.subject, told.relation) for told in chosen}
    others = [t for t in facts if (t.subject, t.relation) not in edited]
    # Half of what is to stay asks the same of other people.
    same = [t for t in others if t.relation == chosen[0].relation]
    kept = [same[i] for i in random.choice(len(same), 6)]
    kept += [others[i] for i in random.choice(len(others), 6)]
    yield (
      batch_of([wordings(told, answer)[0] for told, answer in pairs]),
      batch_of([w for told, answer in pairs for w in wordings(told, answer)]),
      batch_of([wordings(told, told.target)[0] for told in kept]),
    )


def spill(before: rome.Memory, after: rome.Memory, fact: Fact, told) -> dict:
  """Answers of other people to the same question that an edit changes."""
  known = [
    other
    for other in WORLD
    if other.relation == told.relation and other.subject != told.subject
  ]
  texts = [wordings(other, "")[0][0] for other in known]
  _, kept = scores.likelihoods(after, texts, [o.target for o in known])
  _, new = scores.likelihoods(after, texts, [fact.target] * len(known))
  was_new = np.array([other.target == fact.target for other in known])
  return {
    "others_changed": 100 * float(1 - kept.mean()),
    "others_say_it": 100 * float(new[~was_new].mean()),
  }


def editing_methods(model, params, folder, mend_steps, layer, ridge):
  """Returns the methods: each makes parameters of parameters and facts."""
  memory = rome.Memory(model, params, READER)
  texts = world.sentences(WORLD)
  moment, count = rome.second_moment(memory, texts, layer, batch_size=32)
  print(f"covariance of {count} tokens", flush=True)
  settings = rome.Settings(layer, ridge=ridge)
  prefixes = rome.sample_prefixes(
    memory, jax.random.key(0), lengths=(5,), number=4
  )
  paths = mend.last_projections(model)
  editors = mend.Mend(model, paths, rank=64)
  learned = [t for t in WORLD if t.subject not in held_out()]
  warm = examples(learned, 1, seed=1)
  statistics = editors.statistics(params, [next(warm)[0] for _ in range(64)])

  def train_editors():
    editor, history = editors.train(
      jax.random.key(0),
      params,
      examples(learned, 1),
      steps=mend_steps,
      statistics=statistics,
      learning_rate=1e-3,
      rate_learning_rate=1e-3,
      accumulate=4,
      initial_rate=1e-3,
    )
    for name, part in (("first", history[:100]), ("last", history[-100:])):
      means = {k: np.mean([h[k] for h in part]) for k in part[0]}
      print(f"MEND, {name} 100: {means}", flush=True)
    return editor

  editor = stored(folder / "mend.npz", train_editors)

  def with_rome(facts):
    changed = params
    for fact in facts:
      now = rome.Memory(model, changed, READER)
      made = rome.edit(now, fact, settings, moment_FF=moment, prefixes=prefixes)
      changed = made.apply(changed)
    return changed

  apply = jax.jit(editors.apply)

  def with_mend(facts):
    batch = batch_of([(fact.question, fact.target) for fact in facts])
    return apply(editor, statistics, params, batch)

  def fine_tuned(facts):
    batch = batch_of([(fact.question, fact.target) for fact in facts])
    return mend.fine_tuned(model, params, paths, batch, learning_rate=1e-3)

  return {
    "none": lambda facts: params,
    "fine-tuning": fine_tuned,
    "ROME": with_rome,
    "MEND": with_mend,
  }


def traced_layer(memory, told, path) -> int:
  """The layer whose network at the last token of subjects has most effect."""
  facts = [Fact(**world.request(each, WORLD)) for each in told]
  noise = tracing.noise_level(memory, facts)
  effects = []
  for fact in facts:
    found = tracing.trace(memory, fact, noise, kind="mlp", window=1)
    effects.append(found.effects_LN[found.subject[1] - 1] - found.disturbed)
  found.plot(path)
  means = np.mean(effects, axis=0)
  print(f"effects of the networks at the subject: {means.round(3).tolist()}")
  # The last layer's is read by nothing there.
  return int(means[:-1].argmax())


@functools.cache
def held_out() -> tuple[str, ...]:
  """The people of whom no editor learns."""
  return tuple(dict.fromkeys(t.subject for t in WORLD))[-HELD_OUT:]


def measure(model, params, method, told_in_groups) -> dict:
  """Scores of a method over groups of facts that are edited together."""
  before = rome.Memory(model, params, READER)
  found = []
  seconds = 0.0
  for group in told_in_groups:
    facts = [Fact(**world.request(told, WORLD)) for told in group]
    begun = time.monotonic()
    changed = jax.block_until_ready(method(facts))
    seconds += time.monotonic() - begun
    after = rome.Memory(model, changed, READER)
    for fact, told in zip(facts, group, strict=True):
      found.append(scores.score(after, fact) | spill(before, after, fact, told))
  edits = sum(map(len, told_in_groups))
  return scores.mean(found) | {"seconds_an_edit": seconds / edits}


def main() -> None:
  """Trains what is not there, edits, prints the table."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--folder", type=pathlib.Path, required=True)
  parser.add_argument("--steps", type=int, default=1200)
  parser.add_argument("--mend_steps", type=int, default=2000)
  parser.add_argument("--ridge", type=float, default=1e-2)
  arguments = parser.parse_args()
  folder = arguments.folder
  folder.mkdir(parents=True, exist_ok=True)
  model = build()
  params = stored(folder / "model.npz", lambda: train(model, arguments.steps))
  memory = rome.Memory(model, params, READER)
  texts, answers = zip(*[wordings(t, t.target)[0] for t in WORLD], strict=True)
  _, right = scores.likelihoods(memory, list(texts), list(answers))
  print(f"{100 * right.mean():.1f} % of {len(texts)} facts are known")
  told = [t for t in WORLD if t.subject in held_out()]
  layer = traced_layer(memory, told[:6], folder / "trace.svg")
  path = folder / "results.json"
  results = json.loads(path.read_text()) if path.is_file() else {}
  methods = editing_methods(
    model, params, folder, arguments.mend_steps, layer, arguments.ridge
  )
  for size in (1, 4, 12):
    groups = [told[i : i + size] for i in range(0, len(told), size)]
    for name, method in methods.items():
      row = f"{name}, {size} at once"
      if row not in results:
        results[row] = measure(model, params, method, groups)
        path.write_text(json.dumps(results, indent=2))
      shown = {key: round(value, 3) for key, value in results[row].items()}
      print(f"{row}: {json.dumps(shown)}", flush=True)


if __name__ == "__main__":
  main()
