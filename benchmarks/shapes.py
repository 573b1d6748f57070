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
  """A size and its batch."""

  size: str
  batch_size: int
  inputs: int
  targets: int


SHAPES = {
  "tiny": Shape("sizes/tiny.gin", 16, 128, 32),
  "tiny_32k": Shape("sizes/tiny_32k.gin", 32, 512, 97),
  "small": Shape("sizes/t5_1_1_small.gin", 8, 512, 114),
}


def parse(
  parser: argparse.ArgumentParser, default: str = "tiny"
) -> argparse.Namespace:
  """Adds `--shape`, `--dtype`, `--json`, and parses the command line."""
  parser.add_argument("--shape", choices=SHAPES, default=default)
  parser.add_argument(
    "--dtype", choices=("float32", "bfloat16"), default="float32"
  )
  parser.add_argument("--json", action="store_true", help="one JSON object")
  return parser.parse_args()


def model_of(
  arguments: argparse.Namespace, overrides: Sequence[str] = ()
) -> tuple[nn.Module, Shape]:
  """The T5.1.1 of the chosen shape."""
  shape = SHAPES[arguments.shape]
  config.load(
    ["architectures/t5_1_1.gin", shape.size],
    [f"DTYPE={arguments.dtype!r}", *overrides],
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
