"""Default parts belong to one parent each."""

from flax import linen as nn
import jax
import numpy as np
import pytest

from transformer_zoo.architectures.transformer import Transformer
from transformer_zoo.modules.attention.attention import Attention
from transformer_zoo.modules.dropout import Dropout
from transformer_zoo.modules.feed_forward import GatedMlp
from transformer_zoo.modules.feed_forward import Mlp
from transformer_zoo.modules.heads import LinearLogits
from transformer_zoo.modules.layers import DecoderLayer
from transformer_zoo.modules.layers import EncoderLayer
from transformer_zoo.modules.linear import Linear
from transformer_zoo.modules.parts import part
from transformer_zoo.modules.stack import Stack

BUILDERS = {
  "Attention": lambda: Attention(num_heads=2, head_dim=3),
  "Mlp": lambda: Mlp(d_ff=4),
  "GatedMlp": lambda: GatedMlp(d_ff=4),
  "LinearLogits": LinearLogits,
  "EncoderLayer": lambda: EncoderLayer(attention=None, mlp=None),
  "DecoderLayer": lambda: DecoderLayer(
    self_attention=None, encoder_decoder_attention=None, mlp=None
  ),
  "Transformer": lambda: Transformer(Stack(layer=None, num_layers=1)),
}


def parts_of(module):
  fields = module.__dataclass_fields__
  return {
    name: getattr(module, name)
    for name in fields
    if isinstance(getattr(module, name, None), nn.Module)
  }


@pytest.mark.parametrize("name", BUILDERS)
def test_two_parents_have_no_part_in_common(name):
  one, other = BUILDERS[name](), BUILDERS[name]()
  parts = [*parts_of(one).values(), *parts_of(other).values()]
  assert parts and len({id(each) for each in parts}) == len(parts)


def test_two_attentions_in_one_model_have_parameters_of_their_own():
  class Two(nn.Module):
    first: nn.Module
    second: nn.Module

    def __call__(self, x):
      return self.second(self.first(x))

  model = Two(first=BUILDERS["Attention"](), second=BUILDERS["Attention"]())
  x = np.ones((1, 2, 5), np.float32)
  params = jax.eval_shape(model.init, jax.random.key(0), x)["params"]
  assert len(jax.tree.leaves(params)) == 8
  assert params.keys() == {"first", "second"}


def test_part_is_built_anew_with_its_settings():
  class Parent(nn.Module):
    linear: nn.Module = part(Linear, use_bias=True)
    dropout: nn.Module = part(Dropout)

  assert Parent().linear.use_bias
  assert Parent().linear is not Parent().linear
