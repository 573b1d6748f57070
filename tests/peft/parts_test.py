"""Each part that a method puts into a model, against what it stands for."""

import functools
import itertools

from flax import linen as nn
import gin
import jax
import numpy as np
import pytest
import scipy.special

from tests import programs
from tests.peft import methods_test as methods
from transformer_zoo.data.features import prompts as prompt_features
from transformer_zoo.errors import UserError
from transformer_zoo.modules.attention.attention import Attention
from transformer_zoo.modules.embedding import Embed
from transformer_zoo.modules.feed_forward import Mlp
from transformer_zoo.modules.linear import Linear
from transformer_zoo.peft import adapters
from transformer_zoo.peft import bitfit
from transformer_zoo.peft import ia3
from transformer_zoo.peft import lora
from transformer_zoo.peft import merging
from transformer_zoo.peft import prefixes
from transformer_zoo.peft import prompts
from transformer_zoo.peft import substitution

WIDTH, FEATURES, RANK = 6, 5, 2


@pytest.fixture(autouse=True)
def clean():
  yield
  gin.clear_config()


def normal(seed, *shape):
  return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


def random_leaves(shapes, seed=0):
  return {
    name: normal(seed + i, *shape)
    for i, (name, shape) in enumerate(sorted(shapes.items()))
  }


def lengths(kernel):
  return np.linalg.norm(kernel, axis=0)


def as_lora(x, scale, *, kernel, bias, lora_a, lora_b):
  return x @ kernel + scale * (x @ lora_a) @ lora_b + bias


def as_dora(x, scale, *, kernel, bias, lora_a, lora_b, dora_scale):
  changed = kernel + scale * lora_a @ lora_b
  return x @ changed * (dora_scale * lengths(kernel) / lengths(changed)) + bias


def as_scaled_output(x, _, *, kernel, bias, ia3_scale):
  return (x @ kernel + bias) * ia3_scale


def as_scaled_input(x, _, *, kernel, bias, ia3_scale):
  return (x * ia3_scale) @ kernel + bias


def as_biased(x, _, *, kernel, bias, bitfit_bias):
  return x @ kernel + bias + bitfit_bias


LOW_RANK = {"rank": RANK, "alpha": 3.0}
SHAPES = {"lora_a": (WIDTH, RANK), "lora_b": (RANK, FEATURES)}
# The rule, the shapes of what it adds with where they begin, what it computes.
PROJECTIONS = {
  "lora": (
    functools.partial(lora.lora, **LOW_RANK),
    SHAPES,
    {"lora_b": 0.0},
    as_lora,
  ),
  "dora": (
    functools.partial(lora.dora, **LOW_RANK),
    {**SHAPES, "dora_scale": (FEATURES,)},
    {"lora_b": 0.0, "dora_scale": 1.0},
    as_dora,
  ),
  "outputs": (
    functools.partial(ia3.ia3, inputs="none"),
    {"ia3_scale": (FEATURES,)},
    {"ia3_scale": 1.0},
    as_scaled_output,
  ),
  "inputs": (
    functools.partial(ia3.ia3, "none"),
    {"ia3_scale": (WIDTH,)},
    {"ia3_scale": 1.0},
    as_scaled_input,
  ),
  "biases": (
    bitfit.biases,
    {"bitfit_bias": (FEATURES,)},
    {"bitfit_bias": 0.0},
    as_biased,
  ),
}


@pytest.mark.parametrize(
  ("name", "use_bias"),
  [
    (name, use_bias)
    for name in PROJECTIONS
    for use_bias in (False, True)
    if not (name == "biases" and use_bias)
  ],
)
def test_a_projection_computes_what_its_method_says_and_is_merged(
  name, use_bias
):
  rule, shapes, begun, reference = PROJECTIONS[name]
  linear = Linear(use_bias=use_bias)
  part = rule(".*/query")("encoder/query", linear)
  x = normal(0, 2, 3, WIDTH)
  own = {"kernel": normal(1, WIDTH, FEATURES)}
  if use_bias:
    own["bias"] = normal(2, FEATURES)
  leaves = {**own, **random_leaves(shapes, seed=3)}

  def outputs(part, leaves):
    found = programs.apply(part, {"params": leaves}, x, FEATURES)
    return np.asarray(found)

  scale = getattr(part, "scale", None)
  expected = reference(x, scale, **{"bias": np.float32(0), **leaves})
  before = x @ own["kernel"] + own.get("bias", 0)
  assert np.abs(expected - before).max() > 0.5
  np.testing.assert_allclose(outputs(part, leaves), expected, 1e-4, 1e-5)

  initial = nn.unbox(programs.init(part, jax.random.key(0), x, FEATURES))
  initial = jax.device_get(initial["params"])
  assert {n: leaf.shape for n, leaf in initial.items() if n not in own} == (
    shapes
  )
  for leaf, value in begun.items():
    np.testing.assert_array_equal(initial[leaf], value, err_msg=leaf)
  # It adds exactly nothing: not compiled, where additions are fused.
  whole = part.apply({"params": initial | own}, x, FEATURES)
  base = linear.apply({"params": own}, x, FEATURES)
  np.testing.assert_array_equal(whole, base)

  merged, kept = part.merge(leaves)
  assert type(merged) is Linear and merged.use_bias == ("bias" in kept)
  found = x @ kept["kernel"] + kept.get("bias", 0)
  np.testing.assert_allclose(found, expected, 1e-4, 1e-5)
  # Layers that are stacked are merged at once.
  others = {n: 0.5 * leaf for n, leaf in leaves.items()}
  stacked = {n: np.stack([leaf, others[n]]) for n, leaf in leaves.items()}
  _, both = part.merge(stacked)
  for n, leaf in part.merge(others)[1].items():
    np.testing.assert_allclose(both[n], np.stack([kept[n], leaf]), 1e-5, 1e-6)
  if name in ("lora", "outputs", "inputs"):
    added = {n: leaf for n, leaf in leaves.items() if n not in own}
    back = part.unmerge(kept, added)
    assert back.keys() == leaves.keys()
    for n, leaf in back.items():
      np.testing.assert_allclose(leaf, leaves[n], 1e-4, 1e-5, err_msg=n)
  elif name == "dora":
    with pytest.raises(UserError, match="DoRA cannot be unmerged"):
      part.unmerge(kept, leaves)


@pytest.mark.parametrize(
  "names",
  [
    *itertools.permutations(("lora", "outputs"), 2),
    *itertools.permutations(("lora", "inputs"), 2),
    *itertools.permutations(("outputs", "biases"), 2),
    ("lora", "biases", "outputs"),
    ("dora", "outputs"),
  ],
)
def test_several_methods_of_a_projection_are_merged_in_their_order(names):
  model, leaves = OneProjection(), {"kernel": normal(1, WIDTH, FEATURES)}
  for i, name in enumerate(names):
    rule, shapes, _, _ = PROJECTIONS[name]
    model = substitution.substitute(model, [rule("query")])
    leaves |= random_leaves(shapes, seed=3 * i)
  x = normal(0, 2, 3, WIDTH)
  expected = programs.apply(model, {"params": {"query": leaves}}, x)
  merged, kept = merging.merged(model, {"query": leaves})
  assert type(merged.query) is Linear
  found = programs.apply(merged, {"params": kept}, x)
  np.testing.assert_allclose(found, expected, 1e-4, 1e-4)
  if "dora" not in names:
    added = {"query": without(leaves, "kernel")}
    back = merging.unmerged(model, kept, added)["query"]
    assert back.keys() == leaves.keys()
    for name, leaf in leaves.items():
      np.testing.assert_allclose(back[name], leaf, 1e-3, 1e-4, err_msg=name)


class OneProjection(nn.Module):
  query: nn.Module = Linear()

  def __call__(self, x):
    return self.query(x, FEATURES)


def without(leaves, name):
  return {other: leaf for other, leaf in leaves.items() if other != name}


def test_lengths_of_columns_are_those_of_the_kernel_alone():
  part = lora.lora(".*", 2)("query", Linear())
  with pytest.raises(UserError, match=r"name @dora\(\) before the other"):
    lora.dora(".*", 2)("query", part)


def test_biases_are_given_to_those_without():
  linear = Linear(use_bias=True)
  assert bitfit.biases(".*")("query", linear) is linear


def test_scales_of_low_rank_updates():
  for rule in (lora.lora, lora.dora):
    part = rule(".*", 4, 6.0)("query", Linear())
    assert part.scale == 1.5
    part = rule(".*", 4, 6.0, lora.by_root_of_rank)("query", Linear())
    assert part.scale == 3.0


def of_t5(method, **macros):
  """The first query's projection, as the shipped file has it."""
  model, _ = methods.build(method, "t5_1_1", **macros)
  return model.encoder.layer_stack.layer.attention.query.clone(parent=None)


def test_gradients_of_dora_take_the_length_for_a_constant():
  """Section 4.3: no derivative of the changed columns' length."""
  query = of_t5("dora", LORA_RANK=2)
  random = np.random.RandomState(0)

  def normal(*shape):
    return random.standard_normal(shape).astype(np.float32)

  x, kernel, cotangent = normal(4, 6), normal(6, 5), normal(4, 5)
  a, b, scale = normal(6, query.rank), normal(query.rank, 5), normal(5)
  added = {"lora_a": a, "lora_b": b, "dora_scale": scale}

  @jax.jit
  def gradients(added):
    def weighed(added):
      params = {"kernel": kernel, **added}
      return (query.apply({"params": params}, x, 5) * cotangent).sum()

    return jax.grad(weighed)(added)

  changed = kernel + query.scale * a @ b
  ratio = np.linalg.norm(kernel, axis=0) / np.linalg.norm(changed, axis=0)
  of_changed = scale * ratio * (x.T @ cotangent)
  expected = {
    "lora_a": query.scale * of_changed @ b.T,
    "lora_b": query.scale * a.T @ of_changed,
    "dora_scale": ratio * (x @ changed * cotangent).sum(0),
  }
  jax.tree.map(
    lambda found, wanted: np.testing.assert_allclose(
      found, wanted, rtol=1e-4, atol=1e-4
    ),
    gradients(added),
    expected,
  )


def test_dropout_of_lora_is_that_of_training_alone():
  query = of_t5("lora", LORA_DROPOUT=0.5, LORA_RANK=2)
  leaves = {
    "kernel": np.zeros((WIDTH, FEATURES), np.float32),
    "lora_a": normal(0, WIDTH, query.rank),
    "lora_b": normal(1, query.rank, FEATURES),
  }
  x = np.ones((1, 400, WIDTH), np.float32)

  def outputs(**rngs):
    found = programs.apply(query, {"params": leaves}, x, FEATURES, rngs=rngs)
    return np.asarray(found)[0]

  kept = outputs()
  np.testing.assert_allclose(
    kept, query.scale * x[0] @ leaves["lora_a"] @ leaves["lora_b"], rtol=1e-4
  )
  one, two = (outputs(dropout=jax.random.key(seed)) for seed in (1, 2))
  assert np.abs(one - two).max() > 1e-3
  # Of each of the inputs half is kept, twice as large.
  rows = {tuple(row) for row in np.round(one, 3)}
  assert WIDTH < len(rows) <= 2**WIDTH
  np.testing.assert_allclose(one.mean(0), kept[0], atol=0.2 * one.std())


def dense(x, params):
  return x @ params["kernel"] + params.get("bias", 0)


@pytest.mark.parametrize("kind", ["sequential", "parallel"])
def test_an_adapter_of_a_sublayer(kind):
  """Behind the network it reads what that gives, beside it what that reads."""
  rule = getattr(adapters, f"{kind}_adapters")
  options = {} if kind == "sequential" else {"scale": 3.0}
  adapter = Mlp(3, wi=Linear(use_bias=True), wo=Linear(use_bias=True))
  part = rule(adapter, ".*/mlp", **options)("decoder/layers/mlp", Mlp(7))
  of_adapter = {
    "wi": {"kernel": normal(0, 4, 3), "bias": normal(1, 3)},
    "wo": {"kernel": normal(2, 3, 4), "bias": normal(3, 4)},
  }
  own = {"wi": {"kernel": normal(4, 4, 7)}, "wo": {"kernel": normal(5, 7, 4)}}
  x = normal(6, 2, 3, 4)

  def network(x, params):
    return dense(np.maximum(dense(x, params["wi"]), 0), params["wo"])

  found = programs.apply(
    part, {"params": {**own, "adapter": of_adapter}}, x, deterministic=True
  )
  y = network(x, own)
  expected = (
    y + network(y, of_adapter)
    if kind == "sequential"
    else y + 3 * network(x, of_adapter)
  )
  np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


HEADS, HEAD_DIM, PREFIX = 2, 3, 2
X = HEADS * HEAD_DIM


def attended(x, params, key, value, mask_LM, bias_HLM):
  """Rows [L, D] over keys and values [M, X]."""

  def heads(y):
    return y.reshape(len(y), HEADS, HEAD_DIM).swapaxes(0, 1)

  query = heads(x @ params["query"]["kernel"])
  scores = query @ heads(key).swapaxes(1, 2) + bias_HLM
  weights = scipy.special.softmax(np.where(mask_LM, scores, -np.inf), axis=-1)
  context = weights @ heads(value)
  return context.swapaxes(0, 1).reshape(len(x), X) @ params["out"]["kernel"]


@pytest.mark.parametrize("network", [False, True])
def test_tokens_attend_to_a_prefix_before_them(network):
  """Whatever the mask says, and with no bias but one that counts it."""
  prefix = (
    prefixes.PrefixNetwork(PREFIX, features=4, hidden=5)
    if network
    else prefixes.Prefix(PREFIX)
  )
  part = prefixes.prefix(prefix)("attention", Attention(HEADS, HEAD_DIM))
  x, length = normal(0, 2, 3, 4), 3
  own = {
    name: {"kernel": normal(i, 4, X)}
    for i, name in enumerate(("query", "key", "value"), start=1)
  }
  own["out"] = {"kernel": normal(4, X, 4)}
  if network:
    leaves = {
      "embedding": normal(5, PREFIX, 4),
      "wi": {"kernel": normal(6, 4, 5), "bias": normal(7, 5)},
      "wo": {"kernel": normal(8, 5, 2 * X), "bias": normal(9, 2 * X)},
    }
    hidden = np.tanh(dense(leaves["embedding"], leaves["wi"]))
    key, value = np.split(dense(hidden, leaves["wo"]), 2, axis=-1)
    kept = prefix.kept(leaves)
    np.testing.assert_allclose(kept["key"], key, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(kept["value"], value, rtol=1e-5, atol=1e-6)
  else:
    key, value = normal(5, PREFIX, X), normal(6, PREFIX, X)
    leaves = {"key": key, "value": value}
  mask = np.tril(np.ones((length, length), bool))
  mask[1, 0] = False
  whole_mask = np.pad(mask, ((0, 0), (PREFIX, 0)), constant_values=True)
  widths = (length,) if network else (length, length + PREFIX)
  for width in widths:
    bias = normal(10, 1, HEADS, length, width)
    found = programs.apply(
      part,
      {"params": {**own, "prefix": leaves}},
      x,
      mask_B1LM=np.broadcast_to(mask, (2, 1, length, length)),
      bias_1HLM=bias,
    )
    before = length + PREFIX - width
    whole_bias = np.pad(bias[0], ((0, 0), (0, 0), (before, 0)))
    for row, y in zip(x, np.asarray(found), strict=True):
      keys = np.concatenate([key, row @ own["key"]["kernel"]])
      values = np.concatenate([value, row @ own["value"]["kernel"]])
      expected = attended(row, own, keys, values, whole_mask, whole_bias)
      np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("begin_at", [(), ([4], [1, 2])])
def test_vectors_of_a_prompt_take_the_places_that_are_its(begin_at):
  """By themselves, or added to the mean of embeddings that they do not move."""
  rule = prompts.prompt(2, begin_at=begin_at)
  embedder = Embed(num_embeddings=7, features=3)
  part = rule("token_embedder", embedder)
  assert rule("decoder", embedder) is embedder
  table, vectors = normal(0, 7, 3), normal(1, 2, 3)
  first = prompt_features.FIRST_ID
  tokens = np.array([[first, first + 1, 5, 0], [6, 5, first + 1, 3]], np.int32)
  weights = normal(2, 2, 4, 3)

  @jax.jit
  def run(params):
    def weighed(params):
      found = part.apply({"params": params}, tokens)
      return (found * weights).sum(), found

    gradients, found = jax.grad(weighed, has_aux=True)(params)
    return found, gradients

  found, gradients = jax.device_get(
    run({"embedding": table, "prompt": vectors})
  )
  begun = vectors
  if begin_at:
    begun = vectors + np.stack([table[4], table[[1, 2]].mean(0)])
  expected = table[np.where(tokens < first, tokens, 0)]
  is_prompt = tokens >= first
  expected[is_prompt] = begun[(tokens - first)[is_prompt]]
  np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
  of_table, of_vectors = np.zeros_like(table), np.zeros_like(vectors)
  np.add.at(of_table, tokens[~is_prompt], weights[~is_prompt])
  np.add.at(of_vectors, (tokens - first)[is_prompt], weights[is_prompt])
  np.testing.assert_allclose(gradients["embedding"], of_table, 1e-5, 1e-6)
  np.testing.assert_allclose(gradients["prompt"], of_vectors, 1e-5, 1e-6)


def test_vectors_begin_at_tokens_of_the_vocabulary():
  drawn = prompts.of_vocabulary(40, most_frequent=43, seed=1)
  assert sorted(drawn) == [[i] for i in range(3, 43)]
  assert drawn == prompts.of_vocabulary(40, most_frequent=43, seed=1)
  assert drawn != prompts.of_vocabulary(40, most_frequent=43, seed=2)
  assert len(prompts.of_vocabulary(50, most_frequent=5)) == 50
  with pytest.raises(UserError, match="begin_at has ids for 40 vectors"):
    prompts.prompt(39, begin_at=drawn)


def test_a_method_is_the_last_that_is_taken_away():
  part = lora.lora(".*", 2)("query", Linear(use_bias=True))
  twice = ia3.ia3(".*", "none")("query", part)
  assert substitution.unextended(twice) == part
  assert substitution.unextended(part) == Linear(use_bias=True)
