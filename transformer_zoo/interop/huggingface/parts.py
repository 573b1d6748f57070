"""The parts of a model that attributes of config.json describe."""

from collections.abc import Mapping
import dataclasses

from flax import linen as nn

# Where the value of a macro or parameter of gin lies in the parts of a model.
PLACES = {
  "VOCAB_SIZE": "tokens.num_embeddings",
  "EMBED_DIM": "tokens.features",
  "MAX_POSITIONS": "positions.num_positions",
  "NUM_ENCODER_LAYERS": "encoder.stack.num_layers",
  "NUM_DECODER_LAYERS": "stack.num_layers",
  "NUM_HEADS": "attention.num_heads",
  "HEAD_DIM": "attention.head_dim",
  "MLP_DIM": "mlp.d_ff",
  "DROPOUT_RATE": "layer.dropout.rate",
  "attention/Dropout.rate": "attention.dropout.rate",
  "embedding/Dropout.rate": "dropout.rate",
  "hidden/Dropout.rate": "mlp.dropout.rate",
  "Mlp.activation": "mlp.activation",
  "GatedMlp.activation": "mlp.activation",
  "LayerNorm.epsilon": "layer.norm.epsilon",
  "LayerNorm.use_bias": "layer.norm.use_bias",
  "RMSNorm.epsilon": "layer.norm.epsilon",
  "Embed.multiply_by_sqrt_depth": "tokens.multiply_by_sqrt_depth",
  "Attention.scale_scores": "attention.scale_scores",
  "Stack.divide_scores_by_depth": "divides_by_depth",
}


@dataclasses.dataclass(frozen=True)
class Parts:
  """The parts of a model by the names that families use.

  Every property raises AttributeError where a model has no such part.

  Attributes:
    model: The model.
    side: The stack that is described: "encoder", "decoder", or "reader", a
      decoder with the heads of an encoder.
    kind: The model_type of theirs that describes it, for sentences.
  """

  model: nn.Module
  side: str
  kind: str

  @property
  def encoder(self) -> "Parts":
    """The parts of the encoder of a model with two stacks."""
    return dataclasses.replace(self, side="encoder")

  @property
  def tokens(self) -> nn.Module:
    """The embeddings of tokens."""
    return self.model.token_embedder

  @property
  def stack(self) -> nn.Module:
    """The stack of layers."""
    if self.side == "encoder":
      return self.model.encoder
    if self.side == "reader":
      return self.model.reader
    return self.model.decoder.stack

  @property
  def layer(self) -> nn.Module:
    """The layer that is repeated."""
    return self.stack.layer

  @property
  def attention(self) -> nn.Module:
    """The attention of a stack to itself."""
    if self.side == "encoder":
      return self.layer.attention
    return self.layer.self_attention

  @property
  def mlp(self) -> nn.Module:
    """The feed-forward network of a layer."""
    return self.layer.mlp

  @property
  def dropout(self) -> nn.Module:
    """The dropout of what enters a stack."""
    return self.stack.dropout

  @property
  def norm(self) -> nn.Module | None:
    """The norm of what comes out of a stack."""
    return self.stack.norm

  @property
  def windows(self) -> tuple[int | None, ...]:
    """The windows of the layers, repeated in turn."""
    return self.stack.windows

  @property
  def divides_by_depth(self) -> bool:
    """Whether scores are divided by the number of their layer."""
    return self.stack.divide_scores_by_depth

  @property
  def positions(self) -> nn.Module | None:
    """The table of positions that are added to the embeddings."""
    return self.stack.position_embedder

  @property
  def bias(self) -> nn.Module | None:
    """The bias of scores by distance that all layers have in common."""
    return self.stack.position_bias

  @property
  def relative(self) -> nn.Module | None:
    """The table or the sinusoids of distances."""
    return self.stack.relative_embedder

  @property
  def input_projection(self) -> nn.Module | None:
    """The map from the embeddings to the width of the layers."""
    return self.stack.input_projection

  @property
  def convolution(self) -> nn.Module | None:
    """The convolution that is joined to the output of the first layer."""
    return self.stack.convolution

  @property
  def mask_decoder(self) -> nn.Module | None:
    """The enhanced mask decoder."""
    return self.stack.mask_decoder

  @property
  def softmax(self) -> nn.Module:
    """The part of a decoder that makes logits of its output."""
    return self.model.decoder.head

  @property
  def heads(self) -> Mapping[str, nn.Module]:
    """The heads of an encoder by their names."""
    return self.model.heads.parts
