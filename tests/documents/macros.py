"""The macros of the shipped gin files: what they mean, where they stand.

A macro means what the docstring says of the parameter that reads it. MEANINGS
has those for which that does not suffice.
"""

import collections
from collections.abc import Iterator, Sequence
import dataclasses
import functools
import inspect
import pathlib
import re
from typing import Any

from transformer_zoo.config import registry
from transformer_zoo.errors import UserError
from transformer_zoo.runs import settings

GIN = pathlib.Path(__file__).parents[2] / "gin_configs"
# Whose macros name rows of tables, or are those of T5X's own programs.
_APART = "studies", "suites", "t5x"
_NAME = r"[A-Z][A-Z0-9_]+"
_BINDING = re.compile(r"^(?!#)([^\s=#]+)[ ]*=(.*(?:\n(?=[ \t)\]}]).*)*)", re.M)
_OF_ALL = "train.gin"  # Bound there: the default of all training runs.
_LONGEST_VALUE = 30

MEANINGS = {
  "ADAPTER_DIM": "The width of the hidden layer of adapters.",
  "ADAPTER_SCALE": "The factor of what parallel adapters give.",
  "ANSWERS": (
    "The target texts of T-Few's task, or a list of them for each template."
  ),
  "ANSWERS_VOCABULARY": (
    "The path of the vocabulary of `ANSWERS`, which has to be given."
  ),
  "AUXILIARY_WEIGHT": (
    "The weight of the language model's loss beside that of a head "
    "([GPT](../guides/encoders.md#gpt))."
  ),
  "BASE_BITS": (
    "The bits in which a frozen base keeps its kernels "
    "([fewer bits](../guides/peft.md#a-base-in-fewer-bits))."
  ),
  "BASE_DEPTH": "The number of layers at which the rate was tuned.",
  "CLIP_NORM": (
    "The norm that all gradients together are clipped to; None for no clipping."
  ),
  "CLUSTER_DIMS": (
    "The widths of the tables of the clusters of adaptive embeddings; None is"
    " `EMBED_DIM`, without a projection."
  ),
  "CONNECT": (
    "How sublayers meet the residual stream "
    "([variants](../guides/variants.md))."
  ),
  "CONVERTER": "The layout of a batch: the features that the model reads.",
  "CORPUS": "The corpus.",
  "CORPUS_EXAMPLES": "The number of examples that the corpus counts as.",
  "CORRUPTION": (
    "An objective that replaces the task's ([objectives](objectives.md)); "
    "None for the task's own."
  ),
  "DROPOUT_RATE": "The dropout rate.",
  "DTYPE": (
    "The dtype of activations; 'auto' is bfloat16 on TPU and GPU, float32 on "
    "CPU."
  ),
  "EMBEDDING_CLUSTERS": (
    "The numbers of tokens of the clusters of adaptive embeddings; their sum "
    "is `VOCAB_SIZE`."
  ),
  "EMBEDDING_DIM": (
    "The width of embeddings that are projected to `EMBED_DIM`, of ALBERT and"
    " ELECTRA."
  ),
  "EMBED_DIM": "The width of the layers.",
  "ENCODER_LENGTH": (
    "The length of an encoder's rows, from which `runs/encoder_lengths.gin` "
    "derives `TASK_FEATURE_LENGTHS`."
  ),
  "EPOCHS": (
    "The epochs of a recipe of encoders, from which `TRAIN_STEPS` follow "
    "([encoders](../guides/encoders.md)); may be a fraction."
  ),
  "EVALUATION_CAPACITY_FACTOR": "`CAPACITY_FACTOR` where nothing is trained.",
  "EXPERTS_EVERY": (
    "The distance between layers with experts: the last of each so many has "
    "them."
  ),
  "FACTORIZED_DIM": "The width of the table of `parts/softmax/factorized.gin`.",
  "FEATURE_LAYERS": (
    "The layers of a frozen encoder that a head reads: 0 is what enters the "
    "first layer, -1 the last layer's output "
    "([encoders](../guides/encoders.md))."
  ),
  "FEATURE_MIX": (
    "The mix of `FEATURE_LAYERS`: 'sum', 'mean', 'concatenation' or 'learned'."
  ),
  "FIXUP_SUBLAYERS": (
    "The number of sublayers of the whole model, by which Fixup scales "
    "matrices."
  ),
  "GENERATOR_DEPTH_SHARE": (
    "The depth of a generator, as a share of the discriminator's."
  ),
  "GENERATOR_EMBED_DIM": "The width of a generator's layers.",
  "GENERATOR_HEAD_DIM": "The width of a generator's heads.",
  "GENERATOR_MLP_DIM": "The width of a generator's feed-forward networks.",
  "GENERATOR_NUM_HEADS": "The number of a generator's heads.",
  "GENERATOR_SHARE": (
    "The width of a generator, as a share of the discriminator's."
  ),
  "GLOBAL_BLOCK": (
    "The number of tokens of a block whose sum all tokens of a text see."
  ),
  "HEAD_DIM": "The width of a head of attention.",
  "IA3_INPUTS": (
    "A regular expression that matches the whole names of the projections "
    "whose inputs IA3 scales."
  ),
  "IA3_OUTPUTS": (
    "A regular expression that matches the whole names of the projections "
    "whose outputs IA3 scales."
  ),
  "INPUTS_LENGTH": (
    "The number of tokens of the inputs, EOS included, from which "
    "`runs/fitting_lengths.gin` derives the others."
  ),
  "INPUT_PROJECTION": (
    "The projection from the width of the embeddings to that of the layers; "
    "None if they are equal."
  ),
  "LAYER_DECAY": (
    "The factor of the rate from a layer to the one below it, above 0 and at "
    "most 1."
  ),
  "LOCAL_RADIUS": "The number of tokens that each token sees on either side.",
  "LORA_ALPHA": "The numerator of the scale of LoRA.",
  "LORA_DROPOUT": "The dropout rate of what LoRA reads.",
  "LORA_PROJECTIONS": (
    "A regular expression that matches the whole names of the projections "
    "that LoRA updates."
  ),
  "LORA_RANK": "The rank of the update of LoRA.",
  "LSTM_DIM": (
    "The width of each direction of the BiLSTM over a frozen encoder."
  ),
  "LSTM_LAYERS": "The number of layers of the BiLSTM over a frozen encoder.",
  "LSTM_UNITS": "The width of the layers of `parts/lstm.gin`.",
  "MAX_POSITIONS": "The longest text of learned positions, in tokens.",
  "MAX_STEPS": "The largest number of steps of a Universal Transformer.",
  "MEMORY_HEADS": "The number of heads of a product-key memory.",
  "MEMORY_KEYS": (
    "The number of half keys in a table of a product-key memory; values are "
    "its square."
  ),
  "MEMORY_KEY_DIM": "The width of a key of a product-key memory, both halves.",
  "MEMORY_LAYERS": "The numbers of the layers with a memory; -1 is the last.",
  "MEMORY_READ": (
    "The number of values of a product-key memory that a head reads for each "
    "token."
  ),
  "METHODS": (
    "The fine-tuning methods of a run, `[@lora(), @norms()]` "
    "([fine-tuning](../guides/peft.md))."
  ),
  "MIXING_LIMIT": "The limit of a task's examples in mixing; None for none.",
  "MIXING_TEMPERATURE": (
    "The temperature of mixing; the larger, the nearer to equal rates."
  ),
  "MLP": "The feed-forward network ([variants](../guides/variants.md)).",
  "MLP_DIM": "The width of the feed-forward networks.",
  "MLP_MATRICES": (
    "The number of matrices of the network of a file of `parts/feed_forward/`."
  ),
  "MLP_MULTIPLE_OF": (
    "The number that the width of a file of `parts/feed_forward/` is a "
    "multiple of."
  ),
  "MODEL": "The architecture.",
  "MODEL_DIR": "The run folder, or a URL such as `gs://bucket/run`.",
  "NORM": "The normalization ([variants](../guides/variants.md)).",
  "NUM_CLASSES": "The classes or tags of a head; `zoo train` takes the task's.",
  "NUM_DECODER_LAYERS": "The number of the decoder's layers.",
  "NUM_ENCODER_LAYERS": "The number of the encoder's layers.",
  "NUM_HEADS": "The number of heads of attention.",
  "NUM_KV_HEADS": (
    "The number of heads of keys and values, a divisor of `NUM_HEADS`."
  ),
  "NUM_PARTITIONS": (
    "The devices along the `model` axis, over which each copy of the model is"
    " split ([partitioning](partitioning.md)); -1 for all that the others "
    "leave in a slice."
  ),
  "NUM_SOFTMAXES": "The number of softmaxes.",
  "ON_SPIKE": (
    "The reaction to a spike of the loss or gradient: 'note', 'skip', 'stop' "
    "or 'ignore' ([watching](../guides/watching.md))."
  ),
  "OPTIMIZER_STATE_DTYPE": "The dtype of the moments.",
  "PAD_ID": "The id of padding in the vocabulary.",
  "PONDER_WEIGHT": (
    "The weight of the steps of a Universal Transformer in the loss."
  ),
  "PREFIX_ATTENTIONS": (
    "A regular expression that matches the whole names of the attentions that"
    " have a prefix."
  ),
  "PREFIX_HIDDEN": "The width of the network that makes a prefix.",
  "PREFIX_LENGTH": "The number of keys and values of a prefix.",
  "PROJECTION_INIT": "The distribution of the kernels of projections.",
  "PROMPT_LABELS": "The texts of the classes that a prompt begins at.",
  "PROMPT_LENGTH": "The number of vectors of a prompt.",
  "PROMPT_SEED": "The seed of the tokens that a prompt begins at.",
  "PROMPT_VOCABULARY": "The path of the vocabulary of `PROMPT_LABELS`.",
  "RANDOM_SEED": "The seed of parameters, data order and dropout.",
  "RATE_FACTORS": (
    "Factors of the learning rate, 0 or more, by regular expressions of "
    "names; the first that matches counts."
  ),
  "REMAT": "What the backward pass computes again: 'none', 'minimal', 'full'.",
  "SCAN_LAYERS": "Whether one compiled layer is scanned over all.",
  "SHORT_LENGTHS": "The lengths of the first steps (`runs/bert_pretrain.gin`).",
  "SHORT_SHARE": "The share of the steps that have `SHORT_LENGTHS`.",
  "SPAN_BOUNDARY_LONGEST": (
    "The tokens of a span that SpanBERT's span boundary objective predicts, "
    "from the first one on."
  ),
  "SPAN_BOUNDARY_WEIGHT": "The weight of SpanBERT's span boundary objective.",
  "TASK_FEATURE_LENGTHS": (
    "The number of tokens of each feature, `{'inputs': 512, 'targets': 114}`."
  ),
  "TAUGHT_OBJECTIVE": (
    "The objective of a student alone "
    "([distillation](../guides/distillation.md))."
  ),
  "TEACHER": "The model of a student's teacher.",
  "TOKEN_EMBEDDER": "The embeddings ([variants](../guides/variants.md)).",
  "TRANSFERRED_LAYERS": (
    "The number of layers of a language model that GPT's heads read "
    "([GPT](../guides/encoders.md#gpt))."
  ),
  "VOCAB_SIZE": (
    "The rows of the embedding, at least the vocabulary's size; T5 pads "
    "32,100 to 32,128 so that the table divides over a mesh."
  ),
  "WARMUP_SHARE": "The share of the steps of a recipe that warms up.",
  "WARMUP_STEPS": "The steps of the warm-up ([optimizers](optimizers.md)).",
  "WRITERS": (
    "Services that receive the metrics besides the run's own files and "
    "TensorBoard, `[@WeightsAndBiases()]`."
  ),
}

# The rooms of what reads the macros of a section of the page; the others are
# those of the run and its data.
_ROOMS = {
  "model": ("modules", "architectures", "objectives", "peft", "decoding"),
  "optimizer": ("training.optimizers", "training.sharding"),
}
_OF_MODEL = "MODEL", "TRANSFERRED_LAYERS"


@dataclasses.dataclass
class Macro:
  """A macro: the values by file, and the parameters that read it."""

  values: dict[str, str]
  readers: list[str]


def bindings(path: pathlib.Path) -> list[tuple[str, str]]:
  """Returns the names and values that a gin file itself binds, as it has them.

  Args:
    path: The file, whose includes are not followed.
  """
  return [
    (name, " ".join(re.sub(r"  #.*", "", text).split()))
    for name, text in _BINDING.findall(path.read_text("utf-8"))
  ]


@functools.cache
def macros() -> dict[str, Macro]:
  """Returns the macros that a parameter reads, by name."""
  found = collections.defaultdict(lambda: Macro({}, []))
  for path in sorted(GIN.rglob("*.gin")):
    file = path.relative_to(GIN).as_posix()
    if file.startswith(_APART):
      continue
    for name, value in bindings(path):
      if re.fullmatch(_NAME, name):
        found[name].values[file] = value.replace("%gin.REQUIRED", "required")
      for read in re.findall(rf"%({_NAME})", value):
        if name not in found[read].readers:
          found[read].readers.append(name)
  for macro in found.values():
    macro.readers.sort(key=lambda reader: not reader.startswith("train."))
  return {
    name: macro
    for name, macro in sorted(found.items())
    if any(_target(reader) or reader in found for reader in macro.readers)
  }


def _target(reader: str) -> tuple[Any, str] | None:
  """The class or function of a parameter, and the parameter's name."""
  name, _, parameter = reader.rpartition("/")[2].rpartition(".")
  if not name:
    return None
  try:
    return registry.find(name, reader).wrapped, parameter
  except UserError:  # Of SeqIO's vocabularies.
    return None


def _documented(target: Any, parameter: str) -> Iterator[str]:
  """Yields what docstrings say of a parameter."""
  places = [*getattr(target, "__mro__", [target])]
  if target.__module__.endswith("runs.train"):
    places = [part for part in vars(settings).values() if inspect.isclass(part)]
  for place in places:
    found = re.search(
      rf"^  {parameter}(?:, \w+)*: (.*(?:\n    .*)*)",
      inspect.getdoc(place) or "",
      re.M,
    )
    if found:
      yield " ".join(found[1].split())


def meaning(name: str) -> str:
  """Returns what a macro means, "" if nothing says it."""
  if name in MEANINGS:
    return MEANINGS[name]
  for reader in macros()[name].readers:
    for text in _documented(*target) if (target := _target(reader)) else ():
      text = re.split(r"(?<=\w\w[.]) (?=[A-Z])", text)[0]
      return text[0].upper() + text[1:]
  return ""


def section(name: str) -> str:
  """Returns the section of a macro: "run", "model" or "optimizer"."""
  if name in _OF_MODEL:
    return "model"
  reader = macros()[name].readers[0]
  if not (target := _target(reader)):
    return section(reader)
  module = target[0].__module__.removeprefix("transformer_zoo.")
  for title, rooms in _ROOMS.items():
    if module.startswith(rooms):
      return title
  return "run"


def row(name: str) -> Sequence[str]:
  """Returns a macro's cells: the name, the meaning, readers, values."""
  macro = macros()[name]
  readers = [f"`{reader}`" for reader in macro.readers]
  if len(readers) > 2:
    readers = [*readers[:2], f"{len(readers) - 2} more"]
  return [f"`{name}`", meaning(name), ", ".join(readers), _bound(macro.values)]


def _bound(values: dict[str, str]) -> str:
  """The default of all runs, else one or two files, else their number."""
  usual = values.get(f"runs/{_OF_ALL}")
  if usual is not None:
    return f"`{usual}`"
  if not values:
    return "given by the command"
  if len(values) > 2:
    counts = collections.Counter(file.split("/")[0] for file in values)
    return ", ".join(f"{count} of `{name}/`" for name, count in counts.items())
  return ", ".join(
    f"`{file}`" + (f": `{value}`" if len(value) <= _LONGEST_VALUE else "")
    for file, value in values.items()
  )
