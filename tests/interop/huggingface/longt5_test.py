"""Models that LongT5's class cannot compute."""

import pytest

from tests.golden import families
from transformer_zoo import config as zoo_config
from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import family_of

CONFIG = families.CONFIGS["longt5_transient_global"]


@pytest.mark.parametrize(
  ("binding", "said"),
  [
    ("decoder/Attention.radius=4", "a decoder that sees all tokens before"),
    ("encoder/Attention.summaries=None", "biases of one size in all stacks"),
    (
      "encoder/Transformer.position_bias=@encoder/RelativePositionBias()",
      "a relative bias of the sums of blocks",
    ),
    (
      "decoder/RelativePositionBias.num_buckets=4",
      "biases of one size in all stacks",
    ),
  ],
)
def test_what_theirs_cannot_compute_is_refused(binding, said):
  architecture = family_of(CONFIG).architecture(CONFIG)
  model = zoo_config.build(
    "MODEL",
    architecture.gin_files,
    [*architecture.as_overrides(), binding],
    allow_unused=True,
  )
  with pytest.raises(UserError, match=said):
    family_of(CONFIG).config(model)


def test_another_attention_is_refused_by_name():
  with pytest.raises(
    UserError, match="encoder_attention_type='full', which is"
  ):
    family_of(CONFIG).architecture({**CONFIG, "encoder_attention_type": "full"})
