"""The configuration that a checkpoint is read with.

A run has its config.gin, a Hugging Face directory its config.json; a T5X
checkpoint does not describe its model. Gin files of the user come after.
"""

from collections.abc import Iterator, Sequence
import contextlib
import dataclasses
import os
import pathlib
import sys
import tempfile
from typing import Any

from transformer_zoo.api.library_logs import not_logged_by_libraries
from transformer_zoo.api.library_logs import quiet_stderr
from transformer_zoo.data import user_modules
from transformer_zoo.errors import UserError
from transformer_zoo.processes import distributed

_STEPS = "checkpoints"
# The macros of the classes that a head has, and should have.
_OF_CLASSES = (
  "NUM_CLASSES",
  "MIXTURE_OR_TASK_NAME",
  "PREPARED_DIR",
  "CONVERTER",
)


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


@dataclasses.dataclass(frozen=True)
class Given:
  """What a user gives beside a checkpoint.

  Attributes:
    gin_files: The names of gin files.
    overrides: The overrides `NAME=VALUE`.
    search_paths: The folders that are searched for gin files first.
  """

  gin_files: Sequence[str] = ()
  overrides: Sequence[str] = ()
  search_paths: Sequence[str] = ()


def of_checkpoint(
  checkpoint: str, kind: str, given: Given = Given()
) -> Configuration:
  """The configuration for a checkpoint.

  Gin files of the user that configure the whole command are loaded alone. Those
  that configure a model come after `runs/<kind>.gin`; others also after the
  model of the checkpoint, which its run or its config.json describes.

  Args:
    checkpoint: The path of the checkpoint; `fetched` makes one of a URL.
    kind: The command, `evaluate` or `infer`; `runs/<kind>.gin` is shipped.
    given: What the user gives.

  Raises:
    UserError: There is no checkpoint, or nothing describes its model.
  """
  run = f"runs/{kind}.gin"
  bound = _bound(given)
  file, _, _ = bound.get(f"{kind}.model", "").rpartition(":")
  if file and not file.endswith(run):
    return Configuration(given.gin_files)
  if "MODEL" in bound:
    return Configuration(
      [run, *given.gin_files], defaults=_defaults(checkpoint, kind, given)
    )
  found = _described_by(checkpoint, kind)
  if found is None:
    from transformer_zoo.checkpoints import checkpoint_sources

    checkpoint_sources.locate(checkpoint)  # A folder of runs is none.
    raise UserError(
      f"nothing beside the checkpoint {checkpoint!r} names its model: name it "
      "with --gin_file, as in --gin_file=architectures/t5_1_1.gin "
      "--gin_file=sizes/t5_1_1_small.gin"
    )
  files = [*found.gin_files, run, *given.gin_files]
  return dataclasses.replace(found, gin_files=files)


def for_inference(
  checkpoints: Sequence[str],
  given: Given = Given(),
  *,
  vocabulary_path: str | None = None,
  extra: Sequence[str] = (),
  defaults: Sequence[str] = (),
) -> Configuration:
  """The configuration of `infer` for checkpoints and their vocabulary.

  Args:
    checkpoints: The path of a checkpoint, or the paths of an ensemble, of which
      the first one is described.
    given: What the user gives.
    vocabulary_path: The path of the vocabulary; None for the one beside the
      checkpoint, or its task's.
    extra: Further overrides before the user's.
    defaults: Further bindings that apply if nothing else sets the parameter.

  Raises:
    UserError: There is no checkpoint, or nothing describes its model.
  """
  found = of_checkpoint(checkpoints[0], "infer", given)
  from transformer_zoo.checkpoints import generation_config

  path = vocabulary_path or vocabulary(checkpoints[0])
  return Configuration(
    found.gin_files,
    [
      *found.overrides,
      binding(checkpoints),
      *generation_config.instead(given.overrides),
      *extra,
      *([f"VOCABULARY_PATH={path!r}"] if path else []),
    ],
    [*found.defaults, *defaults],
  )


def load(
  found: Configuration,
  user: Given,
  root: str,
  *,
  given: Sequence[str] = (),
) -> None:
  """Loads a configuration; typos are answered before anything is imported.

  Args:
    found: The files, and what comes before and behind the user's overrides.
    user: What the user gives; its files are in `found`.
    root: The function to configure; see `config.load`.
    given: The parameters that the caller passes; see `config.load`.

  Raises:
    UserError: What `config.load` refuses, there is no such task, JAX has no
      such device, or several processes have other configurations.
  """
  from transformer_zoo import config

  user_modules.find_in_current_folder()
  overrides = [*found.overrides, *user.overrides]
  # A gin file may import a module of tasks, and that TensorFlow.
  with quiet_stderr(keep=not_logged_by_libraries):
    macros = config.check_names(
      found.gin_files,
      overrides,
      user.search_paths,
      root=root,
      defaults=found.defaults,
    )
    if root in ("train", "evaluate"):  # Others need what is prepared alone.
      _check_mixture(macros.get("MIXTURE_OR_TASK_NAME"))
    config.load(
      found.gin_files,
      overrides,
      user.search_paths,
      root=root,
      given=given,
      defaults=found.defaults,
    )
  _check_platforms()
  if distributed.is_initialized():
    distributed.require_same(
      "configurations", config.operative_config(root), _changes
    )


def listed(
  path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
) -> list[str]:
  """Returns the paths of one checkpoint or of several; URLs become folders.

  Raises:
    UserError: There is none.
  """
  several = not isinstance(path, str | os.PathLike)
  paths = [os.fspath(one) for one in (path if several else [path])]
  if not paths:
    raise UserError("path is empty; name one checkpoint or several")
  return [*map(fetched, paths)]


def binding(checkpoints: Sequence[str]) -> str:
  """The override that binds the checkpoint, or several of an ensemble."""
  bound = [*checkpoints] if len(checkpoints) > 1 else checkpoints[0]
  return f"CHECKPOINT_PATH={bound!r}"


@contextlib.contextmanager
def of_initial_checkpoint(given: Given) -> Iterator[Configuration]:
  """The configuration of a run that takes its model from its first parameters.

  Where neither the user's gin files nor overrides name a model, it is the model
  of INITIAL_CHECKPOINT_PATH. A gin file of it, which lasts as long as the
  context, comes before the user's, which may choose other heads and another
  dropout.

  Args:
    given: What the user gives.

  Raises:
    UserError: A file is missing or does not parse, or there is no checkpoint.
  """
  from transformer_zoo import config

  user_modules.find_in_current_folder()
  alone = Configuration(given.gin_files)
  macros = config.macros(given.gin_files, given.overrides, given.search_paths)
  path = macros.get("INITIAL_CHECKPOINT_PATH")
  if "MODEL" in macros or not isinstance(path, str):
    yield alone
    return
  path = fetched(path)
  with quiet_stderr(keep=not_logged_by_libraries):
    found = _described_by(path, "infer")
    if found is None:  # T5X's names no model, and a folder may hold none.
      yield alone
      return
    config.load(found.gin_files, found.overrides, root="MODEL")
    text = config.operative_config("MODEL", "CONVERTER")
  beside = None if os.environ.get("ZOO_VOCABULARY") else vocabulary(path)
  hint = f"; its vocabulary by ZOO_VOCABULARY={beside}" if beside else ""
  print(f"the model is taken from {path!r}{hint}", file=sys.stderr)
  with tempfile.TemporaryDirectory() as folder:
    file = pathlib.Path(folder, "model.gin")
    file.write_text(text, encoding="utf-8")
    yield Configuration(
      [str(file), *given.gin_files],
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


def prompts_beside(checkpoint: str) -> dict[str, Any]:
  """The fields of `Embedding` that the files beside a checkpoint name.

  Raises:
    UserError: A file is damaged.
  """
  from transformer_zoo.interop.huggingface import sentence_transformers

  for beside in _places_beside(fetched(checkpoint)):
    if found := sentence_transformers.prompts(beside):
      return found
  return {}


def fetched(path: str) -> str:
  """The path itself, or the folder of a copy of a URL."""
  if "://" not in path:
    return path
  from transformer_zoo.checkpoints import remote

  return str(remote.fetched(path))


def classes_of_the_task(overrides: Sequence[str]) -> list[str]:
  """The override that gives the head of an encoder the classes of its task.

  Args:
    overrides: The user's, which may name a number.
  """
  from transformer_zoo import config
  from transformer_zoo.processes import distributed

  # Several processes compare configurations, and may see other folders.
  if distributed.is_initialized() or not all(map(config.defines, _OF_CLASSES)):
    return []
  if any(text.startswith("NUM_CLASSES=") for text in overrides):
    return []
  from transformer_zoo.runs import inputs

  names = inputs.class_names(
    config.value("MIXTURE_OR_TASK_NAME"),
    config.value("PREPARED_DIR"),
    config.value("CONVERTER").form,
  )
  if not names or config.value("NUM_CLASSES") == len(names):
    return []
  print(f"NUM_CLASSES={len(names)}: {', '.join(names)}", file=sys.stderr)
  return [f"NUM_CLASSES={len(names)}"]


def overrides(macros: dict[str, Any]) -> list[str]:
  """Returns values in Python as the overrides `NAME=VALUE` of gin.

  Raises:
    UserError: A value cannot be written in gin.
  """
  found = []
  for name, value in macros.items():
    if isinstance(value, os.PathLike):
      value = os.fspath(value)
    if not _is_literal(value):
      raise UserError(
        f"{name}={value!r} cannot be written in gin; give a number, a text, "
        "True, False, None, or tuples, lists and dictionaries of them, and "
        "name parts in a gin file"
      )
    found.append(f"{name}={value!r}")
  return found


def _bound(given: Given) -> dict[str, str]:
  """The bindings of the user's gin files (`config.bound`)."""
  if not given.gin_files:
    return {}
  from transformer_zoo import config

  user_modules.find_in_current_folder()
  # A gin file may import a module of tasks, and that TensorFlow.
  with quiet_stderr(keep=not_logged_by_libraries):
    return config.bound(given.gin_files, given.search_paths)


def _defaults(checkpoint: str, kind: str, given: Given) -> list[str]:
  """Defaults of a command with the model of the user's gin files."""
  from transformer_zoo import config
  from transformer_zoo.checkpoints import converted_run

  with quiet_stderr():  # Notes are printed when all is loaded.
    model = config.build(
      "MODEL",
      given.gin_files,
      given.overrides,
      search_paths=given.search_paths,
      allow_unused=True,
    )
  places = _places_beside(checkpoint)
  beside = next(filter(pathlib.Path.is_dir, places), places[0])
  return converted_run.defaults(model, beside, kind)


def _described_by(checkpoint: str, kind: str) -> Configuration | None:
  """The configuration beside a checkpoint; None without one."""
  from transformer_zoo.interop.t5x import checkpoints

  if checkpoints.is_checkpoint(checkpoint):
    return None  # A config.gin beside it is T5X's.
  for folder in folders_of(checkpoint):
    if (folder / "config.gin").is_file():
      return Configuration([str(folder / "config.gin")])
  from transformer_zoo import config
  from transformer_zoo.checkpoints import converted_run
  from transformer_zoo.interop.huggingface import directory

  if not directory.is_directory(checkpoint):
    return None
  found = directory.open_directory(checkpoint)
  architecture = found.architecture
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
  folders = folders_of(checkpoint)
  base = bases.Base.of_run(folders[-1])
  of_base = _places_beside(base.path) if base else []
  return [*(folder / "huggingface" for folder in folders), *of_base]


def folders_of(checkpoint: str) -> list[pathlib.Path]:
  """The folder, and the folder of the run whose step or steps it holds."""
  path = pathlib.Path(checkpoint).absolute()
  if path.parent.name == _STEPS:
    return [path, path.parents[1]]
  if path.name == _STEPS or (path / "state").is_dir():
    return [path, path.parent]
  return [path]  # What lies above a run is not its own.


def _check_mixture(name: Any) -> None:
  """Raises UserError if a kept catalogue lacks the task or mixture."""
  # A module that a gin file imports may have registered tasks of its own.
  if isinstance(name, str) and "seqio" not in sys.modules:
    from transformer_zoo.data.storage import catalogue

    catalogue.check(name)


def _check_platforms() -> None:
  """Raises UserError if JAX has no device of the kind that the user names."""
  asked = os.environ.get("JAX_PLATFORMS")
  if not asked or "jax" not in sys.modules:
    return
  import jax

  try:
    jax.devices()
  except (AssertionError, RuntimeError) as error:
    reason = (str(error).splitlines() or [""])[0]
    raise UserError(
      f"JAX_PLATFORMS={asked}, and JAX finds no such device here"
      + (f" ({reason})" if reason else "")
      + "; unset it, or install JAX for these devices"
    ) from error


def _changes(first: str, other: str) -> str:
  from transformer_zoo import config

  return config.difference(first, other)


def _is_literal(value: Any) -> bool:
  if isinstance(value, dict):
    return all(map(_is_literal, [*value.keys(), *value.values()]))
  if isinstance(value, tuple | list):
    return all(map(_is_literal, value))
  return value is None or isinstance(value, bool | int | float | str)
