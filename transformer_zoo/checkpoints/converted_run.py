"""Run folders that a conversion writes and reads.

Such a folder holds `config.gin`, `checkpoints/<step>/`, and in `huggingface/`
the files that were copied along: the tokenizer's, config.json,
generation_config.json. Run folders of trained models are read too.
"""

from collections.abc import Mapping, Sequence
import contextlib
import dataclasses
import os
import pathlib
import sys

from flax import linen as nn
import numpy as np

from transformer_zoo import config
from transformer_zoo.checkpoints import bases
from transformer_zoo.checkpoints import checkpoint_sources
from transformer_zoo.checkpoints import generation_config
from transformer_zoo.checkpoints import model_parameters
from transformer_zoo.checkpoints import run_layout
from transformer_zoo.checkpoints import tokenizer_files
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import directory
from transformer_zoo.interop.huggingface import sentence_transformers
from transformer_zoo.tensors import orbax_checkpoints
from transformer_zoo.tensors import rounding
from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.training.checkpoints import checksums
from transformer_zoo.training.checkpoints import reading

# The binding by which a run's base is one of float32.
UNROUNDED = "rounded.bits=32"
_KINDS = ("evaluate", "infer")
_LENGTHS = {"inputs": 512, "targets": 128}


@dataclasses.dataclass(frozen=True)
class Run:
  """A run of ours, whose tensors are read on demand.

  Attributes:
    folder: The folder of the run.
    model: The model of its config.gin, with all kernels in float32.
    leaves: The leaves of the state in its checkpoint (`orbax_checkpoints`).
    step: The step of the checkpoint.
    rounded: The parameters that the run keeps in fewer bits, and their types.
  """

  folder: pathlib.Path
  model: nn.Module
  leaves: Mapping[str, Tensor]
  step: int
  rounded: Mapping[str, np.dtype]

  def parameters(self) -> dict[str, Tensor]:
    """Our parameters, layers unstacked.

    Those that the run rounds have the values that it computes by.

    Raises:
      UserError: The model has other parameters.
    """
    found = orbax_checkpoints.parameters(self.leaves)
    if (base := bases.Base.of_run(self.folder)) is not None:
      found = base.tensors(self.folder, checkpoint_sources.open_source) | found
    shapes = model_parameters.shapes_of(self.model)
    if different := {
      name
      for name in found.keys() | shapes.keys()
      if name not in found or found[name].shape != shapes.get(name)
    }:
      raise UserError(
        f"the parameters in {str(self.folder)!r} do not fit its "
        f"config.gin: {', '.join(sorted(different)[:3])}"
      )
    for name, dtype in self.rounded.items():
      found[name] = rounding.in_float(found[name], dtype)
    return found

  @property
  def bindings(self) -> list[str]:
    """The bindings after its config.gin that configure `model`."""
    return [UNROUNDED] if self.rounded else []

  @property
  def beside(self) -> pathlib.Path | None:
    """The folder of the files beside the parameters; None without one."""
    folder = self.folder / run_layout.BESIDE
    return folder if folder.is_dir() else None


def is_run(path: str | os.PathLike[str]) -> bool:
  """Whether a path leads to a run, or to a step of one."""
  try:
    reading.resolve(path)
  except reading.NoCheckpointError:
    return False
  return True


def open_run(path: str | os.PathLike[str]) -> Run:
  """Opens the best or newest checkpoint of a run, or the named one.

  Raises:
    UserError: there is none, it is damaged, or it has no config.gin.
  """
  step = reading.resolve(path)
  folder = reading.run_of(step)
  configuration = folder / run_layout.CONFIG
  if not configuration.is_file():
    raise UserError(
      f"no {run_layout.CONFIG} lies in {str(folder)!r}, so that nothing names "
      "the architecture of the checkpoint"
    )
  if orbax_checkpoints.is_packed(step):
    reading.verify(step)
  leaves = orbax_checkpoints.open_checkpoint(step, checksums.read(step))
  model = config.build("MODEL", [str(configuration)])
  types = {n: p.dtype for n, p in model_parameters.parameters_of(model).items()}
  rounded = {n: dtype for n, dtype in types.items() if dtype != np.float32}
  if rounded:
    from transformer_zoo.peft.rounded import unrounded

    model = unrounded(model)
  return Run(folder, model, leaves, int(step.name), rounded)


def write_run(
  folder: pathlib.Path,
  gin_files: Sequence[str],
  bindings: Sequence[str],
  leaves: Mapping[str, Tensor],
  *,
  step: int = 0,
  beside: pathlib.Path | None = None,
  search_paths: Sequence[str] = (),
) -> None:
  """Writes a run folder for `zoo infer`, `zoo evaluate` and fine-tuning.

  Args:
    folder: The folder, which does not exist yet, or holds `huggingface/`.
    gin_files: The gin files of the model; their other bindings, such as those
      of decoding, are kept.
    bindings: The bindings after the files.
    leaves: The leaves of the state by name.
    step: The number of the checkpoint.
    beside: The folder that the files in `huggingface/` were copied from, for
      messages; None for `huggingface/` itself.
    search_paths: The folders that are searched for gin files first.
  """
  model = config.build("MODEL", gin_files, bindings, search_paths=search_paths)
  beside = beside or folder / run_layout.BESIDE
  config.load(
    [*gin_files, *(f"runs/{kind}.gin" for kind in _KINDS)],
    # Once more, for config.json's padding is among the bindings.
    [*bindings, *by_vocabulary(model, beside)],
    search_paths,
    root="MODEL",
    defaults=defaults(model, beside, *_KINDS),
  )
  text = run_layout.configuration_of(model, "MODEL", "CONVERTER", *_KINDS)
  checkpoint = folder / "checkpoints" / str(step)
  written = orbax_checkpoints.write(checkpoint, leaves)
  checksums.write(checkpoint, written)
  run_layout.replace(folder / run_layout.CONFIG, text)


def defaults(model: nn.Module, beside: pathlib.Path, *kinds: str) -> list[str]:
  """Overrides for the settings of a run that a checkpoint does not name.

  Args:
    model: The model of the checkpoint.
    beside: The folder of its config.json and of the files of its tokenizer,
      which may be absent.
    *kinds: The commands that the configuration is for, `evaluate` or `infer`.
  """
  macros = {
    "BATCH_SIZE": 8,
    "MIXTURE_OR_TASK_NAME": None,
    "PREPARED_DIR": "runs/prepared",
    "TASK_FEATURE_LENGTHS": _lengths(model, beside),
  }
  if "evaluate" in kinds:
    macros["CORRUPTION"] = None
  vocabulary, start = _tokenizer_in(beside)
  offers = model.offers
  if not offers.has_decoder:  # The converter puts pieces around texts.
    if (offers.num_token_types or 0) < 2:
      macros["EncoderFeatures.token_types"] = False
    return [f"{name}={value!r}" for name, value in macros.items()]
  continues = offers.continues
  said = generation_config.options(
    beside,
    eos_id=None if vocabulary is None else vocabulary.eos_id,
    continues=continues,
  )
  for name, value in said.items():
    macros[f"DecodingOptions.{name}"] = value
  if (beside / directory.CONFIG).is_file():
    macros["DecodingOptions.skip_special_tokens"] = True
  if said:
    listed = ", ".join(f"{name}={value!r}" for name, value in said.items())
    print(f"decoding as {beside} says: {listed}", file=sys.stderr)
  if not continues:
    fed_first = generation_config.start_id(beside)
    if fed_first is not None:
      macros["EncoderDecoderFeatures.bos_id"] = fed_first
    if start is not None:
      macros["EncoderDecoderFeatures.begin_id"] = start
    end = vocabulary and tokenizer_files.end_id(beside)
    if end is not None:
      macros["EncoderDecoderFeatures.end_id"] = end
  elif start is not None:
    macros["LanguageModelFeatures.bos_id"] = start
  elif (beside / directory.CONFIG).is_file():  # T5X's begin with padding.
    macros["DecodingOptions.start_before_prompt"] = False
  overrides = [f"{name}={value!r}" for name, value in macros.items()]
  return overrides + by_vocabulary(model, beside)


def _lengths(model: nn.Module, beside: pathlib.Path) -> dict[str, int]:
  """Usual lengths, within the positions of an encoder or a language model.

  Raises:
    UserError: A prompt, by which rows are longer, leaves no position.
  """
  offers = model.offers
  continues = offers.continues
  positions = offers.num_positions(offers.sides[-1])
  prompt = offers.prompt_length
  if positions is not None:
    positions -= prompt
    if positions < 2:
      raise UserError(
        f"a prompt of {prompt} vectors leaves no place for a text: the model "
        f"has {positions + prompt} positions"
      )
  if not offers.has_decoder:
    longest = sentence_transformers.longest(beside) or _LENGTHS["inputs"]
    length = min(longest, positions or longest)
    return dict.fromkeys(_LENGTHS, length)
  longest = generation_config.longest(beside, continues=continues)
  targets = longest or _LENGTHS["targets"]
  if not continues or positions is None:
    return {**_LENGTHS, "targets": targets}
  targets = min(targets, positions // 2)
  inputs = min(_LENGTHS["inputs"], positions - targets)
  return {"inputs": inputs, "targets": targets}


def by_vocabulary(model: nn.Module, beside: pathlib.Path) -> list[str]:
  """The overrides of what the files of a vocabulary decide.

  A language model pads as its vocabulary does: its config.json and its
  tokenizer's files may disagree (Qwen2's, LLaMA's), and what padding is changes
  nothing that such a model computes. Texts of mBART begin as its tokenizer has
  them, and not with the `<s>` of architectures/bart.gin.

  Args:
    model: The model of the checkpoint.
    beside: The folder of `defaults`.
  """
  with contextlib.suppress(UserError):  # `defaults` names it.
    vocabulary = tokenizer_files.vocabulary(beside)
    if vocabulary is not None and model.offers.continues:
      return [f"{type(model).__name__}.pad_id={vocabulary.pad_id}"]
    of_mbart = tokenizer_files.is_mbarts(beside)
    if vocabulary is not None and of_mbart and model.offers.has_decoder:
      start = tokenizer_files.start_id(beside)
      return [f"EncoderDecoderFeatures.begin_id={start!r}"]
  return []


def _tokenizer_in(folder: pathlib.Path) -> tuple[Vocabulary | None, int | None]:
  """The vocabulary of a folder, and the id that it puts before a text.

  A vocabulary that cannot be read is named on stderr: the weights beside it can
  be used without.
  """
  try:
    found = tokenizer_files.vocabulary(folder)
    if found is None:
      return None, None
    for unread in tokenizer_files.unread_pieces(folder):
      print(f"passed over: {unread}", file=sys.stderr)
    return found, tokenizer_files.start_id(folder)
  except UserError as error:
    print(f"passed over: the vocabulary in {folder}: {error}", file=sys.stderr)
    return None, None
