"""Any shipped architecture with any shipped parts, tiny, and batches for it."""

import dataclasses
import functools
import math
import pathlib
import re
import zlib

from flax import linen as nn
from flax import traverse_util
import jax
import numpy as np
import scipy.special

import transformer_zoo
from transformer_zoo import config
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.interop.huggingface import family_of
from transformer_zoo.interop.huggingface import writing
from transformer_zoo.modules.stack import Stack
from transformer_zoo.modules.stacks.other_layers import StackWithOtherLayers
from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.training import state

GIN = pathlib.Path(transformer_zoo.__file__).parent.parent / "gin_configs"
_FILES = {
  path.stem: path.read_text()
  for path in sorted((GIN / "architectures").glob("*.gin"))
}


def _is_encoder(name: str) -> bool:
  """Whether an architecture is BERT, or a variant of an encoder."""
  included = re.findall(
    r"^include 'architectures/(.+)\.gin'", _FILES[name], re.M
  )
  return name == "bert" or any(map(_is_encoder, included))


ENCODERS = tuple(name for name in _FILES if _is_encoder(name))
# Whose first layer differs from the others.
UNSCANNED = tuple(
  name for name, text in _FILES.items() if ".first_layer = " in text
)
# Those that write.
ARCHITECTURES = [name for name in _FILES if name not in ENCODERS]
_ALL_PARTS = sorted(
  str(path.relative_to(GIN / "parts"))
  for path in (GIN / "parts").glob("*/*.gin")
)
# Those of encoders alone.
SHARING = [part for part in _ALL_PARTS if part.startswith("sharing/")]
# Those of encoder-decoders with an encoder of its own alone.
STACKS = [part for part in _ALL_PARTS if part.startswith("stacks/")]
# Other layers, which bind positions too.
LAYERS = [part for part in _ALL_PARTS if part.startswith("layers/")]
# Those of encoder-decoders.
EMBEDDINGS = [part for part in _ALL_PARTS if part.startswith("embeddings/")]
# Whose attention sees both sides.
OF_ENCODERS = ("attention/transient_global.gin",)
PARTS = [
  part
  for part in _ALL_PARTS
  if part not in (*SHARING, *STACKS, *LAYERS, *EMBEDDINGS, *OF_ENCODERS)
]
# Whose layers hand on more than one stream.
SEVERAL_STREAMS = (
  "attention/value_residual.gin",
  "connections/hyper_connections.gin",
  "connections/hyper_connections_static.gin",
)
# Those that are not scanned and whose rows hold one text each.
UNPACKED = ("stacks/funnel.gin",)
UNIVERSAL = "stacks/universal.gin"
# Those whose gin files read no number of encoder layers.
WITHOUT_ENCODER_LAYERS = (
  "bloom", "gemma2", "gemma3", "gpt_1", "gpt_2", "gpt_3", "gpt_j", "llama",
  "lm", "modernbert_decoder", "olmo2", "prefix_lm", "qwen3", "shared",
)  # fmt: skip
# As far as texts are long here, of whose rows it is less than a third.
NEAR = {"LOCAL_RADIUS": 8}
WITH_RADIUS = ("attention/local.gin", *OF_ENCODERS)
# Whose padding is another id than that of the batches here.
OWN_PADDING = ("bart", "mbart")
# Layers without attention and feed-forward networks.
LSTM, OF_LSTMS = "lstm.gin", "elmo"
# In the place of attention to oneself, which is all of it in one stack.
CONVOLUTIONS = {
  "layers/dynamic_convolution.gin",
  "layers/lightweight_convolution.gin",
}
# In all layers, with room for all tokens, of few experts.
EXPERTS = {
  "EXPERTS_EVERY": 1,
  "NUM_EXPERTS": 3,
  "EVALUATION_CAPACITY_FACTOR": 3.0,
}
WITH_EXPERTS = (
  "feed_forward/mixture_of_experts.gin",
  "feed_forward/switch.gin",
)
MEMORY = {
  "MEMORY_LAYERS": (-1,),
  "MEMORY_KEYS": 5,
  "MEMORY_KEY_DIM": 6,
  "MEMORY_HEADS": 2,
  "MEMORY_READ": 3,
}
WITH_MEMORY = "feed_forward/product_keys.gin"
# Sizes of clusters of tokens, whose sum is the vocabulary.
CLUSTERS = {
  "embeddings/adaptive.gin": (8, 16, 24),
  "softmax/adaptive.gin": (8, 16, 20, 4),
  "softmax/adaptive_without_projection.gin": (8, 16, 20, 4),
}
TINY = {
  "EMBED_DIM": 24,
  "MLP_DIM": 36,
  "NUM_HEADS": 4,
  "HEAD_DIM": 8,
  "NUM_ENCODER_LAYERS": 2,
  "NUM_DECODER_LAYERS": 2,
  "VOCAB_SIZE": 48,
}


@functools.cache
def build(
  architecture: str, *parts: str, bindings: tuple[str, ...] = (), **macros
):
  """Returns (model, converter) of the gin files of these names."""
  settings = {**TINY, **macros}
  if architecture in WITHOUT_ENCODER_LAYERS:
    settings.pop("NUM_ENCODER_LAYERS")
  if architecture in ENCODERS:
    settings.pop("NUM_DECODER_LAYERS")
  if architecture in OWN_PADDING:
    settings["PAD_ID"] = 0
  recurrent = LSTM in parts or architecture == OF_LSTMS
  if recurrent:
    settings.pop("MLP_DIM")
  one_stack = architecture in {*ENCODERS, *WITHOUT_ENCODER_LAYERS} - {"shared"}
  if recurrent or (one_stack and CONVOLUTIONS & set(parts)):
    settings.pop("NUM_HEADS")
    settings.pop("HEAD_DIM")
  if set(WITH_EXPERTS) & set(parts):
    settings = {**EXPERTS, **settings}
  if set(WITH_RADIUS) & set(parts):
    settings = {**NEAR, **settings}
  if set(OF_ENCODERS) & set(parts):
    settings = {"GLOBAL_BLOCK": 3, **settings}
  if WITH_MEMORY in parts:
    settings = {**MEMORY, **settings}
  if UNIVERSAL in parts:
    settings = {"MAX_STEPS": 3, **settings}
  for part in set(CLUSTERS) & set(parts):
    settings["EMBEDDING_CLUSTERS"] = CLUSTERS[part]
  files = [f"architectures/{architecture}.gin"]
  files += [f"parts/{part}" for part in parts]
  sizes = [f"{name}={value!r}" for name, value in settings.items()]
  config.load(files, [*sizes, *bindings], root="MODEL")
  return config.value("MODEL"), config.value("CONVERTER")


def shallow(module: nn.Module, layers: int = 1) -> nn.Module:
  """Returns a module whose stacks have so many sets of layers, looped.

  With another first layer it is one more; with other layers elsewhere it is the
  whole stack. A trace of it takes a fraction of that of the whole, even of
  scanned layers, which are traced twice.
  """
  if isinstance(module, StackWithOtherLayers) and module.places != (0,):
    return module
  if isinstance(module, Stack):
    number = layers + isinstance(module, StackWithOtherLayers)
    number = min(number, module.num_layers)
    groups = module.num_groups and min(module.num_groups, layers)
    return module.clone(num_layers=number, num_groups=groups, scan=False)
  changes = {name: shallow(value, layers) for name, value in _parts(module)}
  return module.clone(**changes) if changes else module


def scanned(module: nn.Module) -> nn.Module:
  """Returns a module whose stacks are scanned; itself where a layer differs."""

  def stacks(module):
    if isinstance(module, Stack):
      yield module
    for _, value in _parts(module):
      yield from stacks(value)

  def changed(module):
    if isinstance(module, Stack):
      return module.clone(scan=True)
    changes = {name: changed(value) for name, value in _parts(module)}
    return module.clone(**changes) if changes else module

  differ = any(
    isinstance(each, StackWithOtherLayers) for each in stacks(module)
  )
  return module if differ else changed(module)


def _parts(module: nn.Module):
  for field in dataclasses.fields(module):
    value = getattr(module, field.name)
    if isinstance(value, nn.Module) and field.name != "parent":
      yield field.name, value


def parameter_sizes(model: nn.Module) -> dict[str, int]:
  """Returns path -> numbers of a parameter, the last layer's of all like it.

  From a trace of one layer of each stack, two if the first differs: of stacks
  of layers that are equal otherwise.
  """
  few = shallow(model)
  traced, repeated = layers_of_stacks(few), layers_of_stacks(model)
  flat = traverse_util.flatten_dict(
    nn.unbox(state.abstract_variables(few)), sep="/"
  )
  sizes = {path: math.prod(leaf.shape) for path, leaf in flat.items()}
  for stack, number in traced.items():
    last = f"{stack}/layers_{number - 1}/"
    for path in sizes:
      if path.startswith(last):
        sizes[path] *= repeated[stack] - number + 1
  return sizes


def layers_of_stacks(model: nn.Module) -> dict[str, int]:
  """Returns path of each stack's parameters -> how many layers have own ones.

  "decoder" -> 6, whose parameters lie under decoder/layers_0 to layers_5.
  """
  return dict(_repeated(model))


def _repeated(module: nn.Module, path: tuple[str, ...] = ()):
  if isinstance(module, Stack):
    yield "/".join(path), module.num_groups or module.num_layers
    return
  for name, value in _parts(module):
    # Names in modules whose parts stand for themselves in the tree.
    own = (
      () if name in ("discriminator", "layer_stack", "transformer") else (name,)
    )
    yield from _repeated(value, (*path, *own))


def random_parameters(model: nn.Module) -> dict:
  """Float32 weights, a function of their path, without axis metadata."""
  flat = traverse_util.flatten_dict(
    jax.device_get(nn.unbox(state.abstract_params(model))), sep="/"
  )
  drawn = {}
  for path, leaf in flat.items():
    random = np.random.RandomState(zlib.crc32(path.encode()))
    normal = random.standard_normal(leaf.shape).astype(np.float32)
    if path.endswith("scale"):
      normal = 1 + 0.2 * normal
    elif path.endswith("kernel"):
      normal *= leaf.shape[-2] ** -0.5
    drawn[path] = normal
  return traverse_util.unflatten_dict(drawn, sep="/")


def write_gpt_2(folder: pathlib.Path, **macros) -> dict[str, np.ndarray]:
  """Writes a random GPT-2 as a Hugging Face directory; its parameters."""
  model, _ = build("gpt_2", HEAD_DIM=6, MLP_DIM=96, **macros)
  parameters = traverse_util.flatten_dict(random_parameters(model), sep="/")
  family = family_of({"model_type": "gpt2"})
  folder.mkdir()
  writing.write_directory(
    folder,
    family,
    family.config(model),
    {name: Tensor.of(array) for name, array in parameters.items()},
  )
  return parameters


def random_examples(number: int = 4, longest: int = 9) -> dict[str, Ragged]:
  """Inputs and targets of random lengths that end in EOS."""
  random = np.random.RandomState(0)

  def side():
    return Ragged.of(
      [
        np.append(random.randint(3, 48, random.randint(2, longest)), 1)
        for _ in range(number)
      ]
    )

  return {"inputs": side(), "targets": side()}


def lay_out(converter, examples, *, packing: bool, width: int | None = None):
  """A batch: a row for each example, or all of them in one row."""
  examples = {name: examples[name] for name in converter.features}
  number = len(next(iter(examples.values())).lengths)
  width = width or (40 if packing else 12)
  return converter(
    examples,
    np.zeros(number, int) if packing else np.arange(number),
    num_rows=1 if packing else number,
    lengths={"inputs": width, "targets": width},
    packing=packing,
    pad_id=0,
  )


@functools.cache  # A test that asks many times compiles once.
def forward(model: nn.Module):
  """Returns a compiled (params, batch) -> teacher-forced logits [B, L, V]."""
  return jax.jit(
    lambda params, batch: model.apply(
      {"params": params}, batch, method="all_logits"
    )["tokens"]
  )


def stack_layers(params: dict) -> dict:
  """A looped model's parameters, for the scanned model that equals it."""
  stacked = {}
  for name, subtree in params.items():
    names = [key for key in subtree if key.startswith("layers_")]
    if names:
      layers = [subtree[f"layers_{i}"] for i in range(len(names))]
      subtree = {k: v for k, v in subtree.items() if k not in names}
      subtree["layers"] = jax.tree.map(lambda *xs: np.stack(xs), *layers)
    stacked[name] = subtree
  return stacked


def loss_sum(logits: np.ndarray, batch) -> float:
  """The negative log-likelihood of all targets of a batch."""
  likelihoods = scipy.special.log_softmax(np.asarray(logits, np.float64), -1)
  targets = batch["decoder_target_tokens"][..., None]
  chosen = np.take_along_axis(likelihoods, targets, axis=-1)[..., 0]
  return -float(np.sum(chosen * batch["decoder_loss_weights"]))
