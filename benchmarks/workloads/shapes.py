"""The shapes that benchmarks measure, their arguments and their output."""

import argparse
from collections.abc import Mapping, Sequence
import dataclasses
import json
from typing import Any

from flax import linen as nn
import jax

from transformer_zoo import config
from transformer_zoo.training import state


@dataclasses.dataclass(frozen=True)
class Shape:
  """A size and its batch.

  Attributes:
    size: the file of the size.
    batch_size: rows.
    inputs: tokens of a row.
    targets: tokens of the decoder's rows; 0 without a decoder.
    architecture: the file of the architecture.
    task: for an encoder, the file that chooses its heads.
    family: the model_type of the peers' class, whose configuration is written
      from our model; T5 and BART are built of their sizes.
    overrides: Further bindings.
    is_mrpc: whether the rows hold pairs that are as long as MRPC's; they are
      full by default.
  """

  size: str
  batch_size: int
  inputs: int
  targets: int = 0
  architecture: str = "architectures/t5_1_1.gin"
  task: str | None = None
  family: str | None = None
  overrides: tuple[str, ...] = ()
  is_mrpc: bool = False


_BART = "architectures/bart.gin"
_BERT = "architectures/bert.gin"
_DEBERTA = "architectures/deberta.gin"
_ELECTRA = "architectures/electra.gin"
_TOKENS = "heads/tokens.gin"
_CLASSES = "heads/classes.gin"
SHAPES = {
  "tiny": Shape("sizes/tiny.gin", 16, 128, 32),
  "tiny_32k": Shape("sizes/tiny_32k.gin", 32, 512, 97),
  "small": Shape("sizes/t5_1_1_small.gin", 8, 512, 114),
  "bart_base": Shape(*("sizes/bart_base.gin", 4, 256, 64), architecture=_BART),
  # BART base with half of its layers and a third of its vocabulary.
  "bart_half": Shape(
    *("sizes/bart_base.gin", 4, 256, 64),
    architecture=_BART,
    overrides=(
      "NUM_ENCODER_LAYERS=3",
      "NUM_DECODER_LAYERS=3",
      "VOCAB_SIZE=16384",
    ),
  ),
  # A decoder of one stack reads inputs and targets as one row.
  "qwen3_tiny": Shape(
    *("sizes/tiny.gin", 16, 128, 32),
    architecture="architectures/qwen3.gin",
    family="qwen3",
  ),
  "t5gemma_tiny": Shape(
    *("sizes/tiny.gin", 16, 128, 32),
    architecture="architectures/t5gemma.gin",
    family="t5gemma",
    overrides=("Attention.scale_size=64",),
  ),
  "bert_small": Shape(
    *("sizes/bert_small.gin", 16, 128),
    architecture=_BERT,
    task="heads/tokens_next_sentence.gin",
  ),
  "bert_small_mrpc": Shape(
    *("sizes/bert_small.gin", 32, 128),
    architecture=_BERT,
    task=_CLASSES,
    is_mrpc=True,
  ),
  # A CPU compiles no remat of layers that are not scanned.
  "deberta_small": Shape(
    *("sizes/bert_small.gin", 4, 512),
    architecture=_DEBERTA,
    task=_TOKENS,
    overrides=("SCAN_LAYERS=True", "REMAT='full'"),
  ),
  "deberta_v3_small": Shape(
    *("sizes/deberta_v3_small.gin", 4, 512),
    architecture="architectures/deberta_v3.gin",
    task=_CLASSES,
  ),
  "electra_small": Shape(
    *("sizes/electra_small.gin", 16, 128),
    architecture=_ELECTRA,
    task="heads/replaced_tokens.gin",
    overrides=("SCAN_LAYERS=True",),
  ),
  "electra_small_masked": Shape(
    *("sizes/electra_small.gin", 16, 128),
    architecture=_ELECTRA,
    task=_TOKENS,
    overrides=("SCAN_LAYERS=True",),
  ),
  **{
    f"albert_{layers}_layers": Shape(
      *("sizes/albert_base.gin", 2, 128),
      architecture="architectures/albert.gin",
      task=_TOKENS,
      overrides=(f"NUM_ENCODER_LAYERS={layers}", "SCAN_LAYERS=True"),
    )
    for layers in (6, 24)
  },
}
ENCODERS = tuple(name for name, shape in SHAPES.items() if shape.task)
DECODERS = tuple(name for name, shape in SHAPES.items() if shape.targets)


def parse(
  parser: argparse.ArgumentParser,
  default: str = "tiny",
  choices: Sequence[str] = DECODERS,
) -> argparse.Namespace:
  """Adds `--shape`, `--dtype`, `--json`, and parses the command line."""
  parser.add_argument("--shape", choices=choices, default=default)
  parser.add_argument(
    "--dtype", choices=("float32", "bfloat16"), default="float32"
  )
  parser.add_argument("--json", action="store_true", help="one JSON object")
  return parser.parse_args()


def model_of(
  arguments: argparse.Namespace, overrides: Sequence[str] = ()
) -> tuple[nn.Module, Shape]:
  """The model of the chosen shape."""
  shape = SHAPES[arguments.shape]
  config.load(
    [shape.architecture, shape.size, *filter(None, [shape.task])],
    [f"DTYPE={arguments.dtype!r}", *shape.overrides, *overrides],
    root="MODEL",
  )
  return config.value("MODEL"), shape


def random_parameters(model: nn.Module) -> Any:
  """Parameters as a new run draws them."""
  return jax.jit(
    lambda key: nn.meta.unbox(state.initial_variables(model, key))
  )(jax.random.key(0))


def show(figures: Mapping[str, Any], as_json: bool) -> None:
  """Prints figures as JSON or one a line."""
  if as_json:
    print(json.dumps(figures))
    return
  for name, value in figures.items():
    print(f"{name:30} {value}")
