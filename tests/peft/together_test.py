"""Methods that are all in one model at once: a model computes what it does.

Each compiled program tries all of them. What each one computes is in
parts_test, what each shipped file names in methods_test.
"""

import functools
import re
from typing import Any, NamedTuple

from flax import linen as nn
from flax import traverse_util
import gin
import jax
import numpy as np
import pytest

from tests import rule_sets
from tests import tiny_models
from tests.peft import methods_test as methods
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data.features import converters
from transformer_zoo.decoding.generate import generate
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.peft import bitfit
from transformer_zoo.peft import ia3
from transformer_zoo.peft import lora
from transformer_zoo.peft import merging
from transformer_zoo.peft import prefixes
from transformer_zoo.peft import substitution
from transformer_zoo.runs.answers import scoring
from transformer_zoo.training import state as state_lib

# Two that extend one part in one way, as LoRA and DoRA do, cannot be together.
# lora_adapters and lora_norms are parts of these.
ADDED = {
  "one": ("dora", "ia3", "bitfit", "houlsby", "adapters"),
  "two": ("lora", "bitfit", "parallel_adapters", "pfeiffer"),
}
BEGUN = {
  "one": ("prefix", "prompt_vocabulary"),
  "two": ("p_tuning_v2", "prompt"),
}


@pytest.fixture(autouse=True)
def clean():
  yield
  gin.clear_config()


class Together(NamedTuple):
  model: nn.Module
  converter: Any

  @property
  def added(self):
    """The names of the parameters of the methods."""
    before = methods.flat_shapes(substitution.original(self.model))
    return sorted(methods.flat_shapes(self.model).keys() - before.keys())


def together(chosen, kind, **macros):
  """All rules of the shipped files of some methods, over a kind of model."""
  rules = []
  for method in chosen:
    run = methods.settings(method, kind, **macros)
    rules += gin.get_bindings("substitute")["rules"]
  base = substitution.original(run["model"])
  # The converter is that of the last one, which may be of a prompt.
  return Together(substitution.substitute(base, rules), run["converter"])


@functools.cache
def program(model, method="all_logits"):
  return jax.jit(
    lambda params, batch: model.apply({"params": params}, batch, method=method)
  )


def outputs(model, params, batch, method="all_logits"):
  return jax.device_get(program(model, method)(params, batch))


def batch_of(model):
  random = np.random.RandomState(0)

  def ids(length):
    return random.randint(3, 48, (2, length)).astype(np.int32)

  lengths = {"encoder": 9, "decoder": 7}
  return {
    name: ids(lengths[name.partition("_")[0]]) for name in model.offers.reads
  }


def largest(found, expected):
  differences = jax.tree.map(
    lambda a, b: np.max(np.abs(a - b)), found, expected
  )
  return max(jax.tree.leaves(differences))


def moved(model):
  """Random parameters, those of the methods as after some training."""
  flat = methods.flat(tiny_models.random_parameters(model))
  before = methods.flat_shapes(substitution.original(model))
  for name in flat.keys() - before.keys():
    if not name.endswith("scale"):  # These are about 1, the others about 0.
      flat[name] = 0.3 * flat[name]
  return traverse_util.unflatten_dict(flat, sep="/")


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


def fresh(model, params):
  """The parameters of the base, with those of the methods as they begin."""
  base = methods.flat_shapes(substitution.original(model))

  @jax.jit
  def begun():
    flat = methods.flat(
      nn.unbox(state_lib.initial_variables(model, jax.random.key(3)))
    )
    # Nothing else of the model is compiled.
    return {name: leaf for name, leaf in flat.items() if name not in base}

  flat = {**methods.flat(params), **jax.device_get(begun())}
  return traverse_util.unflatten_dict(flat, sep="/")


SHALLOW = {"NUM_ENCODER_LAYERS": 1, "NUM_DECODER_LAYERS": 1}
ONE_LAYER = {"t5_1_1": SHALLOW, "bert": {"NUM_ENCODER_LAYERS": 1}}


@pytest.mark.parametrize(
  ("chosen", "kind"),
  [
    ("one", "t5_1_1"),
    pytest.param("two", "t5_1_1", marks=pytest.mark.slow),
    ("one", "bert"),
    pytest.param("two", "bert", marks=pytest.mark.slow),
    pytest.param("one", "gpt_2", marks=pytest.mark.slow),
    ("two", "gpt_2"),
  ],
)
def test_methods_change_nothing_at_first_and_with_every_number(chosen, kind):
  """Not a bit by each part: parts_test and adapters_test."""
  model = together(ADDED[chosen], kind, **SHALLOW).model
  base, batch = substitution.original(model), batch_of(model)
  params = moved(model)
  expected = outputs(base, tiny_models.random_parameters(base), batch)
  begun = fresh(model, params)
  assert largest(outputs(model, begun, batch), expected) < 1e-5
  whole = outputs(model, params, batch)
  assert largest(whole, expected) > 1e-2
  flat, at_first = methods.flat(params), methods.flat(begun)
  for name in Together(model, None).added:
    # A bias of keys adds the same to all scores of a query.
    if re.fullmatch(r".*attention/key/bitfit_bias", name):
      continue
    changed = {**flat, name: at_first[name]}
    changed = traverse_util.unflatten_dict(changed, sep="/")
    assert largest(outputs(model, changed, batch), whole) > 1e-5, name


@pytest.mark.parametrize("kind", ["t5_1_1", "bert"])
def test_positions_of_tokens_count_a_prefix(kind):
  """Distances between tokens stay, and places in a row are so much later."""
  base, _ = tiny_models.build(kind, **ONE_LAYER[kind])
  model = substitution.substitute(base, [prefixes.positions_after_prefix(3)])
  params, batch = tiny_models.random_parameters(base), batch_of(base)
  found = outputs(model, params, batch)
  if kind == "bert":
    flat = methods.flat(params)
    (name,) = (n for n in flat if "position_embedder" in n)
    flat[name] = np.roll(flat[name], -3, axis=0)
    params = traverse_util.unflatten_dict(flat, sep="/")
  assert largest(found, outputs(base, params, batch)) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize(
  ("chosen", "kind"),
  [("one", "t5_1_1"), ("two", "t5_1_1"), ("two", "bert"), ("one", "gpt_2")],
)
def test_scanned_and_looped_are_one_model(chosen, kind):
  build = functools.partial(together, ADDED[chosen] + BEGUN[chosen], kind)
  looped, scanned = build().model, build(SCAN_LAYERS=True, REMAT="full").model
  params, batch = moved(looped), batch_of(looped)
  expected = outputs(looped, params, batch)
  assert largest(outputs(scanned, stacked(params), batch), expected) < 1e-5


# One for each projection: two that are merged into one are refused nowhere.
RULES = {
  "lora": lambda: lora.lora(".*attention/value", 2),
  "ia3": lambda: ia3.ia3(".*attention/key", ".*mlp/wo"),
  "dora": lambda: lora.dora(".*attention/query", 2),
  "biases": lambda: bitfit.biases(".*(attention/out|mlp/wi.*)"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", methods.MODELS)
def test_merged_and_unmerged(kind):
  base, _ = tiny_models.build(kind)
  model = substitution.substitute(base, [make() for make in RULES.values()])
  params, batch = moved(model), batch_of(base)
  found, merged = merging.merged(model, params)
  assert substitution.substitutes(found) == []
  expected = outputs(model, params, batch)
  assert largest(outputs(found, merged, batch), expected) < 1e-4
  plain = outputs(base, tiny_models.random_parameters(base), batch)
  assert largest(plain, expected) > 1e-2
  # Layers that are scanned are merged at once.
  base, _ = tiny_models.build(kind, SCAN_LAYERS=True)
  scanned = substitution.substitute(base, [make() for make in RULES.values()])
  of_stacks = merging.merged(scanned, stacked(params))[1]
  assert largest(of_stacks, stacked(merged)) < 1e-5
  # Lengths of columns are lost, and a bias of its own is the base's.
  rules = [RULES[name]() for name in ("lora", "ia3")]
  for each, change in ((found, lambda x: x), (base, stacked)):
    model = substitution.substitute(each, rules)
    own = change(moved(model))
    _, merged = merging.merged(model, own)
    assert largest(merging.unmerged(model, merged, own), own) < 1e-5


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


def laid_out(converter, examples, rows):
  return converter(
    {
      name: examples[name]
      for name in examples
      if name in READ[converter.layout]
      and (name in converter.features or converter.layout == "classes")
    },
    rows,
    num_rows=len(rows),
    lengths={"inputs": 48, "targets": 48},
    packing=True,
    pad_id=0,
  )


READ = {
  "encoder_decoder": ("inputs", "targets"),
  "classes": ("inputs", "targets", "weights"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", methods.MODELS)
@pytest.mark.parametrize("chosen", ADDED)
def test_packed_texts_are_as_they_are_alone(chosen, kind):
  """A prompt precedes each of them."""
  model, converter = together(ADDED[chosen] + BEGUN[chosen], kind)
  params, examples = moved(model), texts(kind)
  number = len(examples["inputs"].lengths)
  side = "encoder" if kind == "bert" else "decoder"
  found = []
  for rows in (np.arange(number), np.zeros(number, int)):
    batch = laid_out(converter, examples, rows)
    states_BLD = outputs(model, params, batch, "hidden")
    found.append(states_BLD[batch[f"{side}_segment_ids"] > 0])
  assert len(found[0]) >= number * 2
  if kind != "t5_1_1":
    lengths = examples[converter.prompted].lengths
    assert len(found[0]) >= lengths.sum() + 3 * number
  np.testing.assert_allclose(found[0], found[1], atol=2e-5, rtol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
  # Beams move the cache, of which what is put before a text is a part.
  ("chosen", "kind", "beams"),
  [
    ("one", "t5_1_1", 3),
    ("two", "t5_1_1", 1),
    ("one", "gpt_2", 1),
    ("two", "gpt_2", 3),
  ],
)
def test_decoding_with_a_cache_is_as_teacher_forcing(chosen, kind, beams):
  # Padding that is written would not be read as it is written.
  options = DecodingOptions(forbidden_ids=(0,), num_beams=beams)
  model, converter = together(ADDED[chosen] + BEGUN[chosen], kind)
  params, converter = moved(model), converters.with_inputs(converter)
  inputs = tiny_models.random_examples()["inputs"]
  nothing = Ragged(np.zeros(0, np.int32), np.zeros(len(inputs.lengths), int))
  rows = {"num_rows": len(inputs.lengths), "packing": False, "pad_id": 0}
  examples = np.arange(rows["num_rows"])
  lengths = {"inputs": 12, "targets": 6}
  prompts = converter(
    {"inputs": inputs, "targets": nothing}, examples, lengths=lengths, **rows
  )
  if kind == "gpt_2":
    length_B = inputs.lengths + 3
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
    np.asarray(made.log_likelihoods)[:, 0],
    -np.asarray(sums["loss_sum"]),
    rtol=1e-4,
    atol=1e-4,
  )


@pytest.mark.slow
@pytest.mark.parametrize(
  ("chosen", "kind"), [("one", "t5_1_1"), ("two", "t5_1_1"), ("two", "bert")]
)
def test_a_tensor_parallel_mesh_computes_the_same(chosen, kind):
  sizes = {"MLP_DIM": 40, "NUM_HEADS": 8, "HEAD_DIM": 4}
  model, _ = together(ADDED[chosen] + BEGUN[chosen], kind, **SHALLOW, **sizes)
  params, batch = moved(model), batch_of(model)
  expected = outputs(model, params, batch)
  partitioning = rule_sets.build("tensor_parallel")
  mesh = partitioning.mesh()
  boxed = state_lib.abstract_variables(model)
  with partitioning.activate(mesh):
    params = jax.device_put(params, partitioning.shardings(mesh, boxed, params))
    found = jax.device_get(program.__wrapped__(model)(params, batch))
  assert largest(found, expected) < 1e-5
