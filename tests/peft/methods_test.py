"""Properties that every shipped method has over every kind of model.

Of names and shapes alone; numbers are in parts_test and together_test.
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
from transformer_zoo import config
from transformer_zoo.errors import UserError
from transformer_zoo.parameter_names import Parameter
from transformer_zoo.peft import lora
from transformer_zoo.peft import merging
from transformer_zoo.peft import method as method_lib
from transformer_zoo.peft import substitution
from transformer_zoo.peft.trainable import Trainable
from transformer_zoo.tensors import assignment
from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.training import state as state_lib

MODELS = {
  "t5_1_1": ("architectures/t5_1_1.gin", "runs/finetune.gin"),
  "gpt_2": ("architectures/gpt_2.gin", "runs/finetune.gin"),
  "bert": ("architectures/bert.gin", "runs/finetune.gin", "heads/classes.gin"),
}


class Contract(NamedTuple):
  """What holds of a method over every kind of model.

  Attributes:
    adds: An expression that the names of the parameters it adds match; "" if it
      trains parameters of the base alone.
    is_merged: Whether it can be merged into its base.
  """

  adds: str
  is_merged: bool = False


# The files of peft/ by name. A method that joins the zoo joins this table.
METHODS = {
  "adapters": Contract(r".*/(adapter|pre_adapter_layer_norm)/\w.*"),
  "bitfit": Contract(r".*(attention|mlp)/\w+/bitfit_bias", is_merged=True),
  "dora": Contract(
    r".*attention/(query|value)/(lora_[ab]|dora_scale)", is_merged=True
  ),
  "embeddings": Contract(""),
  "houlsby": Contract(r".*(attention|mlp)/adapter/w[io]/(kernel|bias)"),
  "ia3": Contract(
    r".*(attention/(key|value)|mlp/wo)/ia3_scale", is_merged=True
  ),
  "lora": Contract(r".*attention/(query|value)/lora_[ab]", is_merged=True),
  "lora_adapters": Contract(
    r".*/(lora_[ab]|adapter/.*|pre_adapter_layer_norm/.*)"
  ),
  "lora_norms": Contract(
    r".*attention/(query|value)/lora_[ab]", is_merged=True
  ),
  "norms": Contract(""),
  "p_tuning_v2": Contract(r".*attention/prefix/(key|value)"),
  "parallel_adapters": Contract(r".*mlp/adapter/w[io]/(kernel|bias)"),
  "pfeiffer": Contract(r".*/layers(_\d+)?/adapter/w[io]/(kernel|bias)"),
  "prefix": Contract(r".*attention/prefix/(embedding|w[io]/(kernel|bias))"),
  "prompt": Contract(r"token_embedder/prompt"),
  "prompt_vocabulary": Contract(r"token_embedder/prompt"),
}
ADDING = [name for name, contract in METHODS.items() if contract.adds]
MERGED = [name for name, contract in METHODS.items() if contract.is_merged]


@pytest.fixture(autouse=True)
def clean():
  yield
  gin.clear_config()


def build(method, kind, **macros):
  """Returns (model, trainable) of a method over a kind of model."""
  run = settings(method, kind, **macros)
  return run["model"], run["trainable"]


def settings(method, kind, **macros):
  """The settings of `train` of a method over a kind of model."""
  macros = {**tiny_models.TINY, **macros}
  macros.pop(
    {"gpt_2": "NUM_ENCODER_LAYERS", "bert": "NUM_DECODER_LAYERS"}.get(kind),
    None,
  )
  if "adapter" in method or method in ("houlsby", "pfeiffer"):
    macros.setdefault("ADAPTER_DIM", 8)
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


class Shipped(NamedTuple):
  """What the files of a method say, and the parameters of its model."""

  model: nn.Module
  trainable: Trainable
  initial: Any
  boxed: Any  # Shapes with their logical axes.

  @property
  def shapes(self):
    return flat(nn.unbox(self.boxed))


@functools.cache
def shipped(method, kind):
  """One layer a side, which is a method at every place of it.

  Sizes divide over 8 devices.
  """
  sizes = {"MLP_DIM": 40, "NUM_HEADS": 8, "HEAD_DIM": 4}
  layers = {"NUM_ENCODER_LAYERS": 1, "NUM_DECODER_LAYERS": 1}
  run = settings(method, kind, **sizes, **layers)
  model = run["model"]
  return Shipped(
    model,
    run["trainable"],
    config.call("InitialCheckpoint"),
    state_lib.abstract_variables(model),
  )


@functools.cache
def shapes_of(base):
  return flat_shapes(base)


def flat_shapes(model):
  return flat(state_lib.abstract_params(model))


def flat(tree):
  return traverse_util.flatten_dict(tree, sep="/")


def names(tree):
  """Paths of the leaves."""
  leaves = jax.tree_util.tree_leaves_with_path(tree)
  return [
    jax.tree_util.keystr(path, simple=True, separator="/") for path, _ in leaves
  ]


def ones(shapes):
  return {name: np.ones(x.shape, x.dtype) for name, x in shapes.items()}


def added_to(found):
  """The shapes of the parameters that a method adds."""
  before = shapes_of(substitution.original(found.model))
  return {n: x.shape for n, x in found.shapes.items() if n not in before}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("method", ADDING)
def test_a_method_adds_parameters_and_moves_none(method, kind):
  found = shipped(method, kind)
  before = shapes_of(substitution.original(found.model))
  assert {n: x.shape for n, x in before.items()}.items() <= {
    n: x.shape for n, x in found.shapes.items()
  }.items()
  added = added_to(found)
  # The others have all of their biases.
  assert bool(added) == (method != "bitfit" or kind == "t5_1_1")
  expression = METHODS[method].adds
  assert all(re.fullmatch(expression, name) for name in added)
  found.trainable.check(nn.unbox(found.boxed))
  assert all(map(found.trainable.trains, added))


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("method", METHODS)
def test_a_method_starts_from_its_base(method, kind):
  found = shipped(method, kind)
  base = {
    name: Tensor.of(np.zeros(x.shape, x.dtype))
    for name, x in shapes_of(substitution.original(found.model)).items()
  }
  wanted = {
    name: Parameter(x.shape, (None,) * x.ndim)
    for name, x in found.shapes.items()
  }
  rules = assignment.Rules(found.initial.assignments, fresh=found.initial.fresh)
  assigned = assignment.assign(wanted, base, rules, "the base")
  read = {
    name for name, tensor in assigned.tensors.items() if tensor is not None
  }
  assert read == base.keys() and not assigned.unused


@pytest.mark.parametrize("method", METHODS)
def test_heads_are_trained_with_every_method(method):
  found = shipped(method, "bert")
  of_heads = {name for name in found.shapes if name.startswith("heads/")}
  trained = found.trainable.select(nn.unbox(found.boxed))
  assert of_heads and of_heads <= set(names(trained))


# What a method adds -> the axis that is shared out where heads and hidden
# features are, by the end of its name; the others are whole.
SHARED = {
  r"(query|key|value|wi\w*)/(lora_b|dora_scale|ia3_scale|bitfit_bias)": -1,
  r"(attention/out|mlp/wo)/(lora_a|ia3_scale)": 0,
  r"prefix/(key|value|wo/kernel|wo/bias)": -1,
  r"adapter/wi/(kernel|bias)": -1,
  r"adapter/wo/kernel": 0,
}


@pytest.mark.parametrize("kind", ["t5_1_1", "bert"])
@pytest.mark.parametrize("method", ADDING)
def test_what_a_method_adds_is_shared_out_as_what_it_is_added_to(method, kind):
  found = shipped(method, kind)
  partitioning = rule_sets.build("tensor_parallel")
  mesh = partitioning.mesh()
  partitioning.check(mesh, found.boxed, 8)
  shapes = nn.unbox(found.boxed)
  shardings = flat(partitioning.shardings(mesh, found.boxed, shapes))
  for name, shape in added_to(found).items():
    axes = [
      axis
      for expression, axis in SHARED.items()
      if re.search(f"/{expression}$", name)
    ]
    expected = list(shape)
    for axis in axes:
      expected[axis] //= 8
    assert shardings[name].shard_shape(shape) == tuple(expected), name


@pytest.mark.parametrize("method", MERGED)
@pytest.mark.parametrize("kind", MODELS)
def test_a_merged_model_is_its_base_with_biases(method, kind):
  found = shipped(method, kind)
  base, leaves = merging.merge_leaves(found.model, ones(found.shapes))
  assert substitution.substitutes(base) == []
  assert {n: x.shape for n, x in leaves.items()} == {
    n: x.shape for n, x in shapes_of(base).items()
  }
  if method != "bitfit":
    assert base == substitution.original(found.model)


@pytest.mark.parametrize("method", sorted({*ADDING} - {*MERGED}))
def test_what_cannot_be_merged(method):
  found = shipped(method, "t5_1_1")
  with pytest.raises(UserError, match="cannot be merged"):
    merging.merge_leaves(found.model, ones(found.shapes))


@pytest.mark.slow
@pytest.mark.parametrize(
  "architecture", sorted({*tiny_models.ARCHITECTURES, *tiny_models.ENCODERS})
)
def test_every_projection_of_the_layers_is_found_by_its_name(architecture):
  base = tiny_models.shallow(tiny_models.build(architecture)[0])
  model = substitution.substitute(base, [lora.lora(".*layers/.*", 2)])
  paths = {name.rpartition("/")[0] for name in flat_shapes(model)}
  parts = substitution.named_parts(model)
  extended = [n for n, part in parts if isinstance(part, lora.Lora)]
  assert extended
  for name in extended:
    expression = re.escape(name).replace("layers/", r"(layers(_\d+)?/)?")
    assert any(re.fullmatch(expression, path) for path in paths), name


def test_bitfit_does_not_train_the_biases_of_positions():
  """`relpos_bias` is a table in spite of its name."""
  found = shipped("bitfit", "t5_1_1")
  table = "encoder/relpos_bias/rel_embedding"
  trained = names(found.trainable.select(nn.unbox(found.boxed)))
  assert table in found.shapes
  assert trained and {name.rpartition("/")[2] for name in trained} <= {
    "bias",
    "bitfit_bias",
  }


def test_every_record_is_that_of_a_shipped_file():
  records = method_lib.shipped()
  folders = tiny_models.GIN / "peft", tiny_models.GIN / "parts"
  shipped_files = [p.read_text() for f in folders for p in f.glob("*.gin")]
  for record in records:
    assert any(f"@{record.name}()" in text for text in shipped_files), record
    assert all(issubclass(p, substitution.Substitute) for p in record.parts)
    assert bool(record.parts) == bool(record.adds)
  names = [record.name for record in records]
  assert len(names) == len({*names})
