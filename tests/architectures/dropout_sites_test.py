"""Dropout sites of each architecture, in order, and their shared draws."""

import functools

from flax import linen as nn
import jax
import pytest

from tests import tiny_models
from transformer_zoo.modules.dropout import Dropout

KEY = jax.random.key(0)
# Raffel et al. 2020, section 2.1: "dropout within the feed-forward network, on
# the skip connection, on the attention weights, and at the input and output of
# the entire stack"; Mesh TensorFlow shares a draw along the length.
T5_ENCODER = "stack", "attention", "layer", "mlp", "layer", "stack"
T5_DECODER_ONLY = "stack", "self_attention", *T5_ENCODER[2:]
T5_DECODER = (
  *T5_DECODER_ONLY[:3], "encoder_decoder_attention", *T5_ENCODER[2:]
)  # fmt: skip
# OpenAI's `model.py` of GPT-1 and `modeling_gpt2`: embeddings, attention
# weights, what a sublayer adds; a draw for every number.
GPT = "stack", "self_attention", "layer", "layer"
# Vaswani et al. 2017, section 5.4: sums of embeddings and positions, and the
# output of each sublayer.
FIRST_ENCODER = "stack", "layer", "layer"
FIRST_DECODER = *FIRST_ENCODER, "layer"

OF_2017 = ("bart", "mbart", "transformer_2017")

LIKE_GPT = ("bloom", "gpt_1", "gpt_2", "gpt_3", "gpt_j")
SITES = {
  **dict.fromkeys(
    (
      *("t5_1_0", "t5_1_1", "mt5", "umt5", "byt5", "longt5", "t5gemma"),
      "llama_encoder_decoder",
    ),
    T5_ENCODER + T5_DECODER,
  ),
  "shared": T5_DECODER_ONLY + T5_DECODER,
  # One attention sees both texts.
  "t5gemma2": T5_ENCODER + T5_DECODER_ONLY,
  **dict.fromkeys(
    (
      *("lm", "prefix_lm", "llama", "gemma2", "gemma3", "olmo2", "qwen3"),
      "modernbert_decoder",
    ),
    T5_DECODER_ONLY,
  ),
  **dict.fromkeys(LIKE_GPT, GPT),
  # `transformer_mass_base` of its code.
  "mass": T5_ENCODER[:-1] + T5_DECODER[:-1],
  # BART's configurations drop no attention weights.
  **dict.fromkeys(OF_2017, FIRST_ENCODER + FIRST_DECODER),
}
DRAWN_FOR_EVERY_NUMBER = (*LIKE_GPT, *OF_2017, "mass")
ATTENTION = "attention", "self_attention", "encoder_decoder_attention"
# Of those that drop at fewer sites than T5 has.
EVERY_SITE = {
  **dict.fromkeys(LIKE_GPT, T5_DECODER_ONLY),
  **dict.fromkeys((*OF_2017, "mass"), T5_ENCODER + T5_DECODER),
}


def draws(model, batch):
  """(module that drops, axes that share a draw) of each draw, in order."""
  seen = []

  def note(function, arguments, keywords, context):
    if (
      isinstance(context.module, Dropout) and context.method_name == "described"
    ):
      seen.append((context.module.path, context.module.broadcast_dims))
    return function(*arguments, **keywords)

  with nn.intercept_methods(note):
    # Parameters are made where they are read: one trace is enough.
    jax.eval_shape(
      functools.partial(model.init, deterministic=False, method="hidden"),
      {"params": KEY, "dropout": KEY},
      batch,
    )
  return seen


def site(path: tuple[str, ...]) -> str:
  """What holds a dropout: the stack, a layer, or a sublayer of its."""
  owner = path[-2]
  if owner in ("encoder", "decoder", "stack"):
    return "stack"
  return "layer" if owner.startswith("layers") else owner


# What a part makes of another architecture: the sites, without those that it
# leaves out, and the axes that share a draw.
PARTS = {
  "t5": ((), (-2,)),
  "transformer_2017": ((*ATTENTION, "mlp"), ()),
  "gpt": (("mlp",), ()),
}


# One of each entry of `SITES`.
FEW = "bart", "gpt_2", "llama", "shared", "t5_1_1"


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(
  "architecture",
  [
    pytest.param(name, marks=() if name in FEW else pytest.mark.slow)
    for name in tiny_models.ARCHITECTURES
  ],
)
def test_a_part_brings_its_sites_to_every_architecture(architecture, part):
  left_out, shared = PARTS[part]
  sites = EVERY_SITE.get(architecture, SITES[architecture])
  if part != "t5":  # Nor do the others drop what a stack ends in.
    sites = [s for s in without_ends(sites) if s not in left_out]
  seen = draws(*dropping(architecture, f"dropout/{part}.gin"))
  assert [site(path) for path, _ in seen] == [*sites]
  assert {axes for _, axes in seen} == {shared}


def without_ends(sites):
  """The sites but for the last of each stack."""
  following = (*sites[1:], "stack")
  pairs = zip(sites, following, strict=True)
  return [a for a, b in pairs if not (a == "stack" and b == "stack")]


@pytest.mark.parametrize("architecture", tiny_models.ARCHITECTURES)
def test_dropout_sites(architecture):
  seen = draws(*dropping(architecture))
  assert tuple(site(path) for path, _ in seen) == SITES[architecture]
  shared = () if architecture in DRAWN_FOR_EVERY_NUMBER else (-2,)
  assert {axes for _, axes in seen} == {shared}


def dropping(*variant):
  """A model of one layer with dropout, and a batch."""
  model, converter = tiny_models.build(
    *variant,
    NUM_ENCODER_LAYERS=1,
    NUM_DECODER_LAYERS=1,
    DROPOUT_RATE=0.1,
  )
  batch = tiny_models.lay_out(
    converter, tiny_models.random_examples(), packing=False
  )
  return model, batch
