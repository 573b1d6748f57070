"""Tiny models of Mesh TensorFlow with our parameters: logits and gradients.

Imported in a process of its own: TensorFlow builds graphs in it
(`mesh_tensorflow_test.py`).
"""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import functools
import re
from typing import Any

from tests.oracles.mesh_tensorflow import stand_ins  # noqa: F401 (goes first)

# isort: split
import mesh_tensorflow as mtf
from mesh_tensorflow.transformer import adaptive_softmax
from mesh_tensorflow.transformer import evolved_transformer
from mesh_tensorflow.transformer import fixup_layers
from mesh_tensorflow.transformer import funnel_transformer
from mesh_tensorflow.transformer import memory_layers
from mesh_tensorflow.transformer import moe
from mesh_tensorflow.transformer import transformer
from mesh_tensorflow.transformer import transformer_layers as layers
from mesh_tensorflow.transformer import universal_transformer
from mesh_tensorflow.transformer import vocab_embeddings
import numpy as np
import tensorflow.compat.v1 as tf

# The sizes of tests/tiny_models.py.
D_MODEL, D_FF, HEADS, D_KV, NUM_LAYERS, VOCABULARY = 24, 36, 4, 8, 2, 48
# Rules that make the name of a variable of the path of our parameter, all of
# them in this order. The names of classes are left out of those of variables.
NAMES = (
  (r"token_embedder/embedding", "shared/embedding"),
  (r"/(encoder|decoder)_norm/", "/rms_norm/"),
  (
    r"/relpos_bias/rel_embedding",
    "/layers_0/attention/relative_attention_bias",
  ),
  (r"/layers_(\d)/", r"/block_00\1/"),
  (r"/pre_(\w+)_layer_norm/", r"/\1/rms_norm/"),
  (r"/pre_(\w+)_shift/", r"/\1/"),
  (r"/(\w+)_scale/", r"/\1/"),
  (r"/(?:self_)?attention/", "/layer_000/"),
  (r"/(?:cross|encoder_decoder)_attention/", "/layer_001/"),
  (r"^(encoder.*)/mlp/", r"\1/layer_001/"),
  (r"^(decoder.*)/mlp/", r"\1/layer_002/"),
  (r"/(q|k|v|o)(?:uery|ey|alue|ut)/kernel", r"/\1"),
)
ATTENTION = {"num_heads": HEADS, "key_value_size": D_KV, "dropout_rate": 0.0}
SELF_ATTENTION = [
  layers.SelfAttention,
  {**ATTENTION, "relative_attention_type": "bias_shared"},
]
CROSS_ATTENTION = [layers.EncDecAttention, ATTENTION]


def mlp(activation: str | Sequence[str] = "relu") -> list[Any]:
  """The feed-forward network of an activation, or of gate and value."""
  return [
    layers.DenseReluDense,
    {"hidden_size": D_FF, "activation": activation},
  ]


@dataclasses.dataclass(frozen=True)
class Original:
  """An encoder-decoder of Mesh TensorFlow.

  Attributes:
    encoder: The sublayers of a layer of the encoder, as `make_layer_stack` of
      the original takes them.
    decoder: Those of a layer of the decoder.
    sublayer: What stands around each sublayer; `CALL` is itself.
    final: What comes after the last layer.
    stacks: Classes of stacks that replace `LayerStack`, by side.
    encoder_layers: The number of layers of the encoder.
    whole: The class of the model.
    embedding: The class of the embeddings and, where it is tied, the softmax.
    shares_embedding: Whether both sides have one table.
    ties_softmax: Whether the softmax is the table of the decoder.
    names: Rules after `NAMES`.
    joined: Our parameters that are one variable, by the path of the first: they
      are its rows.
    pieces: Of our parameters that are several variables there: a pattern of
      their paths, and the axis along which there are so many pieces.
  """

  encoder: Sequence[Any] = (SELF_ATTENTION, mlp())
  decoder: Sequence[Any] = (SELF_ATTENTION, CROSS_ATTENTION, mlp())
  sublayer: Sequence[Callable] = (
    transformer.sublayer_rms_norm,
    transformer.sublayer_call_layer,
    transformer.sublayer_residual,
  )
  final: Sequence[Callable] = (transformer.sublayer_rms_norm,)
  stacks: Mapping[str, Callable] = dataclasses.field(default_factory=dict)
  encoder_layers: int = NUM_LAYERS
  whole: Callable = transformer.Bitransformer
  embedding: Callable = transformer.VocabEmbedding
  shares_embedding: bool = True
  ties_softmax: bool = True
  names: Sequence[tuple[str, str]] = ()
  joined: Mapping[str, str] = dataclasses.field(default_factory=dict)
  pieces: Mapping[str, tuple[int, int]] = dataclasses.field(
    default_factory=dict
  )

  def model(self) -> transformer.Bitransformer:
    """Returns the model; it makes its variables where it is called."""

    around = {
      "sublayers_initial": [],
      "sublayers_per_layer": self.sublayer,
      "sublayers_final": self.final,
    }

    def side(name, sublayers):
      stack = transformer.make_layer_stack(
        sublayers,
        functools.partial(
          self.stacks.get(name, transformer.LayerStack),
          **(around if self.sublayer else {}),
        ),
        self.encoder_layers if name == "encoder" else NUM_LAYERS,
      )
      return transformer.Unitransformer(
        stack,
        d_model=D_MODEL,
        input_vocab_size=VOCABULARY,
        output_vocab_size=VOCABULARY if name == "decoder" else None,
        autoregressive=name == "decoder",
        max_length=1,
        shared_embedding_and_softmax_weights=self.ties_softmax,
        name=name,
        layout="",
        mesh_shape="",
        vocab_divisor=1,
        positional_embedding=False,
        loss_fn=_cross_entropy,
      )

    transformer.get_vocab_embedding_cls = lambda: self.embedding
    return self.whole(
      side("encoder", self.encoder),
      side("decoder", self.decoder),
      self.shares_embedding,
    )

  def name(self, path: str) -> str:
    """Returns the name of the variable of one of our parameters."""
    for pattern, replacement in (*NAMES, *self.names):
      path = re.sub(pattern, replacement, path)
    return path

  def cut(self, path: str, value: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the pieces of one of our parameters, by their paths."""
    for pattern, (axis, number) in self.pieces.items():
      if re.search(pattern, path):
        cut = np.split(value, number, axis)
        return {f"{path}/{i}": each for i, each in enumerate(cut)}
    return {path: value}

  def axis(self, path: str) -> int:
    """Returns the axis along which the pieces of a parameter lie."""
    return next(
      (
        axis
        for pattern, (axis, _) in self.pieces.items()
        if re.search(pattern, path)
      ),
      0,
    )


def outputs(
  original: Original,
  parameters: Mapping[str, np.ndarray],
  batch: Mapping[str, np.ndarray],
) -> dict[str, np.ndarray]:
  """Returns what `tests.golden.variants.outputs` returns of our model.

  Args:
    original: The model.
    parameters: Our parameters by path.
    batch: SeqIO's features of an encoder-decoder, padded with 0.
  """
  ours = parameters
  parameters = dict(ours)
  for first, last in original.joined.items():
    rows = parameters[first], parameters.pop(last)
    parameters[first] = np.concatenate(rows)
  cut = {path: original.cut(path, each) for path, each in parameters.items()}
  pieces = {path: x for of_one in cut.values() for path, x in of_one.items()}
  tf.reset_default_graph()
  graph = mtf.Graph()
  mesh = mtf.Mesh(graph, "mesh")

  def tokens(name):
    rows, length = batch[name].shape
    return mtf.import_tf_tensor(
      mesh,
      tf.constant(batch[name], tf.int32),
      [mtf.Dimension("batch", rows), mtf.Dimension("length", length)],
    )

  targets = tokens("decoder_target_tokens")
  model = original.model()
  logits, loss = model.call_simple(
    tokens("encoder_input_tokens"), targets, compute_loss=True, mode="eval"
  )
  variables = graph.trainable_variables
  slopes = mtf.gradients([loss], [each.outputs[0] for each in variables])
  paths = _paths(original, variables, pieces)

  mesh_impl = mtf.placement_mesh_impl.PlacementMeshImpl([], {}, [""])
  lowering = mtf.Lowering(graph, {mesh: mesh_impl})
  fetched = {
    "logits": lowering.export_to_tf_tensor(logits),
    "loss": lowering.export_to_tf_tensor(loss),
  }
  for variable, slope in zip(variables, slopes, strict=True):
    fetched[paths[variable.name]] = lowering.export_to_tf_tensor(slope)
  with tf.Session() as session:
    for variable in variables:
      master = variable.get_master()
      value = pieces[paths[variable.name]].reshape(master.shape)
      master.load(value, session)
    session.run(lowering.copy_masters_to_slices())
    found = session.run(fetched)
  found["logits"] = found["logits"][batch["decoder_target_tokens"] > 0]
  for path, of_one in cut.items():
    slopes = [found.pop(key).reshape(x.shape) for key, x in of_one.items()]
    found[f"gradient/{path}"] = (
      slopes[0]
      if len(slopes) == 1  # which may be a single number
      else np.concatenate(slopes, original.axis(path))
    )
  for first, last in original.joined.items():
    slope, number = found[f"gradient/{first}"], len(ours[first])
    found[f"gradient/{first}"] = slope[:number]
    found[f"gradient/{last}"] = slope[number:]
  return found


def _cross_entropy(model, context, logits, targets, vocabulary):
  """The sum over tokens, to which layers add losses of their own."""
  del model, context
  return mtf.reduce_sum(
    mtf.layers.softmax_cross_entropy_with_logits(
      logits, mtf.one_hot(targets, vocabulary), vocabulary
    )
    * mtf.cast(mtf.greater(targets, 0), tf.float32)
  )


def _paths(original, variables, parameters) -> dict[str, str]:
  """Returns the path of our parameter of each variable."""
  by_name = {original.name(path): path for path in parameters}
  paths = {
    each.name: by_name.pop(re.sub(r"/[A-Z]\w*(?=/)", "", each.name), None)
    for each in variables
  }
  unknown = [name for name, path in paths.items() if path is None]
  assert not unknown and not by_name, f"{unknown} are not ours: {by_name}"
  return paths


def with_mlp(*arguments) -> Original:
  """T5 with another activation."""
  return with_network(mlp(*arguments))


def with_network(network: list[Any], **settings) -> Original:
  """T5 with another feed-forward network."""
  return Original(
    (SELF_ATTENTION, network),
    (SELF_ATTENTION, CROSS_ATTENTION, network),
    **settings,
  )


TRUE_LAYER_NORM = (
  (r"/rms_norm/", "/true_layer_norm/layer_prepostprocess/layer_norm/"),
  (r"/layer_norm/(\w+)$", r"/layer_norm/layer_norm_\1"),
)
REZERO = [(r"(layer_00\d)/scale$", r"\1/rezero_weight")]
FIXUP_SELF_ATTENTION = [
  fixup_layers.SelfAttentionFixup,
  {
    **SELF_ATTENTION[1],
    "num_blocks": 10,
    "fold_scaling_into_initializer": False,
  },
]
FIXUP_MLP = [
  fixup_layers.DenseReluDenseFixup,
  {"hidden_size": D_FF, "num_blocks": 10},
]


def experts(gating: str, loss: float) -> Original:
  """T5 with experts; a row of 28 tokens is a group, with room for all."""
  settings = {"switch": {"hidden_size": D_FF}, "top_2": HALVES}[gating]
  network = [
    moe.MoE1D,
    {
      "num_experts": 3,
      "group_size": 28,
      "capacity_factor_eval": 3.0,
      "activation": "relu",
      "moe_gating": gating,
      "loss_coef": loss,
      **settings,
    },
  ]
  return with_network(
    network,
    names=[
      (r"/expert/(w[io])/", r"/\1/"),
      (r"/router/logits/", f"/{gating}_gating/"),
    ],
  )


HALVES = {"hidden_size": D_FF // 2, "second_policy_eval": "threshold"}
PRODUCT_KEYS = [
  memory_layers.ProductKeyValueMemory,
  {"key_size": 6, "n_keys": 5, "n_heads": 2, "knn": 3},
]
UNTIED = [(r"/logits_dense/", "/logits/")]
OWN_TABLES = [
  (r"shared/embedding", "encoder/embedding"),
  (r"target_embedder/", "decoder/"),
]
FACTORIZED = functools.partial(
  vocab_embeddings.FactorizedVocabEmbedding, inner_dimension_size=10
)
FACTORS = [
  (r"shared/embedding", "shared/embedding1"),
  (r"token_embedder/projection", "shared/embedding2"),
]
# The first cluster is a table, the others two factors unless they are as wide.
TABLES = [(r"token_embedder/cluster_(\d)/embedding", r"shared/embedding_\1")]
CLUSTERS = [
  (r"token_embedder/cluster_(0)/embedding", r"shared/embedding_\1"),
  (r"token_embedder/cluster_(\d)/embedding", r"shared/embedding_\g<1>1"),
  (r"token_embedder/cluster_(\d)/projection", r"shared/embedding_\g<1>2"),
]


def clusters(kind: Callable, *of_each: tuple[int, int]) -> Callable:
  """A class of embeddings with clusters of tokens and widths of tables."""
  return functools.partial(
    kind,
    clusters=[
      {"token_count": count, "embedding_size": width}
      for count, width in of_each
    ],
  )


SYNTHESIZERS = {
  # Our name: theirs, and the names of the parameters of the scores.
  "dense": ("dense_minus", [(r"/scores/kernel$", "/pi/kernel")]),
  "dense_plus": ("dense_plus", [(r"/scores/kernel$", "/pi/kernel")]),
  "dense_plus_alpha": (
    "dense_plus_alpha",
    [(r"/scores/kernel$", "/pi/kernel")],
  ),
  "factorized": (
    "factorized",
    [(r"/scores/first$", "/R1"), (r"/scores/second$", "/R2")],
  ),
  "random": ("random", [(r"/scores/table$", "/R")]),
  "random_plus": ("random_plus", [(r"/scores/table$", "/R")]),
  "random_plus_alpha": ("random_plus_alpha", [(r"/scores/table$", "/R")]),
}


def synthesizer(name: str) -> Original:
  """T5 with a Synthesizer in the place of attention to itself."""
  mode, names = SYNTHESIZERS[name]
  if "plus" not in mode:
    # Keys and values are one there, and keys are not read.
    names = [*names, (r"/layer_000/v$", "/layer_000/kv")]
  attention = [
    layers.Synthesizer,
    {**SELF_ATTENTION[1], "synthesize_mode": mode},
  ]
  return Original(
    (attention, mlp()), (attention, CROSS_ATTENTION, mlp()), names=names
  )


def reading_first(layer: type) -> type:
  """A convolution that reads the first token of a decoder too.

  Its id is 0, for which the original takes the vector for padding.
  """

  def call(self, context, x, losses=None):
    given = context.inputs
    if context.model.name == "decoder":
      context.inputs = given + 1
    y = layer.call(self, context, x, losses)
    context.inputs = given
    return y

  return type(layer.__name__, (layer,), {"call": call})


SEPARABLE = "separable_conv1d/depthwise_conv_hack/depthwise_dense_"


def local_convolution(kind: str, **settings) -> Original:
  """T5 with convolutions of nine tokens, without positions."""

  def block(first, last):
    reach = {"min_relative_pos": first, "max_relative_pos": last}
    return [
      reading_first(layers.LocalConvAttnBlock),
      {**reach, "output_size": D_MODEL, "attention_type": kind},
    ]

  return Original(
    (block(-4, 4), mlp()), (block(-8, 0), CROSS_ATTENTION, mlp()), **settings
  )


LOCAL_NAMES = [
  (r"/glu/v$", "/local_conv_inp_0/kernel"),
  (r"/glu/value/", "/local_conv_inp_0/"),
  (r"/glu/gate/", "/local_conv_inp_1/"),
  (r"/layer_000/o$", "/layer_000/local_conv_attn_op_projection/kernel"),
  (r"/out/bias$", "/local_conv_attn_op_projection/bias"),
  (r"/pointwise/", "/separable_conv1d/pointwise_dense/"),
  (r"/layer_000/bias$", f"/layer_000/{SEPARABLE}0/bias"),
]


class Branched(layers.BranchedSelfAttention):
  """With a network of our width."""

  def __init__(self, **settings):
    super().__init__(**settings)
    self.dense_layer = layers.DenseReluDense(hidden_size=D_FF)


class BranchedCross(layers.BranchedEncDecAttention):
  """With a network of our width."""

  def __init__(self, **settings):
    super().__init__(**settings)
    self.dense_layer = layers.DenseReluDense(hidden_size=D_FF)


class EvolvedAttention(evolved_transformer.DecoderAttentionLayer):
  """With heads of our size."""

  def __init__(self):
    super().__init__(HEADS)
    for attention in (self._self_attention, self._enc_dec_attention):
      attention.key_value_size = D_KV


TALKING = {
  "key_heads_dims": [("key_heads", HEADS)],
  "softmax_heads_dims": [("heads", HEADS)],
  "value_heads_dims": [("value_heads", HEADS)],
  "key_size": D_KV,
  "value_size": D_KV,
}
TALKING_SELF = [
  layers.TalkingHeadsSelfAttention,
  {**TALKING, "relative_attention_type": "bias_shared"},
]
TRANSPARENT = [
  layers.TransparentEncDecAttention,
  {
    **ATTENTION,
    "layers_per_encoder_module": 2,
    "layers_per_decoder_module": 3,
    "encoder_num_modules": NUM_LAYERS,
    "decoder_num_modules": NUM_LAYERS,
  },
]
FUNNEL = functools.partial(
  funnel_transformer.FunnelTransformerLayerStack,
  n_blocks=3,
  block_param_size=[1, 1, 1],
  block_repeat_size=[1, 1, 1],
)
UNIVERSAL = functools.partial(
  universal_transformer.UTLayerStack,
  act_type="basic",
  recurrence_type="act",
  act_max_steps=3,
  act_epsilon=0.5,
  num_rec_steps=0,
  num_inrecurrence_layers=1,
  position_start_index=None,
  add_or_concat_timing_signal="add",
  step_timing_signal_type="learned",
  add_position_timing_signal=False,
  add_step_timing_signal=True,
  mix_with_transformer_before_ut=False,
  mix_with_transformer_after_ut=False,
  gates_inputs=None,
  gate_ffn_layer=None,
  use_gated_transformer=False,
  gating_type=None,
)
EVOLVED = {"d_model": D_MODEL, "dropout_rate": 0.0}
WITHOUT_BIAS = [layers.SelfAttention, ATTENTION]
ORIGINALS = {
  "vanilla": Original(),
  "elu": with_mlp("elu"),
  "selu": with_mlp("selu"),
  "sigmoid": with_mlp("sigmoid"),
  "softplus": with_mlp("softplus"),
  "layer_norm": Original(
    sublayer=(
      transformer.sublayer_true_layer_norm,
      transformer.sublayer_call_layer,
      transformer.sublayer_residual,
    ),
    final=(transformer.sublayer_true_layer_norm,),
    names=TRUE_LAYER_NORM,
  ),
  "rezero": Original(
    sublayer=(
      transformer.sublayer_call_layer,
      transformer.sublayer_rezero,
      transformer.sublayer_residual,
    ),
    final=(),
    names=REZERO,
  ),
  "rezero_pre_norm": Original(
    sublayer=(
      transformer.sublayer_rms_norm,
      transformer.sublayer_call_layer,
      transformer.sublayer_rezero,
      transformer.sublayer_residual,
    ),
    names=REZERO,
  ),
  "fixup": Original(
    sublayer=(
      fixup_layers.sublayer_fixup_shift,
      transformer.sublayer_call_layer,
      fixup_layers.sublayer_fixup_scale,
      transformer.sublayer_residual,
    ),
    final=(),
    encoder=(FIXUP_SELF_ATTENTION, FIXUP_MLP),
    decoder=(FIXUP_SELF_ATTENTION, CROSS_ATTENTION, FIXUP_MLP),
    names=[
      (r"(layer_00\d)/scale$", r"\1/fixup_scale_weight"),
      (r"(layer_00\d)/shift$", r"\1/fixup_bias"),
      (r"/wo/input/shift", "/shift"),
      (r"/layer_000/([qkvo])$", r"/layer_000/\1_fixup"),
    ],
  ),
  "switch": experts("switch", 0.0),
  "switch_balanced": experts("switch", 10.0),
  "mixture_of_experts": experts("top_2", 0.0),
  "mixture_of_experts_balanced": experts("top_2", 10.0),
  # The decoder alone has it here.
  "product_keys": Original(
    decoder=(SELF_ATTENTION, CROSS_ATTENTION, PRODUCT_KEYS),
    names=[
      (r"/layer_002/q$", "/layer_002/query/kernel"),
      (r"/query_norm/", "/layer_prepostprocess/layer_norm/layer_norm_"),
    ],
  ),
  "untied_softmax": Original(ties_softmax=False, names=UNTIED),
  "own_tables": Original(shares_embedding=False, names=OWN_TABLES),
  "untied": Original(
    shares_embedding=False, ties_softmax=False, names=OWN_TABLES + UNTIED
  ),
  "factorized": Original(embedding=FACTORIZED, names=FACTORS),
  "factorized_untied": Original(
    embedding=FACTORIZED, ties_softmax=False, names=FACTORS + UNTIED
  ),
  "adaptive_inputs": Original(
    embedding=clusters(
      vocab_embeddings.AdaptiveVocabEmbedding, (8, D_MODEL), (16, 8), (24, 4)
    ),
    names=CLUSTERS,
  ),
  "adaptive_softmax": Original(
    embedding=clusters(
      adaptive_softmax.AdaptiveSoftmaxVocabEmbedding,
      *((8, D_MODEL), (16, 8), (20, 4), (4, 4)),
    ),
    names=CLUSTERS,
    joined={"token_embedder/cluster_0/embedding": "decoder/clusters"},
  ),
  "adaptive_softmax_without_projection": Original(
    embedding=clusters(
      adaptive_softmax.AdaptiveSoftmaxVocabEmbedding,
      *((size, D_MODEL) for size in (8, 16, 20, 4)),
    ),
    names=TABLES,
    joined={"token_embedder/cluster_0/embedding": "decoder/clusters"},
  ),
  "mixture": Original(
    embedding=functools.partial(
      vocab_embeddings.MixtureOfSoftmaxes, num_softmaxes=3
    ),
    names=[
      (r"shared/embedding", "shared/embedding_embedding_weights"),
      (r"decoder/mixture", "shared/embedding_mixture_weights"),
      (r"decoder/contexts", "shared/embedding_context_weights"),
    ],
  ),
  **{f"synthesizer_{name}": synthesizer(name) for name in SYNTHESIZERS},
  "talking_heads": Original(
    (TALKING_SELF, mlp()),
    (
      TALKING_SELF,
      [layers.TalkingHeadsEncDecAttention, TALKING],
      mlp(),
    ),
    names=[
      (r"/context/scores_kernel$", "/logits/kernel"),
      (r"/context/weights_kernel$", "/weights/kernel"),
      (r"/(layer_00\d)/([qkv])$", r"/\1/\2/kernel"),
      (r"/(layer_00\d)/o$", r"/\1/y/kernel"),
    ],
  ),
  "transparent_attention": Original(
    decoder=(SELF_ATTENTION, TRANSPARENT, mlp()),
    names=[(r"^encoder/mix/weights", "decoder/block_000/layer_001/w")],
  ),
  "funnel": Original(
    stacks={"encoder": FUNNEL},
    encoder_layers=3,
    whole=funnel_transformer.BitransformerFunnel,
    names=[
      (
        r"^encoder/block_00(\d)/layer_",
        r"encoder/funnel_block_00\1/param_idx_000/submodule_",
      )
    ],
  ),
  "universal": Original(
    sublayer=(),
    stacks={"encoder": UNIVERSAL, "decoder": UNIVERSAL},
    names=[
      (r"/rms_norm/", "/layer_prepostprocess/layer_norm/layer_norm_"),
      (r"/step_embedding", "/layer_embedding"),
      (r"/halting/kernel", "/sigmoid_activation_for_pondering/dense/kernel"),
      (r"/halting/bias", "/sigmoid_activation_for_pondering/dense_1/bias"),
    ],
  ),
  "lightweight_convolution": local_convolution(
    "lightweight_conv",
    names=[
      *LOCAL_NAMES,
      (
        r"/layer_000/kernel/(\d)$",
        r"/layer_000/lightwt_depthwise_dense_\1/kernel",
      ),
    ],
    pieces={r"attention/kernel$": (0, 9)},
  ),
  "dynamic_convolution": local_convolution(
    "dynamic_conv",
    names=[
      *LOCAL_NAMES,
      (
        r"/weights/(kernel|bias)/(\d)$",
        r"/dyn_conv_depthwise_dense_\2/\1",
      ),
    ],
    pieces={r"/weights/(kernel|bias)$": (-1, 9)},
  ),
  "weighted": Original(
    ([Branched, SELF_ATTENTION[1]],),
    ([Branched, SELF_ATTENTION[1]], [BranchedCross, ATTENTION]),
    names=[
      (r"/branches$", "/o"),
      (r"/(layer_00\d)/layer_00\d/w", r"/\1/w"),
    ],
  ),
  "evolved": Original(
    (
      evolved_transformer.GatedLinearUnitLayer,
      [evolved_transformer.EncoderConvolutionalLayer, EVOLVED],
      WITHOUT_BIAS,
      mlp(),
    ),
    (
      EvolvedAttention,
      [reading_first(evolved_transformer.DecoderConvolutionalLayer), EVOLVED],
      WITHOUT_BIAS,
      CROSS_ATTENTION,
      mlp(),
    ),
    names=[
      (r"^(encoder/\w+)/layer_001/", r"\1/layer_003/"),
      (r"^(encoder/\w+)/layer_000/", r"\1/layer_002/"),
      (r"^(encoder/\w+)/glu/", r"\1/layer_000/"),
      (r"^(encoder.*/layer_000)/v$", r"\1/glu_0/kernel"),
      (r"/layer_000/value/", "/layer_000/glu_0/"),
      (r"/layer_000/gate/", "/layer_000/glu_1/"),
      (r"^(decoder/\w+)/layer_002/", r"\1/layer_004/"),
      (r"^(decoder/\w+)/layer_001/", r"\1/layer_003/"),
      (r"^(decoder/\w+)/layer_000/", r"\1/layer_002/"),
      (r"/wide_attention/rms_norm", "/layer_000/rms_norm"),
      (r"/wide_attention/", "/layer_000/self_attention/"),
      (r"/wide_encoder_decoder_attention/", "/layer_000/enc_dec_attention/"),
      (r"/convolution/", "/layer_001/"),
      (r"^(encoder.*)/wide/", r"\1/conv1x1/dense/"),
      (r"^(encoder.*)/narrow/", r"\1/conv3x1/conv2d/"),
      (r"/separable/", "/sep_conv9x1/"),
      (r"^(decoder.*)/wide/", r"\1/sep_conv11x1/"),
      (r"^(decoder.*)/narrow/", r"\1/sep_conv7x1_1/"),
      (r"/last/", "/sep_conv7x1_2/"),
      (r"/(sep_\w+)/kernel/(\d+)$", rf"/\1/{SEPARABLE}\2/kernel"),
      (r"/(sep_\w+)/bias$", rf"/\1/{SEPARABLE}0/bias"),
      (r"/pointwise/", "/separable_conv1d/pointwise_dense/"),
      (
        r"/layer_001/norm/",
        "/layer_001/layer_prepostprocess/layer_norm/layer_norm_",
      ),
    ],
    pieces={
      r"/separable/kernel$": (0, 9),
      r"decoder.*/wide/kernel$": (0, 11),
      r"(decoder.*/narrow|/last)/kernel$": (0, 7),
    },
  ),
}
