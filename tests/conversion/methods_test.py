"""What of a fine-tuned run a conversion can use."""

from flax import traverse_util
import numpy as np
import pytest

from tests import tiny_models
from transformer_zoo.conversion import methods
from transformer_zoo.conversion import sources
from transformer_zoo.errors import UserError
from transformer_zoo.runs.loading import opened
from transformer_zoo.tensors.lazy_tensors import Tensor


def source_of(name, **macros):
  model, _ = tiny_models.build("t5_1_1", f"../peft/{name}.gin", **macros)
  flat = traverse_util.flatten_dict(
    tiny_models.random_parameters(model), sep="/"
  )
  parameters = {n: Tensor.of(np.asarray(leaf)) for n, leaf in flat.items()}
  return sources.Source(sources.ZOO, "runs/x", parameters, model=model)


def test_a_merged_method_leaves_the_model_of_its_base():
  found = methods.merged(source_of("lora", LORA_RANK=2))
  assert not any("lora" in name for name in found.parameters)


def test_biases_that_bitfit_adds_cannot_be_merged():
  sentence = (
    "--merge: merged, the model of 'runs/x' is not that of its base .*use_bias"
    ": True instead of False.*; use the run as it is"
  )
  with pytest.raises(UserError, match=sentence):
    methods.merged(source_of("bitfit"))


def test_a_prompt_is_not_left_out_in_silence(monkeypatch):
  found = source_of("prompt", PROMPT_LENGTH=5)
  monkeypatch.setattr(sources, "open_source", lambda path: found)
  with pytest.raises(UserError, match="'x' reads a prompt of 5 vectors before"):
    opened.open_checkpoint("x")
