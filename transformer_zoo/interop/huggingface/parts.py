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
  "ScoreScales.divide_by_depth": "divides_by_depth",
}


@dataclasses.dataclass(frozen=True)
class Parts:
  """The parts of a model by the names that families use.

  Every property raises AttributeError where a model has no such part.

  Attributes:
    model: The model.
    side: The side that is described: "encoder", "decoder", or "reader", a
      decoder with the heads of an encoder.
    kind: The model_type of theirs that describes it, for sentences.
  """

  model: nn.Module
  side: str
  kind: str

  @property
  def encoder(self) -> "Parts":
    """The parts of the encoder of a model with two sides."""
    return dataclasses.replace(self, side="encoder")

  @property
  def tokens(self) -> nn.Module:
    """The embeddings of tokens."""
    return self.model.token_embedder

  @property
  def transformer(self) -> nn.Module:
    """The layers with what stands around them."""
    if self.side == "encoder":
      return self.model.encoder
    if self.side == "reader":
      return self.model.reader
    return self.model.decoder.transformer

  @property
  def stack(self) -> nn.Module:
    """The stack of layers."""
    return self.transformer.layer_stack

  @property
  def layer(self) -> nn.Module:
    """The layer that is repeated."""
    return self.stack.layer

  @property
  def attention(self) -> nn.Module:
    """The attention of a side to itself."""
    if self.side == "encoder":
      return self.layer.attention
    return self.layer.self_attention

  @property
  def mlp(self) -> nn.Module:
    """The feed-forward network of a layer."""
    return self.layer.mlp

  @property
  def dropout(self) -> nn.Module:
    """The dropout of what enters the layers."""
    return self.transformer.dropout

  @property
  def norm(self) -> nn.Module | None:
    """The norm of what comes out of the layers."""
    return self.transformer.norm

  @property
  def windows(self) -> tuple[int | None, ...]:
    """The windows of the layers, repeated in turn."""
    return self._of_each_layer("Windows").sizes

  @property
  def more_ahead(self) -> int:
    """How many tokens more the windows have ahead than back."""
    return self._of_each_layer("Windows").more_ahead

  @property
  def divides_by_depth(self) -> bool:
    """Whether scores are divided by the number of their layer."""
    return self._of_each_layer("ScoreScales").divide_by_depth

  @property
  def positions(self) -> nn.Module | None:
    """The table of positions that are added to the embeddings."""
    return self.transformer.position_embedder

  @property
  def bias(self) -> nn.Module | None:
    """The bias of scores by distance that all layers have in common."""
    return self.transformer.position_bias

  @property
  def relative(self) -> nn.Module | None:
    """The table or the sinusoids of distances."""
    return self.transformer.relative_embedder

  @property
  def input_projection(self) -> nn.Module | None:
    """The map from the embeddings to the width of the layers."""
    return self.transformer.input_projection

  @property
  def convolution(self) -> nn.Module | None:
    """The convolution that is joined to the output of the first layer."""
    return self.transformer.convolution

  @property
  def mask_decoder(self) -> nn.Module | None:
    """The enhanced mask decoder."""
    return self.transformer.mask_decoder

  @property
  def softmax(self) -> nn.Module:
    """The part of a decoder that makes logits of its output."""
    return self.model.decoder.head

  @property
  def heads(self) -> Mapping[str, nn.Module]:
    """The heads of an encoder by their names."""
    return self.model.heads.parts

  def _of_each_layer(self, kind: str) -> nn.Module | None:
    """The part of this kind that gives each layer values of its own."""
    parts = {type(part).__name__: part for part in self.transformer.by_layer}
    return parts.get(kind)
