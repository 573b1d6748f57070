"""The data, classes and options of a run, as its config.gin names them."""

from collections.abc import Sequence
import pathlib
from typing import Any

from transformer_zoo import config
from transformer_zoo.checkpoints import run_layout
from transformer_zoo.data.features import forms
from transformer_zoo.data.storage import manifest
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.errors import UserError


def vocabulary_of(folder: pathlib.Path) -> Vocabulary | None:
  """The vocabulary of the task that a run was trained on; None if unknown."""
  mixture = _mixture_of(folder)
  return mixture and mixture.tasks[0].vocabulary


def class_names_of(folder: pathlib.Path) -> Sequence[str]:
  """The names of the classes or tags that a run was trained on, or none."""
  mixture = _mixture_of(folder)
  return mixture.class_names if mixture else ()


def _mixture_of(folder: pathlib.Path) -> manifest.PreparedMixture | None:
  """The data that a run was trained on, if it is prepared here."""
  configuration = [str(folder / run_layout.CONFIG)]
  try:
    name = config.build("MIXTURE_OR_TASK_NAME", configuration)
    if name is None:
      return None
    prepared_dir = config.build("PREPARED_DIR", configuration)
    converter = config.build("CONVERTER", configuration)
    name = forms.name_in_form(name, converter.form)
    return manifest.load(name, pathlib.Path(prepared_dir))
  except UserError:
    return None


def converter_field(folder: pathlib.Path, name: str) -> Any:
  """A field of a run's converter, or None.

  Args:
    folder: The folder of the run.
    name: `bos_id`, the id that the decoder is first fed, None for padding;
      `begin_id`, the id that inputs and targets begin with; `end_id`, the id
      that inputs end with behind their EOS; or `cls_place`, where [CLS] stands.
  """
  try:
    converter = config.build("CONVERTER", [str(folder / run_layout.CONFIG)])
  except UserError:
    return None
  return getattr(converter, name, None)


def decoding_of(folder: pathlib.Path) -> DecodingOptions:
  """The decoding options of a run, without lengths."""
  gin_files = [str(folder / run_layout.CONFIG)]
  return config.build("DECODING", gin_files, ["DECODING = @DecodingOptions()"])
