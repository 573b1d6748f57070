"""Every shipped part after every shipped architecture, by tracing alone."""

import functools
import random
import re

import jax
import numpy as np
import pytest

from tests import tiny_models

ONE_LAYER = {"NUM_ENCODER_LAYERS": 1, "NUM_DECODER_LAYERS": 1}
T5 = {
  "attention": "scale_in_initialization",
  "connections": "pre_norm",
  "feed_forward": "relu",
  "normalization": "rms_norm",
  "positions": "t5_buckets",
  "softmax": "tied",
}
GATED_T5 = {**T5, "feed_forward": "geglu", "softmax": "untied"}
GPT_2 = {
  **T5,
  "attention": "scaled",
  "feed_forward": "gelu",
  "normalization": "layer_norm",
  # `learned` has fewer positions unless MAX_POSITIONS comes after it.
  "positions": None,
}
LLAMA = {
  **GATED_T5,
  "attention": "scaled",
  "feed_forward": "swiglu",
  "positions": "rotary",
}
BART = {
  **T5,
  "attention": "scaled",
  "connections": "post_norm",
  "feed_forward": "gelu_exact",
  "normalization": "layer_norm",
  # As in `GPT_2`.
  "positions": None,
}
GEMMA = {
  **LLAMA,
  "connections": "sandwich_norm",
  "feed_forward": "geglu",
  "normalization": "zero_centred_rms_norm",
}
GEMMA_2 = {
  **GEMMA,
  "attention": ("scaled", "soft_capped"),
  "softmax": "soft_capped",
}
GEMMA_3 = {**GEMMA, "softmax": "tied"}
# The parts of each folder that an architecture has already.
OWN = {
  "bart": BART,
  "bloom": {**GPT_2, "positions": "alibi"},
  "byt5": GATED_T5,
  "gemma2": GEMMA_2,
  "gemma3": GEMMA_3,
  "gpt_1": {**GPT_2, "connections": "post_norm", "positions": "learned"},
  "gpt_2": GPT_2,
  "gpt_3": GPT_2,
  "gpt_j": {
    **GPT_2,
    "connections": "parallel",
    "positions": "rotary_interleaved",
    "softmax": "untied",
  },
  "llama": LLAMA,
  "llama_encoder_decoder": LLAMA,
  "lm": T5,
  "longt5": GATED_T5,
  "mass": {**BART, "positions": "learned"},
  "mbart": {**BART, "connections": "pre_norm"},
  "mt5": GATED_T5,
  "modernbert_decoder": {
    "attention": "scaled",
    "connections": "pre_norm",
    "normalization": "layer_norm_without_bias",
    "positions": "rotary",
  },
  "olmo2": {
    **LLAMA,
    "attention": ("normalized_together", "scaled"),
    "connections": "residual_post_norm",
  },
  "prefix_lm": T5,
  "qwen3": {
    **LLAMA,
    "attention": ("normalized", "scaled"),
    "softmax": "tied",
  },
  "shared": T5,
  "t5_1_0": T5,
  "t5_1_1": GATED_T5,
  "t5gemma": GEMMA_2,
  "t5gemma2": GEMMA_3,
  "transformer_2017": {
    **T5,
    "attention": "scaled",
    "connections": "post_norm",
    "normalization": "layer_norm",
    "positions": "sinusoidal",
  },
  "umt5": {**GATED_T5, "positions": "t5_buckets_per_layer"},
}
# Of which the others have the most.
ONE_OF_A_KIND = "bart", "gpt_j", "llama", "t5_1_0"
# They name no network by themselves: the files with an activation include them.
INCLUDED = (
  "feed_forward/experts.gin",
  "feed_forward/gated.gin",
  "feed_forward/plain.gin",
)
# Of dropout_sites_test.py, of ELECTRA alone, of masks of spans.
ELSEWHERE = ("dropout/", "generator/", "taggers/")


def own(architecture: str) -> set[str]:
  """The files of the parts that an architecture has already."""
  return {
    f"{folder}/{part}.gin"
    for folder, parts in OWN[architecture].items()
    for part in ([parts] if isinstance(parts, str) else parts or ())
  }


def program(*variant: str) -> str:
  """Initialisation and forward pass as JAX traces them: nothing is compiled."""
  whole, converter = tiny_models.build(*variant, **ONE_LAYER)
  batch = tiny_models.lay_out(
    converter, tiny_models.random_examples(), packing=False
  )
  traced = jax.make_jaxpr(
    functools.partial(whole.init_with_output, method="all_logits")
  )(jax.random.key(0), batch)
  rows = batch["decoder_input_tokens"].shape
  assert traced.out_avals[0].shape == (*rows, tiny_models.TINY["VOCAB_SIZE"])
  return re.sub("0x[0-9a-f]+", "", str(traced))


def model(*variant: str):
  """Equal to another if all of its parts and their settings are."""
  return tiny_models.build(*variant, **ONE_LAYER)[0]


CHANGING = [
  part
  for part in tiny_models.PARTS
  if part not in INCLUDED and not part.startswith(ELSEWHERE)
]


@pytest.mark.parametrize(
  "architecture",
  [
    pytest.param(name, marks=() if name in ONE_OF_A_KIND else pytest.mark.slow)
    for name in tiny_models.ARCHITECTURES
  ],
)
def test_a_part_changes_all_but_the_architecture_that_has_it(architecture):
  alone = model(architecture)
  parts = {part for part in CHANGING if (architecture, part) not in REFUSED}
  unchanged = {part for part in parts if model(architecture, part) == alone}
  assert unchanged == own(architecture)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["bart", "lm"])
def test_another_part_is_another_computation(architecture):
  alone = program(architecture)
  for part in sorted({*CHANGING} - own(architecture)):
    assert program(architecture, part) != alone, part


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ONE_OF_A_KIND)
@pytest.mark.parametrize("part", tiny_models.LAYERS)
def test_other_layers_are_those_of_any_architecture(architecture, part):
  program(architecture, part)


FEED_FORWARD = [
  part
  for part in tiny_models.PARTS
  if part.startswith("feed_forward/")
  and part not in (*INCLUDED, *tiny_models.WITH_EXPERTS)
  and part != tiny_models.WITH_MEMORY
]


@pytest.mark.parametrize("architecture", ["t5_1_0", "t5_1_1"])
@pytest.mark.parametrize("part", FEED_FORWARD)
def test_feed_forward_networks_have_as_many_parameters(architecture, part):
  def size(*variant):
    mlp = tiny_models.build(*variant)[0].encoder.layer_stack.layer.mlp
    return mlp.d_ff * (3 if hasattr(mlp, "wi_1") else 2)

  assert size(architecture, part) == size(architecture)


# Fixup's scope of attention hides whose side a bias in every layer is on.
REFUSED = {
  ("umt5", "connections/fixup.gin"),
  ("t5gemma2", "attention/value_residual.gin"),
  # A context of bounded scores adds no vectors by distance.
  *(
    (name, f"positions/{part}.gin")
    for name in ("gemma2", "t5gemma")
    for part in ("music_transformer", "shaw")
  ),
}
# What takes the places of several folders: of two files the later one counts.
SEVERAL_PLACES = (
  *("attention/differential", "attention/soft_capped"),
  *("attention/synthesizer", "attention/talking_heads"),
  "attention/value_residual",
  *("connections/fixup", "connections/hyper", "connections/rezero"),
  *("softmax/adaptive", "softmax/factorized_untied", "softmax/mixture"),
  "softmax/soft_capped",
)


def drawn_variants(number: int):
  """Architectures with two to six parts, none of which undoes another."""
  draws = random.Random(0)
  folders = {}
  for part in sorted(set(tiny_models.PARTS) - set(INCLUDED)):
    if not part.startswith(SEVERAL_PLACES):
      folders.setdefault(part.split("/")[0], []).append(part)
  while number:
    architecture = draws.choice(tiny_models.ARCHITECTURES)
    chosen = draws.sample(sorted(folders), draws.randint(2, len(folders)))
    parts = [draws.choice(folders[name]) for name in chosen]
    if REFUSED.isdisjoint((architecture, part) for part in parts):
      number -= 1
      yield architecture, *parts


@pytest.mark.parametrize(
  "variant",
  [
    pytest.param(
      variant, id="-".join(variant), marks=pytest.mark.slow if i >= 12 else ()
    )
    for i, variant in enumerate(drawn_variants(24))
  ],
)
def test_parts_add_up_whatever_their_order(variant):
  architecture, *parts = variant
  together = model(architecture, *parts)
  assert together == model(architecture, *parts[::-1])
  changing = [
    part
    for part in parts
    if part not in own(architecture) and not part.startswith(ELSEWHERE)
  ]
  assert (together != model(architecture)) == bool(changing)
  program(architecture, *parts)


@pytest.mark.parametrize("part", ["shaw", "music_transformer"])
def test_a_kind_of_relative_vectors_takes_the_place_of_the_other(part):
  others = {"shaw": "music_transformer", "music_transformer": "shaw"}
  files = [f"positions/{name}.gin" for name in (others[part], part)]
  assert model("lm", *files) == model("lm", files[-1])


def test_vectors_of_music_transformer_begin_with_length_one():
  music, _ = tiny_models.build("lm", "positions/music_transformer.gin")
  vectors = (
    music.decoder.transformer.layer_stack.layer.self_attention.relative_vectors
  )
  drawn = vectors.embedding_init(jax.random.key(0), (2, 1025, 8), "float32")
  np.testing.assert_allclose(np.std(drawn), 8**-0.5, rtol=0.02)


def test_every_matrix_of_llama_begins_with_one_deviation():
  llama, _ = tiny_models.build("llama", EMBED_DIM=64, VOCAB_SIZE=200)
  kernel = llama.decoder.head.logits_dense.kernel_init
  drawn = kernel(jax.random.key(0), (64, 200), "float32")
  np.testing.assert_allclose(np.std(drawn), 0.02, rtol=0.02)
