"""SpanBERT's head of span boundaries, live: make test-oracles.

`transformers` has no class for it: the reference is written after the paper's
equations, section 3.2.
"""

from flax import traverse_util
import jax
import jax.numpy as jnp
import numpy as np
import torch

from tests import tiny_models

WIDTH, VOCABULARY, LONGEST = 24, 48, 20


class SpanBoundaryHead(torch.nn.Module):
  """y = LN(GELU(W2 h1)), h1 = LN(GELU(W1 [x_left; x_right; p])), E y + b."""

  def __init__(self, table):
    super().__init__()
    self.offset_embedding = torch.nn.Embedding(LONGEST, 200)
    self.dense_1 = torch.nn.Linear(2 * WIDTH + 200, WIDTH)
    self.norm_1 = torch.nn.LayerNorm(WIDTH, eps=1e-12)
    self.dense_2 = torch.nn.Linear(WIDTH, WIDTH)
    self.norm_2 = torch.nn.LayerNorm(WIDTH, eps=1e-12)
    self.logits_bias = torch.nn.Parameter(torch.zeros(VOCABULARY))
    self.table = torch.nn.Parameter(table)
    self.gelu = torch.nn.GELU(approximate="tanh")

  def forward(self, left, right, offsets):
    h = torch.cat([left, right, self.offset_embedding(offsets)], -1)
    h = self.norm_1(self.gelu(self.dense_1(h)))
    h = self.norm_2(self.gelu(self.dense_2(h)))
    return h @ self.table.T + self.logits_bias


def test_logits_and_gradient(report):

  model, _ = tiny_models.build("bert", "../heads/tokens_span_boundary.gin")
  params = tiny_models.random_parameters(model)
  random = np.random.RandomState(0)
  x_BTD = random.randn(3, 14, WIDTH).astype(np.float32)
  offsets = random.randint(0, LONGEST, (3, 7))
  signs = random.randn(3, 7, VOCABULARY).astype(np.float32)

  def total(params):
    logits = model.apply(
      {"params": params},
      x_BTD,
      "span_boundary",
      offsets_BP=offsets,
      method="logits",
    )
    return jnp.sum(signs * logits), logits

  (_, logits), gradient = jax.value_and_grad(total, has_aux=True)(params)
  head = traverse_util.flatten_dict(params["heads"]["span_boundary"], sep=".")
  theirs = SpanBoundaryHead(torch.tensor(params["token_embedder"]["embedding"]))
  names = {"kernel": "weight", "scale": "weight", "offset_embedding":
           "offset_embedding.weight"}  # fmt: skip

  def their_name(name):
    first, _, last = name.rpartition(".")
    return f"{first}.{names.get(last, last)}".strip(".")

  state = {
    their_name(name): torch.tensor(
      array.T if name.endswith("kernel") else array
    )
    for name, array in head.items()
  }
  theirs.load_state_dict({**theirs.state_dict(), **state})
  expected = theirs(
    torch.tensor(x_BTD[:, :7]),
    torch.tensor(x_BTD[:, 7:]),
    torch.tensor(offsets),
  )
  difference = np.abs(logits - expected.detach().numpy()).max()
  report("logits", difference / expected.abs().max().item())
  assert difference < 2e-5 * expected.abs().max().item()
  (torch.tensor(signs) * expected).sum().backward()
  found = traverse_util.flatten_dict(
    gradient["heads"]["span_boundary"], sep="."
  )
  found = {
    their_name(name): array.T if name.endswith("kernel") else array
    for name, array in found.items()
  }
  found["table"] = gradient["token_embedder"]["embedding"]
  parameters = dict(theirs.named_parameters())
  assert found.keys() == parameters.keys()
  for name, parameter in parameters.items():
    expected = parameter.grad.numpy()
    difference = np.abs(found[name] - expected).max() / np.abs(expected).max()
    report(name, difference)
    assert difference < 1e-4, name
