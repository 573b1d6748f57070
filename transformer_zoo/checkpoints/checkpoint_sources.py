"""Sources of parameters: runs, Hugging Face directories, T5X checkpoints.

The contents of a path decide on its kind.
"""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import functools
import os
import pathlib
import shlex
import sys
from typing import Any

from flax import linen as nn

from transformer_zoo import config
from transformer_zoo import schemas
from transformer_zoo.checkpoints import bases
from transformer_zoo.checkpoints import generation_config
from transformer_zoo.checkpoints import model_parameters
from transformer_zoo.checkpoints import remote
from transformer_zoo.checkpoints import run_contents
from transformer_zoo.checkpoints import run_layout
from transformer_zoo.checkpoints import tokenizer_files
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import no_checkpoint
from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import directory
from transformer_zoo.interop.t5x import checkpoints as t5x_checkpoints
from transformer_zoo.tensors import orbax_checkpoints
from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.training.checkpoints import reading


@dataclasses.dataclass(frozen=True)
class Source:
  """An open checkpoint.

  Attributes:
    path: The path of the checkpoint itself: the folder of a step, a Hugging
      Face directory.
    name: The name for errors: "the T5X checkpoint '...'".
    tensors: The parameters under the names of this package, each layer by
      itself.
    make_model: A function that builds the model of the parameters, or returns
      None if it is unknown.
    advice: A line for users who have chosen another model; may be empty.
    find_vocabulary: A function that returns the vocabulary whose ids the model
      read, or None.
    of_a_run: Whether a run of this package saved it.
    steps: The number of steps that it has made; 0 if it is unknown.
    find_moments: A function that returns the moments of Adafactor
      (`T5XCheckpoint.moments`), or None.
    find_start_id: A function that returns the id that its decoder was fed
      first, from the converter of a run or the files of Hugging Face (for a
      language model, the id that the tokenizer puts before a text), or None if
      it is unknown or padding.
    find_class_names: A function that returns the names of the classes or tags
      of its head in order, none if they are unknown.
    spare: A pooler that is stored and that the checkpoint's own model has not.
  """

  path: pathlib.Path
  name: str
  tensors: Mapping[str, Tensor]
  make_model: Callable[[], nn.Module | None] = lambda: None
  advice: str = ""
  find_vocabulary: Callable[[], Vocabulary | None] = lambda: None
  of_a_run: bool = False
  steps: int = 0
  find_moments: Callable[[], Mapping[str, Tensor] | None] = lambda: None
  find_start_id: Callable[[], int | None] = lambda: None
  find_class_names: Callable[[], Sequence[str]] = lambda: ()
  spare: Mapping[str, Tensor] = dataclasses.field(default_factory=dict)


def locate(path: str | os.PathLike[str]) -> pathlib.Path:
  """Finds the folder of the checkpoint that a user's path means.

  Args:
    path: The path or URL of a run folder or of a step in its checkpoints/, of
      a Hugging Face directory or of a T5X checkpoint.

  Raises:
    UserError: There is no checkpoint, or the result of its run is damaged.
  """
  path = remote.fetched(path)
  if t5x_checkpoints.is_checkpoint(path):
    return t5x_checkpoints.open_checkpoint(path).folder
  if directory.is_directory(path):
    return pathlib.Path(path)
  check_not_tensorflow(path)
  if not path.exists():
    raise no_checkpoint(str(path))
  try:
    return reading.resolve(path)
  except reading.NoCheckpointError:
    raise UserError(
      f"no checkpoint in {str(path)!r}: a run folder has checkpoints/<step>/"
      "state, a Hugging Face directory config.json beside *.safetensors, "
      "pytorch_model.bin or flax_model.msgpack, a T5X checkpoint a msgpack "
      "file named `checkpoint`; nothing is downloaded"
    ) from None


def open_source(path: str | os.PathLike[str]) -> Source:
  """Opens a checkpoint of any kind; no tensor is read.

  Args:
    path: The path of the checkpoint, as `locate` takes it.

  Raises:
    UserError: There is no checkpoint, it is damaged, or its contents are
      unknown here.
  """
  path = remote.fetched(path)
  if t5x_checkpoints.is_checkpoint(path):
    return _of_t5x(path)
  if directory.is_directory(path):
    return _of_huggingface(path)
  return _of_a_run(locate(path))


def check_not_tensorflow(path: str | os.PathLike[str]) -> None:
  """Raises UserError if a path is a checkpoint of TensorFlow."""
  path = pathlib.Path(path)
  # Not `with_name`: the current folder, ".", has none.
  if pathlib.Path(f"{path}.index").is_file() or any(
    path.glob("model.ckpt-*.index")
  ):
    raise UserError(
      f"{str(path)!r} is a checkpoint of TensorFlow, as of Mesh TensorFlow's "
      "T5, which is not read; T5X's convert_tf_checkpoint makes one of T5X of "
      "it, and many are published as Hugging Face directories"
    )


def _of_t5x(path) -> Source:
  checkpoint = t5x_checkpoints.open_checkpoint(path)
  return Source(
    checkpoint.folder,
    f"the T5X checkpoint {str(checkpoint.folder)!r}",
    checkpoint.parameters(),
    steps=checkpoint.step,
    find_moments=lambda: (
      checkpoint.moments() if checkpoint.has_optimizer_state else None
    ),
  )


def _of_huggingface(path) -> Source:
  found = directory.open_directory(path)
  for note in found.notes:
    print(f"{str(path)!r}: {note}", file=sys.stderr)
  architecture = found.architecture
  bindings = architecture.as_overrides()
  model = config.build("MODEL", architecture.gin_files, bindings)
  shapes = model_parameters.shapes_of(model)
  stored = found.parameters(shapes)
  return Source(
    pathlib.Path(path),
    f"the Hugging Face directory {str(path)!r}",
    {name: tensor for name, tensor in stored.items() if name in shapes},
    find_class_names=functools.partial(_named_labels, found.config),
    spare={name: t for name, t in stored.items() if name not in shapes},
    make_model=lambda: model,
    # To be pasted into a shell. A run chooses its heads by a file of its own.
    advice="\nits own model is "
    + shlex.join(
      [f"--gin_file={name}" for name in architecture.gin_files]
      + [
        f"--gin.{binding}"
        for binding in bindings
        if not binding.startswith("Heads.parts=")
      ]
    ),
    find_vocabulary=functools.partial(vocabulary, path),
    find_start_id=functools.partial(start_id, model, pathlib.Path(path)),
  )


def start_id(model: nn.Module, folder: pathlib.Path) -> int | None:
  """The id that the decoder of a Hugging Face directory reads first.

  Args:
    model: The model of the directory.
    folder: The directory.

  Returns:
    None for an encoder, and where the directory names none.
  """
  if not model.offers.has_decoder:
    return None
  if not model.offers.continues:
    return generation_config.start_id(folder)
  try:
    return tokenizer_files.start_id(folder)
  except UserError:  # Weights are good without a vocabulary.
    return None


def _of_a_run(step: pathlib.Path) -> Source:
  reading.verify(step)
  try:
    leaves = orbax_checkpoints.open_checkpoint(step)
  except UserError as error:
    raise reading.DamagedCheckpointError(str(error)) from None
  run = reading.run_of(step)
  base = bases.Base.of_run(run)
  return Source(
    step,
    f"the checkpoint {str(step)!r}",
    {
      **(base.tensors(run, open_source) if base else {}),
      **orbax_checkpoints.parameters(leaves),
    },
    make_model=functools.partial(_model_of_run, run / run_layout.CONFIG),
    find_vocabulary=functools.partial(_vocabulary_of_run, run),
    of_a_run=True,
    steps=int(leaves["step"].read()) if "step" in leaves else 0,
    find_moments=lambda: orbax_checkpoints.moments(leaves) or None,
    find_start_id=functools.partial(
      run_contents.converter_field, run, "bos_id"
    ),
    find_class_names=functools.partial(_class_names_of_run, run),
  )


def check_base(step: pathlib.Path) -> None:
  """Raises UserError if the base of a run is not there, or has changed.

  Args:
    step: The folder of a checkpoint.
  """
  run = reading.run_of(step)
  if (base := bases.Base.of_run(run)) is not None:
    base.opened(run, open_source)


def _class_names_of_run(run: pathlib.Path) -> Sequence[str]:
  """Those of the task it was trained on, of its directory, or of its base."""
  if names := run_contents.class_names_of(run):
    return names
  base = bases.Base.of_run(run)
  for folder in (run / run_layout.BESIDE, *([base.path] if base else [])):
    original = pathlib.Path(folder) / directory.CONFIG
    if original.is_file():
      return _named_labels(schemas.read(original, schemas.CONFIG))
  return ()


def _named_labels(config: Mapping[str, Any]) -> Sequence[str]:
  """The labels of a config.json in order, without those that are numbers."""
  labels = config.get("id2label") or {}
  names = [labels.get(str(i)) for i in range(len(labels))]
  if not all(isinstance(name, str) for name in names):
    return ()
  return () if names[:1] == ["LABEL_0"] else names


def _model_of_run(file: pathlib.Path) -> nn.Module | None:
  if not file.is_file():
    return None
  try:
    return config.build("MODEL", [str(file)])
  except UserError as error:
    print(
      f"{str(file)!r} describes no model that can be built here ({error}); "
      "parameters are compared by name and shape alone",
      file=sys.stderr,
    )
    return None


def _vocabulary_of_run(run: pathlib.Path) -> Vocabulary | None:
  beside = vocabulary(run / run_layout.BESIDE)
  if beside is not None:
    return beside
  trained_on = run_contents.vocabulary_of(run)
  if trained_on and _is_readable(trained_on):
    return trained_on
  base = bases.Base.of_run(run)
  return vocabulary(base.path) if base else None


def vocabulary(folder: str | os.PathLike[str]) -> Vocabulary | None:
  """Returns the vocabulary in a folder, None if there is none."""
  found = Vocabulary(folder)
  return found if _is_readable(found) else None


def _is_readable(found: Vocabulary) -> bool:
  try:
    found.check()
  except UserError:
    return False
  return True
