"""ROME against the paper's formulas in PyTorch, on GPT2LMHeadModel.

The reference is written after the authors' repository (`rome/compute_u.py`,
`compute_v.py`, `experiments/causal_trace.py`), with hooks on the modules of
`transformers`, and shares no code with ours.
"""

import contextlib

import numpy as np
import pytest
import torch

from tasks.miniature import facts as world
from tests import tiny_models
from tests.oracles.pytorch import huggingface
from transformer_zoo.editing import interventions
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


def reference(model, words, fact, prefixes, moment, settings):
  """Returns u, the value, its delta and W with the edit, [in, out]."""
  mlp = model.transformer.h[settings.layer].mlp
  prompt, subject = fact.prompt, fact.subject

  def ids_and_place(text):
    ids = words.encode(text.replace("{}", subject))
    place = len(words.encode(text[: text.index("{}")] + subject)) - 1
    return ids, place

  def at_subject(text):
    ids, place = ids_and_place(text)
    seen = {}

    def keep(module, inputs, output):
      seen["key"], seen["value"] = inputs[0][0, place], output[0, place]

    with hooked(mlp.c_proj, keep), torch.no_grad():
      model(torch.tensor([ids]))
    return seen["key"], seen["value"]

  keys = [at_subject(prefix + prompt)[0] for prefix in prefixes]
  k = torch.stack(keys).mean(0)
  u = torch.linalg.inv(torch.tensor(moment)) @ k.double()
  u = (u / u.norm()).float()

  target = words.encode(fact.target)
  texts = [ids_and_place(prefix + prompt) for prefix in prefixes]
  essence_ids, essence_place = ids_and_place("{} is a")
  v0 = at_subject(prefixes[0] + prompt)[1]
  delta = torch.zeros_like(v0, requires_grad=True)
  optimizer = torch.optim.Adam([delta], lr=settings.learning_rate)

  def logs(ids, place):
    def add(module, inputs, output):
      output = output.clone()
      output[0, place] += delta
      return output

    with hooked(mlp, add):
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
  key, value = at_subject(prompt)
  right = (v0 + delta.detach() - value) / (key @ u)
  return (
    u,
    v0,
    delta.detach(),
    mlp.c_proj.weight + torch.outer(u, right),
    losses,
  )


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
