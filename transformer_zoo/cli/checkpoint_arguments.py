"""The arguments `--checkpoint` and `--adapter`, and their configuration."""

import argparse
from collections.abc import Iterator, Sequence
import copy
import pathlib

from transformer_zoo.api import configurations
from transformer_zoo.cli import common
from transformer_zoo.errors import UserError


def add_argument(parser: argparse.ArgumentParser) -> None:
  """Adds `--checkpoint`, which may be repeated."""
  parser.add_argument(
    "--checkpoint",
    action="append",
    required=True,
    metavar="DIR",
    help="run folder, step of a run, Hugging Face directory or T5X checkpoint; "
    "the logits of several are averaged",
  )


def add_adapter_argument(parser: argparse.ArgumentParser) -> None:
  """Adds `--adapter`, which may be repeated."""
  parser.add_argument(
    "--adapter",
    action="append",
    default=[],
    metavar="NAME=DIR",
    help="run that trained a part of --checkpoint, its base; one after another",
  )


def of_each_adapter(
  arguments: argparse.Namespace,
) -> Iterator[tuple[str | None, argparse.Namespace]]:
  """Yields the name of each adapter and the arguments with its run.

  Its base is the checkpoint while the caller works with it. Without adapters
  the name is None and the arguments are as they are.

  Raises:
    UserError: There is no such run, two have one name, or there are several
      bases.
  """
  if not arguments.adapter:
    yield None, arguments
    return
  if len(arguments.checkpoint) > 1:
    raise UserError(
      "--adapter goes over one base, and --checkpoint names "
      f"{len(arguments.checkpoint)}"
    )
  from transformer_zoo.checkpoints import bases
  from transformer_zoo.checkpoints import checkpoint_sources

  paths = {}
  for text in arguments.adapter:
    name, given, path = text.partition("=")
    if not given or not name or name in paths:
      raise UserError(
        f"--adapter {text!r} is not NAME=DIR with a name of its own, as in "
        "--adapter rte=runs/lora_rte"
      )
    if not pathlib.Path(path).exists():
      raise UserError(f"--adapter {text!r}: there is no run {path!r}")
    if bases.Base.of_run(configurations.folders_of(path)[-1]) is None:
      checkpoint_sources.locate(path)  # Or it has none at all.
      raise UserError(
        f"--adapter {text!r}: the checkpoints in {path!r} are whole and need "
        "no base; name it with --checkpoint"
      )
    paths[name] = path
  for name, path in paths.items():
    of_one = copy.copy(arguments)
    of_one.checkpoint = [path]
    with bases.found_at(arguments.checkpoint[0]):
      yield name, of_one


def add_vocabulary_argument(parser: argparse.ArgumentParser) -> None:
  """Adds `--vocabulary`."""
  parser.add_argument(
    "--vocabulary",
    metavar="FILE",
    help="a file or folder, if not the task's or what the checkpoint came with",
  )


def load_for_inference(
  arguments: argparse.Namespace,
  extra: Sequence[str] = (),
  defaults: Sequence[str] = (),
) -> None:
  """Loads the configuration of `infer` for a checkpoint and its vocabulary.

  Args:
    arguments: The parsed arguments, with `gin_file`, `checkpoint` and
      `vocabulary`; URLs are replaced by folders.
    extra: Further overrides before the user's.
    defaults: Further bindings that apply if nothing else sets the parameter.

  Raises:
    UserError: There is no checkpoint, or nothing describes its model.
  """
  arguments.checkpoint = [*map(configurations.fetched, arguments.checkpoint)]
  found = configurations.for_inference(
    arguments.checkpoint,
    common.of_user(arguments),
    vocabulary_path=arguments.vocabulary,
    extra=extra,
    defaults=defaults,
  )
  common.load_gin(
    arguments,
    "infer",
    gin_files=found.gin_files,
    extra=found.overrides,
    defaults=found.defaults,
  )


def configuration(
  arguments: argparse.Namespace, kind: str
) -> configurations.Configuration:
  """The configuration for a checkpoint; for the first one of several.

  Args:
    arguments: The parsed arguments with `gin_file` and `checkpoint`, whose URLs
      are replaced by folders.
    kind: The command, `evaluate` or `infer`.

  Raises:
    UserError: There is no checkpoint, or nothing describes its model.
  """
  arguments.checkpoint = [*map(configurations.fetched, arguments.checkpoint)]
  return configurations.of_checkpoint(
    arguments.checkpoint[0], kind, common.of_user(arguments)
  )
