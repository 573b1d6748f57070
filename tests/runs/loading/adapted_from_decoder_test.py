"""An encoder-decoder from a decoder-only checkpoint: which layer is whose."""

import dataclasses
import types

from flax import traverse_util
import numpy as np
import pytest

from tests import tiny_models
from transformer_zoo import config
from transformer_zoo.checkpoints import converted_run
from transformer_zoo.errors import UserError
from transformer_zoo.runs.loading import initial_checkpoint
from transformer_zoo.runs.loading import restoration
from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.training import state

VOCABULARY = types.SimpleNamespace(
  path="a vocabulary", size=tiny_models.TINY["VOCAB_SIZE"], encode=lambda _: []
)
# Those whose counterpart is an architecture of its own.
COUNTERPARTS = {"gemma2": "t5gemma", "llama": "llama_encoder_decoder"}
FEW = "gemma2", "gpt_2"
# `shared` has an encoder; a first layer that differs is none of an encoder.
OTHERS = {"shared", *tiny_models.UNSCANNED}
DECODER_ONLY = [
  pytest.param(name, marks=() if name in FEW else pytest.mark.slow)
  for name in sorted({*tiny_models.WITHOUT_ENCODER_LAYERS} - OTHERS)
]


def written(folder, name, layers):
  """The parameters of a decoder-only run with so many layers, by name."""
  model, _ = tiny_models.build(name, NUM_DECODER_LAYERS=layers)
  params = traverse_util.flatten_dict(
    tiny_models.random_parameters(model), sep="/"
  )
  sizes = {k: v for k, v in tiny_models.TINY.items() if "ENCODER_L" not in k}
  sizes["NUM_DECODER_LAYERS"] = layers
  converted_run.write_run(
    folder,
    [f"architectures/{name}.gin"],
    [f"{macro}={value}" for macro, value in sizes.items()],
    {f"params/{n}": Tensor.of(np.asarray(p)) for n, p in params.items()},
  )
  return params


def adapted(name, encoder, decoder, *bindings):
  """The encoder-decoder of a decoder-only architecture."""
  if name in COUNTERPARTS:
    return tiny_models.build(
      COUNTERPARTS[name],
      bindings=bindings,
      NUM_ENCODER_LAYERS=encoder,
      NUM_DECODER_LAYERS=decoder,
    )[0]
  bindings += (f"NUM_ENCODER_LAYERS={encoder}",)
  return tiny_models.build(
    name, "encoder_decoder.gin", bindings=bindings, NUM_DECODER_LAYERS=decoder
  )[0]


def opened(folder, model, read, **fields):
  """The tensors of a model by name, of a checkpoint with so many layers."""
  files = ["architectures/t5_1_0.gin", "sizes/tiny.gin", "runs/finetune.gin"]
  numbers = {
    "NUM_ENCODER_LAYERS": model.encoder.layer_stack.num_layers,
    "NUM_DECODER_LAYERS": model.decoder.transformer.layer_stack.num_layers,
    "READ_LAYERS": read,
  }
  initial = config.build(
    "INITIAL",
    [*files, "parts/adapted_from_decoder.gin"],
    ["INITIAL=@InitialCheckpoint()", "INITIAL_CHECKPOINT_PATH=None"]
    + [f"{macro}={number}" for macro, number in numbers.items()],
    allow_unused=True,
  )
  return restoration.open_initial(
    dataclasses.replace(initial, path=str(folder), **fields),
    model,
    state.abstract_variables(model),
    [VOCABULARY],
  ).assignment.tensors


@pytest.mark.parametrize("name", DECODER_ONLY)
def test_a_deep_encoder_and_a_shallow_decoder(name, tmp_path):
  """Of a checkpoint between them: every part of each layer has its source."""
  params = written(tmp_path / "decoder", name, 2)
  tensors = opened(tmp_path / "decoder", adapted(name, 4, 1), 2)
  assert all(tensor is not None for tensor in tensors.values())
  sources = {
    "encoder/layers_1/attention/query/kernel": "0/self_attention/query/kernel",
    "encoder/layers_2/mlp/wo/kernel": "1/mlp/wo/kernel",
    "decoder/layers_0/self_attention/out/kernel": "1/self_attention/out/kernel",
    "decoder/layers_0/encoder_decoder_attention/key/kernel": (
      "1/self_attention/key/kernel"
    ),
  }
  for place in ("pre", "post"):
    theirs = f"{place}_self_attention_layer_norm/scale"
    if f"decoder/layers_1/{theirs}" in params:
      norm = f"{place}_%sattention_layer_norm/scale"
      sources[f"encoder/layers_3/{norm % ''}"] = f"1/{theirs}"
      if f"decoder/layers_0/{norm % 'cross_'}" in tensors:
        sources[f"decoder/layers_0/{norm % 'cross_'}"] = f"1/{theirs}"
  for ours, theirs in sources.items():
    np.testing.assert_array_equal(
      tensors[ours].read(), params[f"decoder/layers_{theirs}"]
    )
  outside = {
    "encoder/encoder_norm/": "decoder/decoder_norm/",
    "encoder/position_embedder/": "decoder/position_embedder/",
    "token_embedder/": "token_embedder/",
    "target_embedder/": "token_embedder/",
  }
  for path, tensor in tensors.items():
    for ours, theirs in outside.items():
      if path.startswith(ours):
        source = params[path.replace(ours, theirs, 1)]
        np.testing.assert_array_equal(tensor.read(), source)


def test_attention_to_an_encoder_of_another_width_is_fresh(tmp_path):
  written(tmp_path / "decoder", "gemma2", 2)
  wide = "EncoderDecoder.token_embedder=@encoder/Embed()"
  model = adapted("gemma2", 1, 2, wide, "encoder/Embed.features=20")
  with pytest.raises(UserError, match=r"(?s)of other shapes.*encoder/layers_0"):
    opened(tmp_path / "decoder", model, 2)
  rest = ("encoder/.*", None), ("token_embedder/.*", None)
  tensors = opened(tmp_path / "decoder", model, 2, assignments=rest)
  fresh = {path for path, tensor in tensors.items() if tensor is None}
  assert fresh == {
    path
    for path in tensors
    if path.startswith(("encoder/", "token_embedder/"))
    or "encoder_decoder_attention/" in path
  }


@pytest.mark.parametrize(
  ("read", "ours", "expected"),
  [
    (6, 6, [0, 1, 2, 3, 4, 5]),
    (6, 3, [1, 3, 5]),
    (6, 2, [1, 4]),
    (6, 1, [3]),
    (2, 5, [0, 0, 1, 1, 1]),
    (1, 2, [0, 0]),
  ],
)
def test_a_layer_takes_the_one_at_its_depth(read, ours, expected):
  rules = dict(initial_checkpoint.layers_of_decoder(read, ours, ours))
  for stack in ("encoder", "decoder"):
    assert [
      rules[rf"{stack}/layers_{layer}/(.*)"] for layer in range(ours)
    ] == [rf"decoder/layers_{layer}/\1" for layer in expected]


def test_a_stack_without_layers_is_refused():
  with pytest.raises(UserError, match=r"encoder_layers is 0; it takes 1 or mo"):
    initial_checkpoint.layers_of_decoder(2, 0, 2)
