"""Parameter trees and counts, by shape evaluation alone."""

import re

import jax
import pytest

from tests import tiny_models
from tests.golden import update_parameter_trees
from transformer_zoo.training import state

# (architecture, size, macros) -> parameters: with the vocabulary, and the
# positions, of the published checkpoints; as `transformers` counts them.
EXACT = {
  ("t5_1_0", "t5_1_0_small"): 60_506_624,
  ("t5_1_0", "t5_1_0_base"): 222_903_552,
  ("t5_1_0", "t5_1_0_2x"): 502_746_112,
  ("t5_1_0", "t5_1_0_4x"): 972_590_080,
  ("t5_1_0", "t5_1_0_base_6_layers"): 123_790_080,
  ("shared", "t5_1_0_base"): 137_949_312,
  ("lm", "t5_1_0_base"): 109_628_544,
  ("t5_1_0", "t5_1_0_large"): 737_668_096,
  ("t5_1_0", "t5_1_0_3b"): 2_851_598_336,
  ("t5_1_0", "t5_1_0_11b"): 11_307_321_344,
  ("t5_1_1", "t5_1_1_small"): 76_961_152,
  ("t5_1_1", "t5_1_1_base"): 247_577_856,
  ("t5_1_1", "t5_1_1_large"): 783_150_080,
  ("t5_1_1", "t5_1_1_xl"): 2_849_757_184,
  ("t5_1_1", "t5_1_1_xxl"): 11_135_332_352,
  ("mt5", "t5_1_1_small"): 300_176_768,
  ("mt5", "t5_1_1_base"): 582_401_280,
  ("mt5", "t5_1_1_large"): 1_229_581_312,
  ("mt5", "t5_1_1_xl"): 3_742_619_648,
  ("mt5", "t5_1_1_xxl"): 12_921_057_280,
  ("umt5", "t5_1_1_small"): 306_601_984,
  ("umt5", "t5_1_1_base"): 592_043_520,
  ("umt5", "t5_1_1_xl"): 3_768_356_864,
  ("umt5", "t5_1_1_xxl"): 12_972_531_712,
  ("longt5", "t5_1_1_base"): 247_587_456,
  ("longt5", "t5_1_1_large"): 783_175_168,
  ("longt5", "t5_1_1_xl"): 2_849_807_360,
  ("byt5", "byt5_small"): 299_637_760,
  ("byt5", "byt5_base"): 581_653_248,
  ("byt5", "byt5_large"): 1_228_183_552,
  ("byt5", "byt5_xl"): 3_737_801_728,
  ("byt5", "byt5_xxl"): 12_906_899_328,
  ("bart", "bart_base"): 139_420_416,
  ("bart", "bart_large"): 406_291_456,
  ("bloom", "bloom_176b"): 176_247_271_424,
  ("gemma2", "gemma2_2b"): 2_614_341_888,
  ("gemma3", "gemma3_1b"): 999_885_952,
  ("gpt_1", "gpt_1"): 116_534_784,
  ("gpt_2", "gpt_2_small"): 124_439_808,
  ("gpt_2", "gpt_2_medium"): 354_823_168,
  ("gpt_2", "gpt_2_large"): 774_030_080,
  ("gpt_2", "gpt_2_xl"): 1_557_611_200,
  ("gpt_j", "gpt_j_6b"): 6_050_882_784,
  ("llama", "llama_7b"): 6_738_415_616,
  ("llama", "llama_1b"): 1_100_048_384,
  ("modernbert_decoder", "modernbert_decoder_150m"): 149_655_232,
  ("olmo2", "olmo2_1b"): 1_484_916_736,
  ("qwen3", "qwen3_0_6b"): 596_049_920,
  # Without what reads images.
  ("t5gemma2", "t5gemma2_1b"): 1_697_782_016,
  ("t5gemma", "t5gemma_9b_2b"): 12_292_375_296,
  ("t5gemma", "t5gemma_s"): 312_517_632,
  ("t5gemma", "t5gemma_b"): 591_490_560,
  ("t5gemma", "t5gemma_xl"): 3_766_980_608,
}
# Without the heads of pre-training and the mask decoder, as Google's table of
# small models and `transformers` count ALBERT, BERT and DeBERTa; ELECTRA
# without its generator; others with the head of masked tokens.
ENCODERS = {
  ("albert", "albert_base"): 11_683_584,
  ("albert", "albert_large"): 17_683_968,
  ("albert", "albert_xlarge"): 58_724_864,
  ("albert", "albert_xxlarge"): 222_595_584,
  ("bert", "bert_tiny"): 4_385_920,
  ("bert", "bert_mini"): 11_170_560,
  ("bert", "bert_small"): 28_763_648,
  ("bert", "bert_medium"): 41_373_184,
  ("bert", "bert_base"): 109_482_240,
  ("bert", "bert_large"): 335_141_888,
  ("deberta", "deberta_base"): 138_601_728,
  ("deberta", "deberta_large"): 405_163_008,
  ("deberta", "deberta_xlarge"): 757_804_032,
  ("deberta_v2", "deberta_v2_xlarge"): 884_593_152,
  ("deberta_v2", "deberta_v2_xxlarge"): 1_564_549_632,
  ("deberta_v3", "deberta_v3_xsmall"): 70_682_112,
  ("deberta_v3", "deberta_v3_small"): 141_304_320,
  ("deberta_v3", "deberta_v3_base"): 183_831_552,
  ("deberta_v3", "deberta_v3_large"): 434_012_160,
  ("distilbert", "distilbert_base"): 66_985_530,
  ("electra", "electra_small"): 13_549_057,
  ("electra", "electra_base"): 109_483_009,
  ("electra", "electra_large"): 335_142_913,
  ("mpnet", "mpnet_base"): 109_518_527,
  ("roberta", "roberta_base"): 124_696_665,
  ("roberta", "roberta_large"): 355_411_033,
  ("xlnet", "xlnet_base"): 116_750_336,
  ("xlnet", "xlnet_large"): 360_300_800,
}
# As the papers' tables print them.
PRINTED = {
  # Vaswani et al. 2017, table 3; 37,000 byte pairs.
  ("transformer_2017", "transformer_2017_base"): 65e6,
  ("transformer_2017", "transformer_2017_big"): 213e6,
  # README of MASS-summarization (microsoft/MASS).
  ("mass", "mass_base"): 123e6,
  ("mass", "mass_middle"): 208e6,
  # Brown et al. 2020, table 2.1.
  ("gpt_3", "gpt_3_small"): 125e6,
  ("gpt_3", "gpt_3_medium"): 350e6,
  ("gpt_3", "gpt_3_large"): 760e6,
  ("gpt_3", "gpt_3_xl"): 1.3e9,
  ("gpt_3", "gpt_3_2_7b"): 2.7e9,
  ("gpt_3", "gpt_3_6_7b"): 6.7e9,
  ("gpt_3", "gpt_3_13b"): 13.0e9,
  ("gpt_3", "gpt_3_175b"): 175.0e9,
}
# Without the rows that only make a table divide over a mesh.
VOCABULARIES = {
  "gpt_1": 40_478,
  "gpt_2": 50_257,
  "gpt_3": 50_257,
  "llama": 32_000,
  "transformer_2017": 37_000,
}


# A stack of each kind: the others are scanned by variants_test.py and traced
# by the slow tests.
SCANNED = "albert", "deberta_v2", "gpt_j", "t5_1_1", "umt5", "xlnet"


def sizes(architecture: str, size: str) -> dict[str, int]:
  """Path -> numbers; of one traced layer, times the layers."""
  macros = {}
  if architecture in VOCABULARIES:
    macros["VOCAB_SIZE"] = VOCABULARIES[architecture]
  return tiny_models.parameter_sizes(
    update_parameter_trees.model(architecture, size, scan=False, **macros)
  )


def first_fast(models):
  """The first size of an architecture is fast, the others are slow."""
  firsts = {model[0]: model for model in reversed(list(models))}
  return [
    pytest.param(
      model,
      id="-".join(model),
      marks=() if firsts[model[0]] == model else pytest.mark.slow,
    )
    for model in models
  ]


@pytest.mark.parametrize("model", first_fast(EXACT))
def test_published_sizes_have_exactly_their_parameters(model):
  assert sum(sizes(*model).values()) == EXACT[model]


@pytest.mark.parametrize("model", first_fast(ENCODERS))
def test_published_encoders_have_exactly_their_parameters(model):
  apart = "encoder/mask_decoder/", "generator/"
  if model[0].startswith(("albert", "bert", "deberta")):
    apart += ("heads/",)
  found = sizes(*model).items()
  assert ENCODERS[model] == sum(
    number for path, number in found if not path.startswith(apart)
  )


@pytest.mark.parametrize("model", first_fast(PRINTED))
def test_other_published_sizes_have_about_their_parameters(model):
  # What the table of Vaswani et al. counts besides is not known.
  tolerance = 0.035 if model[1] == "transformer_2017_base" else 0.02
  found = sum(sizes(*model).values())
  assert found == pytest.approx(PRINTED[model], rel=tolerance)


def test_every_architecture_has_a_recorded_tree():
  assert set(update_parameter_trees.SIZES) == {
    *tiny_models.ARCHITECTURES, *tiny_models.ENCODERS
  }  # fmt: skip


MOVED = "update with: python -m tests.golden.update_parameter_trees"


@pytest.mark.parametrize("architecture", update_parameter_trees.SIZES)
def test_parameter_tree_is_the_recorded_one(architecture):
  """Of two layers, which are traced; and so many layers are recorded."""
  model = update_parameter_trees.model(
    architecture, update_parameter_trees.SIZES[architecture], scan=False
  )
  shallow = tiny_models.shallow(model, layers=2)
  traced = tiny_models.layers_of_stacks(shallow)
  leaves = jax.tree.leaves(state.abstract_variables(shallow))
  assert {str(leaf.dtype) for leaf in leaves} == {"float32"}
  recorded, numbers = [], {stack: set() for stack in traced}
  for line in recorded_lines(architecture, scan=False):
    if layer := re.match(r"(\S+)/layers_(\d+)/", line):
      stack, number = layer[1], int(layer[2])
      numbers[stack].add(number)
      if number >= traced[stack]:
        continue
    recorded.append(line)
  assert update_parameter_trees.lines(shallow) == recorded, MOVED
  assert numbers == {
    stack: set(range(number))
    for stack, number in tiny_models.layers_of_stacks(model).items()
  }


@pytest.mark.parametrize(
  "architecture",
  [
    pytest.param(name, marks=() if name in SCANNED else pytest.mark.slow)
    for name, scan in update_parameter_trees.TREES
    if scan
  ],
)
def test_parameter_tree_of_scanned_layers_is_the_recorded_one(architecture):
  model = update_parameter_trees.model(
    architecture, update_parameter_trees.SIZES[architecture], scan=True
  )
  found = update_parameter_trees.lines(model)
  assert found == recorded_lines(architecture, scan=True), MOVED


def recorded_lines(architecture: str, *, scan: bool) -> list[str]:
  path = update_parameter_trees.path(architecture, scan)
  return path.read_text("utf-8").splitlines()
