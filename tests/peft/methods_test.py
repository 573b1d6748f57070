"""Properties that every method has over every kind of model."""

import functools
import re

from flax import linen as nn
from flax import traverse_util
import gin
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import rule_sets
from tests import tiny_models
from transformer_zoo import config
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data.features import converters
from transformer_zoo.decoding.generate import generate
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.errors import UserError
from transformer_zoo.interop.tensors import assignment
from transformer_zoo.interop.tensors.lazy_tensors import Tensor
from transformer_zoo.parameter_names import Parameter
from transformer_zoo.peft import merging
from transformer_zoo.peft import projections
from transformer_zoo.peft import substitution
from transformer_zoo.runs.answers import scoring
from transformer_zoo.training import state as state_lib

MODELS = {
  "t5_1_1": ("architectures/t5_1_1.gin", "runs/finetune.gin"),
  "gpt_2": ("architectures/gpt_2.gin", "runs/finetune.gin"),
  "bert": ("architectures/bert.gin", "runs/finetune.gin", "heads/classes.gin"),
}
# Methods that add parameters -> what the names of these match.
ADDED = {
  "adapters": r".*/(adapter|pre_adapter_layer_norm)/\w.*",
  "bitfit": r".*(attention|mlp)/\w+/bitfit_bias",
  "dora": r".*attention/(query|value)/(lora_[ab]|dora_scale)",
  "houlsby": r".*(attention|mlp)/adapter/w[io]/(kernel|bias)",
  "ia3": r".*(attention/(key|value)|mlp/wo)/ia3_scale",
  "lora": r".*attention/(query|value)/lora_[ab]",
  "lora_adapters": r".*/(lora_[ab]|adapter/.*|pre_adapter_layer_norm/.*)",
  "lora_norms": r".*attention/(query|value)/lora_[ab]",
  "parallel_adapters": r".*mlp/adapter/w[io]/(kernel|bias)",
  "pfeiffer": r".*/layers(_\d+)?/adapter/w[io]/(kernel|bias)",
}
# Methods that change outputs from the first -> the same.
BEGUN = {
  "p_tuning_v2": r".*attention/prefix/(key|value)",
  "prefix": r".*attention/prefix/(embedding|w[io]/(kernel|bias))",
  "prompt": r"token_embedder/prompt",
  "prompt_vocabulary": r"token_embedder/prompt",
}
SUBSETS = ("embeddings", "norms")
METHODS = (*ADDED, *BEGUN, *SUBSETS)
MERGED = ("bitfit", "dora", "ia3", "lora", "lora_norms")
UNMERGED = ("ia3", "lora", "lora_norms")


@pytest.fixture(autouse=True)
def clean():
  yield
  gin.clear_config()


def build(method, kind, **macros):
  """Returns (model, trainable) of a method over a kind of model."""
  run = settings(method, kind, **macros)
  return run["model"], run["trainable"]


def has_adapters(method):
  return "adapter" in method or method in ("houlsby", "pfeiffer")


def settings(method, kind, **macros):
  """The settings of `train` of a method over a kind of model."""
  macros = {**tiny_models.TINY, **macros}
  macros.pop(
    {"gpt_2": "NUM_ENCODER_LAYERS", "bert": "NUM_DECODER_LAYERS"}.get(kind),
    None,
  )
  if has_adapters(method):
    macros.setdefault("ADAPTER_DIM", 6)
  if "prompt" in method:
    macros.setdefault("PROMPT_LENGTH", 3)
  if method in ("prefix", "p_tuning_v2"):
    macros.setdefault("PREFIX_LENGTH", 3)
  if method == "prefix":
    macros.setdefault("PREFIX_HIDDEN", 5)
  bindings = ["MODEL_DIR='run'", "MIXTURE_OR_TASK_NAME='task'"]
  bindings += [f"{name}={value!r}" for name, value in macros.items()]
  if method == "prompt_vocabulary":
    bindings.append("prompt_ids.of_vocabulary.most_frequent=48")
  config.load([*MODELS[kind], f"peft/{method}.gin"], bindings)
  return gin.get_bindings("train")


def flat_shapes(model):
  params = state_lib.abstract_params(model)
  return traverse_util.flatten_dict(params, sep="/")


def names(tree):
  """Paths of the leaves."""
  leaves = jax.tree_util.tree_leaves_with_path(tree)
  return [
    jax.tree_util.keystr(path, simple=True, separator="/") for path, _ in leaves
  ]


def fresh(model):
  """Random parameters of the base, with those of the method as they begin."""
  base = traverse_util.flatten_dict(
    tiny_models.random_parameters(substitution.original(model)), sep="/"
  )
  begun = nn.unbox(state_lib.initial_variables(model, jax.random.key(3)))
  begun = traverse_util.flatten_dict(begun, sep="/")
  return traverse_util.unflatten_dict({**begun, **base}, sep="/")


def moved(params, trainable):
  """The same with other values of all that is trained."""
  trained = trainable.of(params)
  leaves, structure = jax.tree.flatten(trained)
  random = np.random.RandomState(1)
  leaves = [x + 0.3 * random.standard_normal(x.shape) for x in leaves]
  leaves = [jnp.asarray(x, jnp.float32) for x in leaves]
  return trainable.put(params, jax.tree.unflatten(structure, leaves))


def texts(kind):
  """Examples for the converter of a kind of model."""
  examples = tiny_models.random_examples()
  if kind == "bert":
    inputs = examples["inputs"]
    nothing = Ragged(np.zeros_like(inputs.values), inputs.lengths)
    starts = nothing.values.copy()
    starts[inputs.starts] = 1
    weights = Ragged(starts, inputs.lengths)
    return {"inputs": inputs, "targets": nothing, "weights": weights}
  return examples


def batch_of(model):
  random = np.random.RandomState(0)

  def ids(length):
    return random.randint(3, 48, (2, length)).astype(np.int32)

  lengths = {"encoder": 9, "decoder": 7}
  return {name: ids(lengths[name.partition("_")[0]]) for name in model.reads}


def outputs(model, params, batch):
  apply = jax.jit(
    lambda params, batch: model.apply(
      {"params": params}, batch, method="all_logits"
    )
  )
  return apply(params, batch)


@functools.cache
def outputs_of_base(base):
  """Outputs at the weights of `fresh`, which are a function of their paths.

  Not compiled: XLA fuses the base with what is added, which rounds otherwise.
  """
  params = tiny_models.random_parameters(base)
  return base.apply({"params": params}, batch_of(base), method="all_logits")


def largest(found, expected):
  differences = jax.tree.map(
    lambda a, b: np.max(np.abs(a - b)), found, expected
  )
  return max(jax.tree.leaves(differences))


# One layer a side is a method at every place of it.
SHALLOW = {"NUM_ENCODER_LAYERS": 1, "NUM_DECODER_LAYERS": 1}
# All methods in the kind with most places, and in the others one each of those
# that add to projections, to networks, and nothing where biases are there.
FAST = {("adapters", "bert"), ("bitfit", "gpt_2"), ("lora", "gpt_2")}


@pytest.mark.parametrize(
  ("method", "kind"),
  [
    pytest.param(
      method,
      kind,
      marks=()
      if kind == "t5_1_1" or (method, kind) in FAST
      else pytest.mark.slow,
    )
    for method in ADDED
    for kind in MODELS
  ],
)
def test_a_method_adds_parameters_and_changes_nothing_at_first(method, kind):
  model, trainable = build(method, kind, **SHALLOW)
  base = substitution.original(model)
  before, after = flat_shapes(base), flat_shapes(model)
  assert {n: x.shape for n, x in before.items()}.items() <= {
    n: x.shape for n, x in after.items()
  }.items()
  added = after.keys() - before.keys()
  if method != "bitfit" or kind == "t5_1_1":
    assert added
  assert all(re.fullmatch(ADDED[method], name) for name in added)
  params, batch = fresh(model), batch_of(model)

  def eager(params):
    return model.apply({"params": params}, batch, method="all_logits")

  found = eager(params)
  assert largest(found, outputs_of_base(base)) == 0.0
  trainable.check(params)
  assert largest(eager(moved(params, trainable)), found) > 1e-3


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("method", METHODS)
def test_a_method_starts_from_its_base(method, kind):
  model, _ = build(method, kind)
  initial = config.call("InitialCheckpoint")
  base = {
    name: Tensor.of(np.zeros(x.shape, x.dtype))
    for name, x in flat_shapes(substitution.original(model)).items()
  }
  wanted = {
    name: Parameter(x.shape, (None,) * x.ndim)
    for name, x in flat_shapes(model).items()
  }
  rules = assignment.Rules(initial.assignments, fresh=initial.fresh)
  found = assignment.assign(wanted, base, rules, "the base")
  read = {name for name, tensor in found.tensors.items() if tensor is not None}
  assert read == base.keys() and not found.unused


@pytest.mark.parametrize("method", METHODS)
def test_heads_are_trained_with_every_method(method):
  model, trainable = build(method, "bert")
  params = state_lib.abstract_params(model)
  of_heads = {name for name in flat_shapes(model) if name.startswith("heads/")}
  assert of_heads and of_heads <= set(names(trainable.of(params)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["t5_1_1", "bert"])
@pytest.mark.parametrize("method", METHODS)
def test_scanned_and_looped_are_one_model(method, kind):
  looped, trainable = build(method, kind)
  params, batch = moved(fresh(looped), trainable), batch_of(looped)
  expected = outputs(looped, params, batch)
  scanned, _ = build(method, kind, SCAN_LAYERS=True, REMAT="full")
  assert largest(outputs(scanned, stacked(params), batch), expected) < 1e-5


def stacked(params):
  def of(tree):
    if not isinstance(tree, dict):
      return tree
    layers = [key for key in tree if re.fullmatch(r"layers_\d+", key)]
    rest = {key: of(tree[key]) for key in tree if key not in layers}
    if layers:
      each = [tree[f"layers_{i}"] for i in range(len(layers))]
      rest["layers"] = jax.tree.map(lambda *x: np.stack(x), *each)
    return rest

  return of(params)


@pytest.mark.slow
@pytest.mark.parametrize("scan", [False, True])
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("method", MERGED)
def test_merged_and_unmerged(method, kind, scan):
  model, trainable = build(method, kind, SCAN_LAYERS=scan)
  params, batch = moved(fresh(model), trainable), batch_of(model)
  base, merged = merging.merged(model, params)
  assert substitution.substitutes(base) == []
  expected = outputs(model, params, batch)
  assert largest(outputs(base, merged, batch), expected) < 1e-4
  if method in UNMERGED:
    found = merging.unmerged(model, merged, params)
    assert largest(found, params) < 1e-5
  elif method == "dora":
    with pytest.raises(UserError, match="DoRA cannot be unmerged"):
      merging.unmerged(model, merged, params)


@pytest.mark.parametrize("method", sorted(set(ADDED) - {*MERGED}))
def test_what_cannot_be_merged(method):
  model, _ = build(method, "t5_1_1")
  with pytest.raises(UserError, match="cannot be merged"):
    merging.merged(
      model,
      jax.tree.map(
        lambda leaf: np.zeros(leaf.shape, leaf.dtype),
        state_lib.abstract_params(model),
      ),
    )


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("method", BEGUN)
def test_a_method_that_begins_elsewhere_moves_no_parameter(method, kind):
  model, trainable = build(method, kind)
  before = flat_shapes(substitution.original(model))
  after = flat_shapes(model)
  assert {n: x.shape for n, x in before.items()}.items() <= {
    n: x.shape for n, x in after.items()
  }.items()
  added = after.keys() - before.keys()
  assert added and all(re.fullmatch(BEGUN[method], name) for name in added)
  trainable.check(state_lib.abstract_params(model))


def laid_out(run, examples, rows):
  converter = run["converter"]
  return converter(
    {
      name: examples[name]
      for name in examples
      if name in READ[converter.layout]
      and (name in converter.features or converter.layout == "classes")
    },
    rows,
    num_rows=int(rows.max()) + 1,
    lengths={"inputs": 48, "targets": 48},
    packing=True,
    pad_id=0,
  )


READ = {
  "encoder_decoder": ("inputs", "targets"),
  "classes": ("inputs", "targets", "weights"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("method", [*BEGUN, "lora_adapters"])
def test_packed_texts_are_as_they_are_alone(method, kind):
  """A prompt precedes each of them."""
  run = settings(method, kind)
  model, examples = run["model"], texts(kind)
  params = moved(fresh(model), run["trainable"])
  number = len(examples["inputs"].lengths)
  hidden = jax.jit(
    lambda batch: model.apply({"params": params}, batch, method="hidden")
  )
  side = "encoder" if kind == "bert" else "decoder"
  found = []
  for rows in (np.arange(number), np.zeros(number, int)):
    batch = laid_out(run, examples, rows)
    states_BLD = np.asarray(hidden(batch))
    found.append(states_BLD[batch[f"{side}_segment_ids"] > 0])
  assert len(found[0]) >= number * 2
  if "prompt" in method and kind != "t5_1_1":
    lengths = examples[run["converter"].prompted].lengths
    assert len(found[0]) >= lengths.sum() + 3 * number
  np.testing.assert_allclose(found[0], found[1], atol=2e-5, rtol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["t5_1_1", "gpt_2"])
@pytest.mark.parametrize(
  ("method", "beams"),
  # Beams move the cache, of which what is put before a text is a part.
  [*((method, 1) for method in (*ADDED, *BEGUN)), *((m, 3) for m in BEGUN)],
)
def test_decoding_with_a_cache_is_as_teacher_forcing(method, kind, beams):
  # Padding that is written would not be read as it is written.
  options = DecodingOptions(forbidden_ids=(0,), num_beams=beams)
  run = settings(method, kind)
  model = run["model"]
  params = moved(fresh(model), run["trainable"])
  converter = converters.with_inputs(run["converter"])
  inputs = tiny_models.random_examples()["inputs"]
  nothing = Ragged(np.zeros(0, np.int32), np.zeros(len(inputs.lengths), int))
  rows = {"num_rows": len(inputs.lengths), "packing": False, "pad_id": 0}
  examples = np.arange(rows["num_rows"])
  lengths = {"inputs": 12, "targets": 6}
  prompts = converter(
    {"inputs": inputs, "targets": nothing}, examples, lengths=lengths, **rows
  )
  if kind == "gpt_2":
    length_B = inputs.lengths + 3 * ("prompt" in method)
    tokens = prompts["decoder_input_tokens"][:, 1:]
    tokens = tokens * (np.arange(tokens.shape[1]) < length_B[:, None])
  else:
    tokens = prompts["encoder_input_tokens"]
  made = jax.jit(
    lambda params, tokens: generate(
      model, params, tokens, 6, options=options, eos_id=-1
    )
  )(params, tokens)
  ids = np.asarray(made.tokens)[:, 0]
  targets = Ragged.full(ids)
  batch = converter(
    {"inputs": inputs, "targets": targets}, examples, lengths=lengths, **rows
  )
  sums = scoring.make_example_sums(model, options)(params, batch)
  np.testing.assert_allclose(
    made.log_likelihoods[:, 0], -sums["loss_sum"], rtol=1e-4, atol=1e-4
  )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["t5_1_1", "bert"])
@pytest.mark.parametrize("method", [*ADDED, *BEGUN])
def test_a_tensor_parallel_mesh_computes_the_same(method, kind):
  sizes = {"MLP_DIM": 40, "NUM_HEADS": 8, "HEAD_DIM": 4}
  if has_adapters(method):
    sizes["ADAPTER_DIM"] = 8
  model, trainable = build(method, kind, **sizes)
  params, batch = moved(fresh(model), trainable), batch_of(model)
  expected = outputs(model, params, batch)
  partitioning = rule_sets.build("tensor_parallel")
  mesh = partitioning.mesh()
  boxed = state_lib.abstract_variables(model)
  with partitioning.activate(mesh):
    params = jax.device_put(params, partitioning.shardings(mesh, boxed, params))
    assert largest(outputs(model, params, batch), expected) < 1e-5


@pytest.mark.parametrize(
  "scan", [pytest.param(False, marks=pytest.mark.slow), True]
)
def test_a_network_of_prefixes_is_dropped(scan):
  model, trainable = build("prefix", "t5_1_1", SCAN_LAYERS=scan, **SHALLOW)
  params, batch = moved(fresh(model), trainable), batch_of(model)
  kept, without = merging.without_networks(model, params)
  names = flat_shapes(kept)
  assert not any("embedding" in n for n in names if "/prefix/" in n)
  assert names.keys() == traverse_util.flatten_dict(without, sep="/").keys()
  expected = outputs(model, params, batch)
  assert largest(outputs(kept, without, batch), expected) < 1e-5


def test_dropout_of_lora_is_that_of_training_alone():
  model, trainable = build("lora", "t5_1_1", LORA_DROPOUT=0.5, DROPOUT_RATE=0.0)
  params, batch = moved(fresh(model), trainable), batch_of(model)

  def hidden(**how):
    return model.apply({"params": params}, batch, method="hidden", **how)

  one, two = (
    hidden(deterministic=False, rngs={"dropout": jax.random.key(seed)})
    for seed in (1, 2)
  )
  assert largest(one, two) > 1e-3
  assert largest(hidden(), hidden(deterministic=False)) == 0.0


@pytest.mark.slow
@pytest.mark.parametrize(
  "architecture", sorted({*tiny_models.ARCHITECTURES, *tiny_models.ENCODERS})
)
def test_every_projection_of_the_layers_is_found_by_its_name(architecture):
  base, _ = tiny_models.build(architecture)
  model = substitution.substitute(base, [projections.lora(".*layers/.*", 2)])
  paths = {name.rpartition("/")[0] for name in flat_shapes(model)}
  parts = substitution.named_parts(model)
  extended = [n for n, part in parts if isinstance(part, projections.Lora)]
  assert extended
  for name in extended:
    expression = re.escape(name).replace("layers/", r"(layers(_\d+)?/)?")
    assert any(re.fullmatch(expression, path) for path in paths), name


def test_bitfit_does_not_train_the_biases_of_positions():
  """`relpos_bias` is a table in spite of its name."""
  model, trainable = build("bitfit", "t5_1_1")
  table = "encoder/relpos_bias/rel_embedding"
  params = state_lib.abstract_params(model)
  trained = names(trainable.of(params))
  assert table in names(params)
  assert trained and {name.rpartition("/")[2] for name in trained} <= {
    "bias",
    "bitfit_bias",
  }


def test_gradients_of_dora_take_the_length_for_a_constant():
  """Section 4.3: no derivative of the changed columns' length."""
  model, _ = build("dora", "t5_1_1", LORA_RANK=2)
  query = model.encoder.layer.attention.query.clone(parent=None)
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
