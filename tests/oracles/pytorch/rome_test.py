"""ROME and MEMIT against the papers' formulas in PyTorch, on GPT2LMHeadModel.

The references are written after the authors' repositories
(`rome/compute_u.py`, `compute_v.py`, `experiments/causal_trace.py`,
`memit/memit_main.py`), with hooks on the modules of `transformers`, and share
no code with ours.
"""

import contextlib

import numpy as np
import pytest
import torch

from tasks.miniature import facts as world
from tests import tiny_models
from tests.oracles.pytorch import huggingface
from transformer_zoo.editing import interventions
from transformer_zoo.editing import memit
from transformer_zoo.editing import rome
from transformer_zoo.editing import tracing
from transformer_zoo.editing.facts import Fact
from transformer_zoo.editing.facts import Reader
from transformer_zoo.interop.huggingface import family_of

LAYER = 1
FACT = Fact("{} lives in", "anna fox", "farnham")
PREFIXES = ("", "the music of . ", "on stage ben holds a . ")


@pytest.fixture(scope="module")
def words():
  return world.Words()


@pytest.fixture(scope="module")
def memory(words):
  model, _ = tiny_models.build(
    "gpt_2",
    bindings=("DROPOUT_RATE=0.0",),
    EMBED_DIM=32,
    NUM_DECODER_LAYERS=4,
    VOCAB_SIZE=words.size,
    MAX_POSITIONS=64,
  )
  params = tiny_models.random_parameters(model)
  return rome.Memory(interventions.looped(model), params, Reader(words))


@pytest.fixture(scope="module")
def theirs(memory):
  described = family_of({"model_type": "gpt2"}).config(memory.model)
  model = huggingface.load(described, memory.params)
  for parameter in model.parameters():
    parameter.requires_grad_(False)
  return model


@contextlib.contextmanager
def hooked(module, hook):
  handle = module.register_forward_hook(hook)
  try:
    yield
  finally:
    handle.remove()


def ids_and_place(words, subject, text):
  """The ids of a text with its subject, and the place of the subject's end."""
  ids = words.encode(text.replace("{}", subject))
  place = len(words.encode(text[: text.index("{}")] + subject)) - 1
  return ids, place


def at_subject(model, words, subject, text, read, written):
  """What enters a module and what leaves another, at the subject's end."""
  ids, place = ids_and_place(words, subject, text)
  seen = {}

  def keep_input(module, inputs, output):
    seen["key"] = inputs[0][0, place]

  def keep_output(module, inputs, output):
    seen["value"] = _state(output)[0, place].clone()

  with hooked(read, keep_input), hooked(written, keep_output):
    with torch.no_grad():
      model(torch.tensor([ids]))
  return seen["key"], seen["value"]


def _state(output):
  return output[0] if isinstance(output, tuple) else output


def search(model, words, fact, prefixes, module, settings):
  """Returns what leaves a module, what is to be added there, and losses."""
  prompt, subject = fact.prompt, fact.subject
  target = words.encode(fact.target)
  texts = [ids_and_place(words, subject, p + prompt) for p in prefixes]
  essence_ids, essence_place = ids_and_place(words, subject, "{} is a")
  first = prefixes[0] + prompt
  _, v0 = at_subject(model, words, subject, first, module, module)
  delta = torch.zeros_like(v0, requires_grad=True)
  optimizer = torch.optim.Adam([delta], lr=settings.learning_rate)

  def logs(ids, place):
    def add(module, inputs, output):
      state = _state(output).clone()
      state[0, place] += delta
      return (state, *output[1:]) if isinstance(output, tuple) else state

    with hooked(module, add):
      return torch.log_softmax(model(torch.tensor([ids])).logits[0], -1)

  known = None
  losses = []
  for step in range(settings.steps):
    optimizer.zero_grad()
    nll = 0.0
    for ids, place in texts:
      found = logs(ids + target[:-1], place)
      at = [found[len(ids) - 1 + i, t] for i, t in enumerate(target)]
      nll = nll - torch.stack(at).mean() / len(texts)
    now = logs(essence_ids, essence_place)[essence_place]
    known = now.detach().clone() if known is None else known
    kl = settings.kl_factor * torch.nn.functional.kl_div(
      now[None], known[None], log_target=True, reduction="batchmean"
    )
    # The inverse direction of `kl_div`'s arguments is the repository's too.
    decay = settings.weight_decay * delta.norm() / v0.norm() ** 2
    loss = nll + kl + decay
    losses.append(loss.item())
    if loss < settings.least_loss or step == settings.steps - 1:
      break
    loss.backward()
    optimizer.step()
    most = settings.clamp * v0.norm()
    if delta.norm() > most:
      with torch.no_grad():
        delta[...] = delta * most / delta.norm()
  return v0, delta.detach(), losses


def reference(model, words, fact, prefixes, moment, settings):
  """Returns u, the value, its delta and W with the edit, [in, out]."""
  mlp = model.transformer.h[settings.layer].mlp
  read = (model, words, fact.subject)
  keys = [
    at_subject(*read, prefix + fact.prompt, mlp.c_proj, mlp)[0]
    for prefix in prefixes
  ]
  k = torch.stack(keys).mean(0)
  u = torch.linalg.inv(torch.tensor(moment)) @ k.double()
  u = (u / u.norm()).float()
  v0, delta, losses = search(model, words, fact, prefixes, mlp, settings)
  key, value = at_subject(*read, fact.prompt, mlp.c_proj, mlp)
  right = (v0 + delta - value) / (key @ u)
  return u, v0, delta, mlp.c_proj.weight + torch.outer(u, right), losses


def memit_reference(model, words, facts, prefixes, moments, settings):
  """Returns the edited matrix of each layer, [in, out]."""
  blocks = model.transformer.h
  last = blocks[settings.layers[-1]]
  wanted = torch.stack(
    [
      sum(search(model, words, fact, prefixes, last, settings.search)[:2])
      for fact in facts
    ]
  )
  before = {layer: blocks[layer].mlp.c_proj.weight for layer in settings.layers}
  before = {layer: weight.detach().clone() for layer, weight in before.items()}
  edited = {}
  for number, layer in enumerate(settings.layers):
    projection = blocks[layer].mlp.c_proj
    keys, now = [], []
    for fact in facts:
      read = (model, words, fact.subject)
      each = [
        at_subject(*read, prefix + fact.prompt, projection, last)
        for prefix in prefixes
      ]
      behind = torch.stack([key for key, _ in each[1:]]).mean(0)
      keys.append((each[0][0] + behind) / 2)
      now.append(each[0][1])
    k = torch.stack(keys).double().T
    residual = (wanted - torch.stack(now)).double().T
    residual /= len(settings.layers) - number
    moment = torch.tensor(moments[layer])
    adjusted = torch.linalg.solve(settings.moment_weight * moment + k @ k.T, k)
    with torch.no_grad():
      projection.weight += (adjusted @ residual.T).float()
    edited[layer] = projection.weight.detach().clone()
  with torch.no_grad():
    for layer, weight in before.items():
      blocks[layer].mlp.c_proj.weight[...] = weight
  return edited


@pytest.mark.parametrize("clamp", [4.0, 0.5])
def test_key_value_and_matrix(memory, theirs, words, clamp, report):
  texts = world.sentences(world.world())[:96]
  moment, count = rome.second_moment(memory, texts, LAYER)
  keys = []

  def keep(module, inputs, output):
    keys.append(inputs[0][0])

  with hooked(theirs.transformer.h[LAYER].mlp.c_proj, keep), torch.no_grad():
    for text in texts:
      theirs(torch.tensor([words.encode(text)]))
  stacked = torch.cat(keys).double()
  expected = (stacked.T @ stacked / len(stacked)).numpy()
  assert count == len(stacked)
  np.testing.assert_allclose(moment, expected, rtol=1e-4, atol=1e-6)

  settings = rome.Settings(LAYER, clamp=clamp)
  u, v0, delta, edited, losses = reference(
    theirs, words, FACT, PREFIXES, moment, settings
  )
  edit = rome.edit(memory, FACT, settings, moment_FF=moment, prefixes=PREFIXES)
  found = rome.value(memory, FACT, settings, PREFIXES)
  np.testing.assert_allclose(edit.left_FX[:, 0], u, atol=2e-5)
  np.testing.assert_allclose(found.before_D, v0, atol=1e-5)
  np.testing.assert_allclose(
    [each["loss"] for each in found.losses], losses, rtol=1e-3, atol=1e-4
  )
  np.testing.assert_allclose(
    found.delta_D, delta, atol=5e-3 * float(delta.abs().max())
  )
  ours = edit.apply(memory.params)["decoder"][f"layers_{LAYER}"]["mlp"]["wo"]
  error = np.abs(ours["kernel"] - edited.numpy()).max()
  report("edited matrix", error / np.abs(edited.numpy()).max())
  assert error < 5e-3 * np.abs(edited.numpy()).max()


def test_memit_in_two_layers(memory, theirs, words, report):
  facts = [
    FACT,
    Fact("{} lives in", "ben elm", "ashby"),
    Fact("on stage {} played the", "karen rose", "violin"),
  ]
  texts = world.sentences(world.world())[:96]
  layers = (LAYER, LAYER + 1)
  moments = {
    layer: rome.second_moment(memory, texts, layer)[0] + 0.1 * np.eye(36)
    for layer in layers
  }
  settings = memit.Settings(layers, moment_weight=5.0, steps=10)
  expected = memit_reference(theirs, words, facts, PREFIXES, moments, settings)
  made = memit.edit(memory, facts, settings, moments=moments, prefixes=PREFIXES)
  params = memory.params
  for edit in made:
    params = edit.apply(params)
  for layer, edited in expected.items():
    ours = params["decoder"][f"layers_{layer}"]["mlp"]["wo"]["kernel"]
    largest = np.abs(edited.numpy()).max()
    error = np.abs(ours - edited.numpy()).max()
    report(f"edited matrix of layer {layer}", error / largest)
    assert error < 5e-3 * largest


@pytest.mark.parametrize("kind", tracing.KINDS)
def test_causal_traces(memory, theirs, words, kind):
  noise, samples, window = 0.5, 3, 2
  found = tracing.trace(
    memory, FACT, noise, kind=kind, window=window, samples=samples
  )
  ids = torch.tensor([words.encode(FACT.question)] * (samples + 1))
  drawn = np.random.RandomState(1).randn(samples, 2, 32).astype(np.float32)
  blocks = theirs.transformer.h
  modules = {
    "states": [[block] for block in blocks],
    "mlp": [[b.mlp for b in blocks[max(0, i - 1) : i + 1]] for i in range(4)],
    "attention": [
      [b.attn for b in blocks[max(0, i - 1) : i + 1]] for i in range(4)
    ],
  }[kind]

  def disturb(module, inputs, output):
    output = output.clone()
    output[1:, 0:2] += noise * torch.tensor(drawn)
    return output

  def probabilities(place, restored):
    def restore(module, inputs, output):
      state = output[0] if isinstance(output, tuple) else output
      state[1:, place] = state[0, place]
      return output

    with contextlib.ExitStack() as hooks, torch.no_grad():
      hooks.enter_context(hooked(theirs.transformer.wte, disturb))
      for module in restored:
        hooks.enter_context(hooked(module, restore))
      found = torch.softmax(theirs(ids).logits[:, -1], -1)
    answer = found[0].argmax()
    return float(found[0, answer]), float(found[1:, answer].mean())

  clean, disturbed = probabilities(0, [])
  assert found.clean == pytest.approx(clean, rel=1e-4)
  assert found.disturbed == pytest.approx(disturbed, rel=1e-4)
  expected = [
    [probabilities(place, restored)[1] for restored in modules]
    for place in range(ids.shape[1])
  ]
  np.testing.assert_allclose(found.effects_LN, expected, rtol=2e-3, atol=1e-6)
