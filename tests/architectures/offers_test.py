"""What every architecture offers, which no caller asks of its fields."""

import pytest

from tests import tiny_models
from transformer_zoo.architectures.ensemble import Ensemble

_ANSWERS = ("encoder", "decoder"), "answer", "left_to_right"
_CONTINUES = ("decoder",), "continuation", "left_to_right"
_READS = ("encoder",), None, "both"
# How an architecture reads and writes; others are encoder-decoders.
OTHERS = {
  **dict.fromkeys(
    ("bloom", "gpt_1", "gpt_2", "gpt_3", "gpt_j", "gpt_neo", "llama", "lm"),
    _CONTINUES,
  ),
  **dict.fromkeys(
    ("gemma2", "gemma3", "modernbert_decoder", "olmo2", "prefix_lm", "qwen3"),
    _CONTINUES,
  ),
  **dict.fromkeys(tiny_models.ENCODERS, _READS),
  "unilm": (("encoder",), "masks", "both"),
  "xlnet": (("encoder",), None, "permuted"),
}


@pytest.mark.parametrize(
  "name", (*tiny_models.ARCHITECTURES, *tiny_models.ENCODERS)
)
def test_an_architecture_says_how_it_reads_and_writes(name):
  model, converter = tiny_models.build(name)
  offers = model.offers
  assert (offers.sides, offers.writes, offers.direction) == OTHERS.get(
    name, _ANSWERS
  )
  assert offers.has_one_vocabulary == (name != "t5gemma")
  assert not offers.members
  assert offers.num_outputs == tiny_models.TINY["VOCAB_SIZE"]
  laid_out = converter.shapes({"inputs": 4, "targets": 4}, 1, False)
  assert set(offers.reads) <= laid_out.keys()
  shared = name == "shared"  # The decoder's layers encode too.
  assert tuple(offers.transformers) == (
    ("decoder",) if shared else offers.sides
  )


def test_a_text_encoder_says_in_which_direction_it_reads():
  for part, offset in {"left_to_right": -1, "right_to_left": 1}.items():
    model, _ = tiny_models.build("bert", f"{part}.gin")
    assert model.offers.direction == part
    assert model.offers.mask_offset == offset


def test_an_ensemble_has_the_fewest_positions_of_its_members():
  short, long = (
    tiny_models.build(
      "bert", bindings=(f"LearnedPositions.num_positions={n}",)
    )[0]
    for n in (16, 32)
  )
  offers = Ensemble.of([long, short]).offers
  assert offers.num_positions("encoder") == 16
  assert len(offers.members) == 2
