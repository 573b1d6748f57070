"""The arguments `--checkpoint` and `--adapter`, and their configuration."""

import argparse
from collections.abc import Iterator, Sequence
import contextlib
import copy
import dataclasses
import os
import pathlib
import sys
import tempfile

from transformer_zoo.cli import common
from transformer_zoo.errors import UserError

_STEPS = "checkpoints"


@dataclasses.dataclass(frozen=True)
class Configuration:
  """The configuration that a command loads for a checkpoint.

  Attributes:
    gin_files: The gin files, in order.
    overrides: The overrides after the files and before the user's.
    defaults: The overrides for settings that neither the files nor the user
      binds.
  """

  gin_files: Sequence[str]
  overrides: Sequence[str] = ()
  defaults: Sequence[str] = ()


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
    if bases.Base.of_run(_folders(path)[-1]) is None:
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
  extra: Sequence[str],
  defaults: Sequence[str] = (),
) -> None:
  """Loads the configuration of `infer` for a checkpoint and its vocabulary.

  Args:
    arguments: The parsed arguments, with `gin_file`, `checkpoint` and
      `vocabulary`.
    extra: Further overrides before the user's.
    defaults: Further bindings of what nothing else binds.

  Raises:
    UserError: There is no checkpoint, or nothing describes its model.
  """
  found = configuration(arguments, "infer")
  from transformer_zoo.checkpoints import generation_config

  path = arguments.vocabulary or vocabulary(arguments.checkpoint[0])
  common.load_gin(
    arguments,
    "infer",
    gin_files=found.gin_files,
    extra=[
      *found.overrides,
      binding(arguments),
      *generation_config.instead(arguments.overrides),
      *extra,
      *([f"VOCABULARY_PATH={path!r}"] if path else []),
    ],
    given=["examples"],
    defaults=[*found.defaults, *defaults],
  )


def binding(arguments: argparse.Namespace) -> str:
  """The override that binds the checkpoint, or those of an ensemble."""
  paths = arguments.checkpoint
  return f"CHECKPOINT_PATH={paths if len(paths) > 1 else paths[0]!r}"


def configuration(arguments: argparse.Namespace, kind: str) -> Configuration:
  """The configuration for a checkpoint; for the first one of several.

  Gin files of the user that configure the whole command are loaded alone. Those
  that configure a model come after `runs/<kind>.gin`; others also after the
  model of the checkpoint, which its run or its config.json describes.

  Args:
    arguments: The parsed arguments with `gin_file` and `checkpoint`, whose URLs
      are replaced by folders.
    kind: The command, `evaluate` or `infer`; `runs/<kind>.gin` is shipped.

  Raises:
    UserError: There is no checkpoint, or nothing describes its model.
  """
  arguments.checkpoint = [*map(_fetched, arguments.checkpoint)]
  checkpoint, run = arguments.checkpoint[0], f"runs/{kind}.gin"
  bound = _bound(arguments)
  file, _, _ = bound.get(f"{kind}.model", "").rpartition(":")
  if file and not file.endswith(run):
    return Configuration(arguments.gin_file)
  if "MODEL" in bound:
    return Configuration(
      [run, *arguments.gin_file], defaults=_defaults(arguments, kind)
    )
  found = _described_by(checkpoint, kind)
  if found is None:
    from transformer_zoo.checkpoints import checkpoint_sources

    checkpoint_sources.locate(checkpoint)  # A folder of runs is none.
    raise UserError(
      f"nothing beside the checkpoint {checkpoint!r} tells its model: name it "
      "with --gin_file, as in --gin_file=architectures/t5_1_1.gin "
      "--gin_file=sizes/t5_1_1_small.gin"
    )
  files = [*found.gin_files, run, *arguments.gin_file]
  return dataclasses.replace(found, gin_files=files)


@contextlib.contextmanager
def of_initial_checkpoint(
  arguments: argparse.Namespace,
) -> Iterator[Configuration]:
  """The configuration of a run that takes its model from its first parameters.

  Where neither the user's gin files nor overrides name a model, it is that of
  INITIAL_CHECKPOINT_PATH. A gin file of it, which lasts as long as the context,
  comes before the user's, which may choose other heads and another dropout.

  Args:
    arguments: The parsed arguments with `gin_file` and `overrides`.

  Raises:
    UserError: A file is missing or does not parse, or there is no checkpoint.
  """
  from transformer_zoo import config

  given = Configuration(arguments.gin_file)
  macros = config.macros(
    arguments.gin_file, arguments.overrides, common.search_paths(arguments)
  )
  path = macros.get("INITIAL_CHECKPOINT_PATH")
  if "MODEL" in macros or not isinstance(path, str):
    yield given
    return
  path = _fetched(path)
  with common.quiet_stderr(keep=common.not_logged_by_libraries):
    found = _described_by(path, "infer")
    if found is None:  # T5X's tells no model, and a folder may hold none.
      yield given
      return
    config.load(found.gin_files, found.overrides, root="MODEL")
    text = config.operative_config("MODEL", "CONVERTER")
  beside = None if os.environ.get("ZOO_VOCABULARY") else vocabulary(path)
  hint = f"; its vocabulary by ZOO_VOCABULARY={beside}" if beside else ""
  print(f"the model is that of {path!r}{hint}", file=sys.stderr)
  with tempfile.TemporaryDirectory() as folder:
    file = pathlib.Path(folder, "model.gin")
    file.write_text(text, encoding="utf-8")
    yield Configuration(
      [str(file), *arguments.gin_file],
      # What the decoder reads first is the checkpoint's too.
      defaults=[text for text in found.defaults if "Features." in text],
    )


def vocabulary(checkpoint: str) -> str | None:
  """The folder of the vocabulary beside a checkpoint, or None."""
  from transformer_zoo.data.vocabularies import files

  for beside in map(str, _places_beside(checkpoint)):
    if os.path.isdir(beside) and files.is_vocabulary(beside):
      return beside
  return None


def _fetched(path: str) -> str:
  """The path itself, or the folder of a copy of a URL."""
  if "://" not in path:
    return path
  from transformer_zoo.checkpoints import remote

  return str(remote.fetched(path))


def _bound(arguments: argparse.Namespace) -> dict[str, str]:
  """The bindings of the user's gin files (`config.bound`)."""
  if not arguments.gin_file:
    return {}
  from transformer_zoo import config

  # A gin file may import a module of tasks, and that TensorFlow.
  with common.quiet_stderr(keep=common.not_logged_by_libraries):
    return config.bound(arguments.gin_file, common.search_paths(arguments))


def _defaults(arguments: argparse.Namespace, kind: str) -> list[str]:
  """Defaults of a command with the model of the user's gin files."""
  from transformer_zoo import config
  from transformer_zoo.checkpoints import converted_run

  with common.quiet_stderr():  # Notes are printed when all is loaded.
    model = config.build(
      "MODEL",
      arguments.gin_file,
      arguments.overrides,
      search_paths=common.search_paths(arguments),
      allow_unused=True,
    )
  places = _places_beside(arguments.checkpoint[0])
  beside = next(filter(pathlib.Path.is_dir, places), places[0])
  return converted_run.defaults(model, beside, kind)


def _described_by(checkpoint: str, kind: str) -> Configuration | None:
  """The configuration beside a checkpoint; None without one."""
  from transformer_zoo.interop.t5x import checkpoints

  if checkpoints.is_checkpoint(checkpoint):
    return None  # A config.gin beside it is T5X's.
  for folder in _folders(checkpoint):
    if (folder / "config.gin").is_file():
      return Configuration([str(folder / "config.gin")])
  from transformer_zoo import config
  from transformer_zoo.checkpoints import converted_run
  from transformer_zoo.interop.huggingface import directory

  if not directory.is_directory(checkpoint):
    return None
  found = directory.open_directory(checkpoint)
  architecture = found.family.architecture(found.config)
  files, overrides = architecture.gin_files, architecture.as_overrides()
  model = config.build("MODEL", files, overrides)
  return Configuration(
    files,
    [*overrides, *converted_run.by_vocabulary(model, found.path)],
    converted_run.defaults(model, found.path, kind),
  )


def _places_beside(checkpoint: str) -> list[pathlib.Path]:
  """Folders that may hold the files beside a checkpoint, or beside its base."""
  from transformer_zoo.checkpoints import bases
  from transformer_zoo.interop.huggingface import directory

  if directory.is_directory(checkpoint):
    return [pathlib.Path(checkpoint)]
  folders = _folders(checkpoint)
  base = bases.Base.of_run(folders[-1])
  of_base = _places_beside(base.path) if base else []
  return [*(folder / "huggingface" for folder in folders), *of_base]


def _folders(checkpoint: str) -> list[pathlib.Path]:
  """The folder, and that of the run whose step or steps it holds."""
  path = pathlib.Path(checkpoint).absolute()
  if path.parent.name == _STEPS:
    return [path, path.parents[1]]
  if path.name == _STEPS or (path / "state").is_dir():
    return [path, path.parent]
  return [path]  # What lies above a run is not its own.
