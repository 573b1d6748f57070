"""A substitution loses nothing: fields, names and shapes stay, or come back."""

import dataclasses
import functools

from flax import linen as nn
import jax
import pytest

from tests import tiny_models
from transformer_zoo import config
from transformer_zoo.errors import UserError
from transformer_zoo.modules import comparison
from transformer_zoo.modules import parts as parts_lib
from transformer_zoo.modules.attention.attention import Attention
from transformer_zoo.modules.dropout import Dropout
from transformer_zoo.modules.feed_forward import Mlp
from transformer_zoo.modules.linear import Linear
from transformer_zoo.peft import substitution
from transformer_zoo.peft.adapters import adapters
from transformer_zoo.training import state

ARCHITECTURES = ("t5_1_1", "transformer_2017", "gpt_2")
adapted = functools.partial(
  substitution.substitute, rules=[adapters(Mlp(d_ff=5))]
)


def shapes(model):
  return {
    jax.tree_util.keystr(path, simple=True, separator="/"): leaf.shape
    for path, leaf in jax.tree_util.tree_leaves_with_path(
      state.abstract_params(model)
    )
  }


@pytest.mark.parametrize(
  ("architecture", "scan"),
  [
    ("t5_1_1", True),
    ("transformer_2017", False),
    ("gpt_2", True),
    ("t5gemma2", False),
  ],
)
def test_parameters_of_the_base_never_move(architecture, scan):
  base, _ = tiny_models.build(architecture, SCAN_LAYERS=scan)
  before, after = shapes(base), shapes(adapted(base))
  assert before.items() <= after.items()
  added = {name for name in after if name not in before}
  assert all("/adapter/" in name or "/pre_adapter_" in name for name in added)
  layers = 1 if scan else 2
  stacks = len(base.offers.transformers)
  assert sum("adapter/wo/kernel" in name for name in added) == layers * stacks


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_fields_are_kept_and_come_back(architecture):
  base, _ = tiny_models.build(architecture)
  model = adapted(base)
  assert substitution.substitutes(base) == []
  assert "AdaptedDecoderLayer" in substitution.substitutes(model)
  assert substitution.original(model) == base
  before, after = (
    base.decoder.transformer.layer_stack.layer,
    model.decoder.transformer.layer_stack.layer,
  )
  assert isinstance(after, type(before))
  for field in dataclasses.fields(before):
    assert getattr(after, field.name) == getattr(before, field.name)


class Pair(nn.Module):
  """Two parts and, in containers, two more."""

  first: nn.Module
  second: nn.Module
  several: tuple[nn.Module, ...]
  named: dict[str, nn.Module]
  number: int = 3

  def __call__(self, x):
    return x


def widened(name, part):
  del name
  if isinstance(part, Linear) and not part.use_bias:
    return parts_lib.replaced(part, Linear, use_bias=True)
  return part


def test_a_part_in_two_places_stays_one_and_containers_are_searched():
  linear = Linear(kernel_axes=("mlp", "embed"))
  pair = Pair(linear, linear, (Linear(), Dropout(0.5)), {"a": Linear()}, 7)
  changed = substitution.substitute(pair, [widened])
  assert changed.first is changed.second
  assert changed.several[1] == Dropout(0.5) and changed.number == 7
  parts = changed.first, changed.several[0], changed.named["a"]
  assert all(part.use_bias for part in parts)
  assert changed.first.kernel_axes == ("mlp", "embed")
  assert not pair.first.use_bias


def test_a_rule_that_finds_nothing():
  attention = Attention(num_heads=2, head_dim=4)
  with pytest.raises(UserError) as error:
    substitution.substitute(attention, [adapters(Mlp(d_ff=5))])
  assert str(error.value) == (
    "substitute: adapters finds no part to replace in the model, Attention"
  )


@pytest.mark.parametrize("architecture", ["t5_1_0", "lm"])
def test_the_gin_file_wraps_whatever_model_was_chosen(architecture, tmp_path):
  sizes = {**tiny_models.TINY, "ADAPTER_DIM": 5}
  if architecture == "lm":
    sizes.pop("NUM_ENCODER_LAYERS")
  bindings = [f"{name}={value!r}" for name, value in sizes.items()]
  files = [f"architectures/{architecture}.gin", "peft/adapters.gin"]
  config.load(files, bindings, root="MODEL")
  model = config.value("MODEL")
  adapter = model.decoder.transformer.layer_stack.layer.adapter
  assert (adapter.d_ff, adapter.activation) == (5, "relu")
  assert adapter.wo.kernel_axes == ("mlp", "embed")
  # What a run writes down builds the same model.
  written = tmp_path / "config.gin"
  written.write_text(config.operative_config("MODEL"))
  again = config.build("MODEL", [str(written)])
  assert not comparison.differences(again, model)
  base, _ = tiny_models.build(architecture)
  assert not comparison.differences(substitution.original(again), base)
