"""Sizes and options that no model can have, before anything is compiled."""

import re

import jax
import pytest

from tests import tiny_models
from transformer_zoo.errors import sentence
from transformer_zoo.errors import UserError

SHAW = "positions/shaw.gin"
MUSIC = "positions/music_transformer.gin"
FACTORIZED = "softmax/factorized.gin"
FUNNEL = "stacks/funnel.gin"
TRANSPARENT = "stacks/transparent_attention.gin"
HYPER = "connections/hyper_connections.gin"
LOCAL = "attention/local.gin"
TRANSIENT = "attention/transient_global.gin"
VALUE_RESIDUAL = "attention/value_residual.gin"


@pytest.mark.parametrize(
  "variant, binding, message",
  [
    (("t5_1_0",), "MLP_MATRICES=0", "MLP_MATRICES=0 must be at least 1"),
    (("lm", FACTORIZED), "FACTORIZED_DIM=0", "FACTORIZED_DIM=0 must be at le"),
    (
      ("lm",),
      "Attention.kernel='chunked'",
      "Attention.kernel must be a KernelChoice (@name()) and is 'chunked', a",
    ),
    (
      ("lm",),
      "Attention.kernel=@ChunkedAttention",
      "must be a KernelChoice (@name()) and is @ChunkedAttention",
    ),
    (
      ("t5_1_0",),
      "Attention.num_heads=3",
      "a position bias of 4 heads cannot be added to the scores of Attention."
      "num_heads=3; set NUM_HEADS, which both read",
    ),
    (
      ("lm", SHAW),
      "Attention.head_dim=6",
      "RelativeVectors of head_dim=8 and num_heads=None do not fit Attention.",
    ),
    (
      ("lm", MUSIC),
      "Attention.num_heads=2",
      "num_heads=4 do not fit Attention",
    ),
    (
      ("gpt_2",),
      "Embed.features=16",
      "LearnedPositions.features is 24, but embeddings have 16; set EMBED_DIM",
    ),
    (
      ("transformer_2017",),
      "Embed.features=16",
      "SinusoidalPositions.features is 24, but embeddings have 16",
    ),
    (
      ("t5_1_0",),
      "DecoderLayer.encoder_decoder_attention=None",
      "DecoderLayer.encoder_decoder_attention is None, but there is an encoder",
    ),
    (
      ("t5_1_0", TRANSPARENT),
      "encoder/Transformer.mix=None",
      "2 layers of the decoder attend to memories of their own, but the "
      "encoder gives one output; bind encoder/Transformer.mix = @MixOfEachLay",
    ),
    (
      ("t5_1_0", TRANSPARENT),
      "MixOfEachLayer.num_layers=3",
      "2 layers of the decoder attend to memories of their own, but the "
      "encoder gives 3 memories",
    ),
    (
      ("t5_1_0", FUNNEL),
      "VOCAB_SIZE=48",
      "funnel_stack.num_blocks is 3; it must divide num_layers, 2: blocks have",
    ),
    (("t5_1_0", FUNNEL), "funnel_stack.pooling=1", "funnel_stack.pooling is 1"),
    (
      ("t5_1_0", FUNNEL),
      "SCAN_LAYERS=True",
      "layers of a stack that differ (with_first_layer, with_other_mlp, funne",
    ),
    (
      ("t5_1_0", FUNNEL),
      "CONNECT=@connections.parallel",
      "a Funnel Transformer pools between attention and the feed-forward netwo",
    ),
    (
      ("t5_1_0", FUNNEL),
      "encoder/Transformer.layer_stack=@Stack()",
      "funnel_encoder_decoder.model has no encoder that pools; bind encoder/Tr",
    ),
    (
      ("t5_1_0", FUNNEL, TRANSPARENT),
      "funnel_stack.num_blocks=2",
      "states of a Funnel Transformer have different lengths: there is no mix ",
    ),
    (
      ("t5_1_0", tiny_models.UNIVERSAL),
      "universal_stack.threshold=1.0",
      "universal_stack.threshold is 1.0, and no probability between 0 and 1",
    ),
    (
      ("t5_1_0", tiny_models.UNIVERSAL),
      "Transformer.mix=@LayerMix()",
      "a Universal Transformer applies its layers several times, so there is n",
    ),
    (
      ("t5_1_0", HYPER),
      "HyperConnections.num_streams=0",
      "HyperConnections.num_streams is 0; it must be at least 1",
    ),
    (
      ("t5_1_0", HYPER),
      "encoder/Transformer.layer_stack=@Stack()",
      "HyperConnections joins sublayers to several streams, which hyper_stac",
    ),
    (
      ("t5_1_0", HYPER),
      "CONNECT=@connections.parallel",
      "hyper_stack: a layer, EncoderLayer, is not connected by HyperConnectio",
    ),
    (
      ("lm", HYPER, tiny_models.LSTM),
      "VOCAB_SIZE=48",
      "hyper_stack: a layer, LstmLayer, is not connected by HyperConnections",
    ),
    (
      ("t5_1_0", HYPER, "../peft/adapters.gin"),
      "VOCAB_SIZE=48",
      "an adapter behind a layer reads one residual stream, and layers hand on",
    ),
    (
      ("t5_1_0", VALUE_RESIDUAL),
      "encoder/Transformer.layer_stack=@Stack()",
      "Attention.value_residual mixes the values of the first layer, which val",
    ),
    (
      ("deberta", VALUE_RESIDUAL),
      "VOCAB_SIZE=48",
      "value_residual_stack hands the values of the first layer to the self-at",
    ),
    (
      ("t5_1_0", VALUE_RESIDUAL),
      "Attention.value_residual=None",
      "this layer is EncoderLayer with Attention; bind Transformer.layer_stack",
    ),
    (
      ("gemma2",),
      "SoftCappedScores.cap=0.0",
      "SoftCappedScores.cap is 0.0; it must be positive",
    ),
    (
      ("gemma2",),
      "SoftCappedLogits.cap=-1.0",
      "SoftCappedLogits.cap is -1.0; it must be positive",
    ),
    (
      ("gemma2",),
      "Attention.scale_size=0",
      "Attention.scale_size is 0; scores are divided by its root, so it must",
    ),
    (
      ("gemma2",),
      "Attention.kernel=@ChunkedAttention()",
      "Attention.kernel = @ChunkedAttention() cannot serve Attention.context;",
    ),
    (
      ("t5_1_0", LOCAL),
      "LOCAL_RADIUS=-1",
      "Attention.radius is -1; it is a number of tokens on either side, or N",
    ),
    (
      ("t5_1_0", TRANSIENT),
      "GLOBAL_BLOCK=0",
      "BlockSums.block is 0; it must be positive",
    ),
    (
      ("t5_1_0", TRANSIENT),
      "LOCAL_RADIUS=None",
      "Attention.summaries stand for tokens farther away than Attention.radiu",
    ),
    (
      ("t5_1_0", TRANSIENT),
      "encoder/Attention.rotary=@Rotary()",
      "Attention.summaries does not go with Attention.rotary, which is of tok",
    ),
    (
      ("lm", LOCAL),
      "Attention.summaries=@BlockSums()",
      "Attention.summaries are of tokens on both sides, of which a decoder se",
    ),
    (
      ("t5_1_0", TRANSIENT),
      "encoder/Windows.sizes=(4,)",
      "Attention.summaries are of all tokens of a text, some of which this mo",
    ),
    (
      ("t5_1_0", TRANSIENT, "../peft/prefix.gin"),
      "VOCAB_SIZE=48",
      "Attention.summaries need keys, masks and biases of tokens by their dis",
    ),
    (
      ("llama",),
      "Rotary.theta=0.0",
      "Rotary.theta is 0.0; it must be positive",
    ),
    (("llama",), "Rotary.stretch=-1.0", "Rotary.stretch is -1.0; it must be"),
    (("llama",), "Rotary.trained_length=0", "Rotary.trained_length is 0; it"),
    (
      ("llama",),
      "Rotary.partly_stretched=(4.0, 4.0)",
      "Rotary.partly_stretched is (4.0, 4.0); the first must be smaller",
    ),
    (
      ("llama",),
      "RMSNorm.epsilon=-1.0",
      "RMSNorm.epsilon is -1.0; what is add",
    ),
    (("gpt_2",), "LayerNorm.epsilon=-1.0", "LayerNorm.epsilon is -1.0; what"),
    (
      ("t5_1_0",),
      "Dropout.broadcast_dims=(3,)",
      "Dropout.broadcast_dims is (3,); each must be an axis of [batch, length",
    ),
    (("llama",), "HEAD_DIM=7", "Rotary turns pairs: 7 of 7 features cannot be"),
  ],
  ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_what_does_not_fit_is_refused_in_one_sentence(
  variant, binding, message
):
  with pytest.raises(UserError, match=re.escape(message)) as error:
    model, converter = tiny_models.build(*variant, bindings=(binding,))
    batch = tiny_models.lay_out(
      converter, tiny_models.random_examples(), packing=False
    )
    jax.eval_shape(
      lambda key: model.init(key, batch, method="all_logits"),
      jax.random.key(0),
    )
  assert "\n" not in sentence(error.value)
