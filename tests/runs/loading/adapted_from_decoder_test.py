"""An encoder-decoder from a decoder-only checkpoint: which layer is whose."""

import dataclasses
import types

from flax import traverse_util
import numpy as np
import pytest

from tests import tiny_models
from transformer_zoo import config
from transformer_zoo.checkpoints import converted_run
from transformer_zoo.runs.loading import restoration
from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.training import state

VOCABULARY = types.SimpleNamespace(
  path="a vocabulary", size=tiny_models.TINY["VOCAB_SIZE"], encode=lambda _: []
)
DECODER_ONLY = {"llama": "llama_encoder_decoder"}


@pytest.fixture
def initial():
  files = ["architectures/t5_1_0.gin", "sizes/tiny.gin", "runs/finetune.gin"]
  files.append("parts/adapted_from_decoder.gin")
  return config.build(
    "INITIAL",
    files,
    ["INITIAL=@InitialCheckpoint()", "INITIAL_CHECKPOINT_PATH=None"],
    allow_unused=True,
  )


@pytest.mark.parametrize("name", DECODER_ONLY)
def test_both_stacks_and_attention_between_them(name, initial, tmp_path):
  sizes = {k: v for k, v in tiny_models.TINY.items() if "ENCODER_L" not in k}
  model, _ = tiny_models.build(name)
  params = traverse_util.flatten_dict(
    tiny_models.random_parameters(model), sep="/"
  )
  folder = tmp_path / "decoder"
  converted_run.write_run(
    folder,
    [f"architectures/{name}.gin"],
    [f"{macro}={value}" for macro, value in sizes.items()],
    {f"params/{n}": Tensor.of(np.asarray(p)) for n, p in params.items()},
  )
  adapted, _ = tiny_models.build(DECODER_ONLY[name])
  found = restoration.open_initial(
    dataclasses.replace(initial, path=str(folder)),
    adapted,
    state.abstract_variables(adapted),
    [VOCABULARY],
  )
  tensors = found.assignment.tensors
  assert all(tensor is not None for tensor in tensors.values())
  for ours, theirs in {
    "encoder/layers_1/attention/query/kernel": "self_attention/query/kernel",
    "encoder/layers_1/mlp/wo/kernel": "mlp/wo/kernel",
    "decoder/layers_1/encoder_decoder_attention/key/kernel": (
      "self_attention/key/kernel"
    ),
    "decoder/layers_1/pre_cross_attention_layer_norm/scale": (
      "pre_self_attention_layer_norm/scale"
    ),
    "decoder/layers_1/mlp/wi_0/kernel": "mlp/wi_0/kernel",
  }.items():
    np.testing.assert_array_equal(
      tensors[ours].read(), params[f"decoder/layers_1/{theirs}"]
    )
  np.testing.assert_array_equal(
    tensors["encoder/encoder_norm/scale"].read(),
    params["decoder/decoder_norm/scale"],
  )
