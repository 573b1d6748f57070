"""Edits of checkpoints: opened, edited, traced and written."""

from collections.abc import Sequence
import dataclasses
import hashlib
import os
import pathlib
from typing import Any
import zipfile

from flax import traverse_util
import jax
import numpy as np

from transformer_zoo.conversion import convert
from transformer_zoo.conversion import sources
from transformer_zoo.conversion import target as conversion_target
from transformer_zoo.editing import edits
from transformer_zoo.editing import facts
from transformer_zoo.editing import memit
from transformer_zoo.editing import rome
from transformer_zoo.editing.facts import Fact
from transformer_zoo.errors import UserError
from transformer_zoo.runs.analysis import costs
from transformer_zoo.runs.loading import loaded_checkpoint
from transformer_zoo.tensors.lazy_tensors import Tensor


def open_memory(
  path: str,
  *,
  vocabulary_path: str | None = None,
  encoder_text: str | None = None,
) -> rome.Memory:
  """Opens a checkpoint for edits, its parameters in memory.

  Args:
    path: The path of a run, a step of one, or a Hugging Face directory.
    vocabulary_path: The path of its vocabulary, if nothing beside it has one.
    encoder_text: What the encoder of an encoder-decoder reads; empty if None.

  Raises:
    UserError: There is no such checkpoint, vocabulary, or decoder, or no
      encoder for a text.
  """
  found = loaded_checkpoint.open_checkpoint(path, vocabulary_path)
  has_encoder = found.model.offers.has_encoder
  if encoder_text is not None and not has_encoder:
    raise UserError(
      f"--encoder_text is {encoder_text!r}, and the model of {path!r} has no "
      "encoder that could read it; put all that it is to read into PROMPT"
    )
  reader = facts.Reader(
    found.vocabulary,
    found.start_id,
    (encoder_text or "") if has_encoder else None,
  )
  return rome.Memory(found.model, found.params, reader)


def moment(
  memory: rome.Memory,
  layer: int,
  *,
  texts: Sequence[str] = (),
  path: str | None = None,
) -> np.ndarray | None:
  """The covariance of keys of a layer, read from a file or computed.

  Args:
    memory: The model.
    layer: The number of the layer.
    texts: The texts whose tokens it is of, if there is no file yet.
    path: The .npz to read, or to write if it is not there; None for no file.

  Returns:
    C [F, F], or None without texts and file.

  Raises:
    UserError: The file is none of `zoo edit`, or belongs to another layer,
      matrix or checkpoint, or does not exist and there are no texts.
  """
  kernel_path = rome.kernel_path(memory.layer(layer))
  kernel = edits.kernel_of(memory.params, kernel_path)
  if path and pathlib.Path(path).is_file():
    try:
      with np.load(path) as stored:
        found, of_layer = stored["moment"], int(stored["layer"])
        of_params = str(stored["params"])
    except (KeyError, OSError, ValueError, zipfile.BadZipFile) as error:
      raise UserError(
        f"{path!r} is no covariance of `zoo edit` ({error}); name another file"
      ) from None
    if of_layer != layer or len(found) != len(kernel):
      raise UserError(
        f"{path!r} has the covariance of layer {of_layer}, {len(found)} "
        f"features, and layer {layer} has {len(kernel)}; name another file"
      )
    if of_params != _checksum(memory.params, kernel_path):
      raise UserError(
        f"{path!r} has the covariance of another checkpoint; name another file"
      )
    return found
  if not texts:
    if path:
      raise UserError(
        f"there is no covariance {path!r} and no text to take one from; name "
        "another file, or give --text"
      )
    return None
  found, count = rome.second_moment(memory, texts, layer)
  if path:
    with open(path, "wb") as file:
      np.savez(
        file,
        moment=found,
        layer=layer,
        tokens=count,
        params=_checksum(memory.params, kernel_path),
      )
  return found


def _checksum(params: Any, kernel_path: str) -> str:
  """The SHA-256 of parameters but for one kernel.

  An edit of that kernel leaves its inputs as they are, and their covariance.
  """
  found = hashlib.sha256()
  flat = traverse_util.flatten_dict(params, sep="/")
  for name in sorted(flat.keys() - {kernel_path}):
    found.update(name.encode())
    found.update(np.ascontiguousarray(flat[name]))
  return found.hexdigest()


def make(
  memory: rome.Memory,
  fact: Fact,
  settings: rome.Settings,
  *,
  moment_FF: np.ndarray | None,
  prefixes: int = 10,
  seed: int = 0,
) -> edits.Edit:
  """Makes an edit by ROME, with its cost among the notes.

  Args:
    memory: The model.
    fact: The fact.
    settings: The constants.
    moment_FF: C; the identity if None.
    prefixes: The number of sampled prefixes of 5 tokens, and of 10.
    seed: That of the prefixes.
  """
  with costs.measured() as spent:
    before = rome.sample_prefixes(memory, jax.random.key(seed), number=prefixes)
    made = rome.edit(
      memory, fact, settings, moment_FF=moment_FF, prefixes=before
    )
  spent["bytes"] = _num_bytes(made)
  return dataclasses.replace(made, notes={**made.notes, "cost": spent})


def make_many(
  memory: rome.Memory,
  facts_: Sequence[Fact],
  settings: memit.Settings,
  *,
  texts: Sequence[str] = (),
  path: str | None = None,
  prefixes: int = 5,
  seed: int = 0,
) -> tuple[list[edits.Edit], dict[str, float]]:
  """Makes the edits of a set of facts by MEMIT.

  Args:
    memory: The model.
    facts_: The facts.
    settings: The constants.
    texts: As in `moment`.
    path: As in `moment`, with `{}` for the number of a layer.
    prefixes: The number of sampled prefixes of 10 tokens.
    seed: That of the prefixes.

  Returns:
    The edits, one of each layer, and their cost.

  Raises:
    UserError: There are no texts and no files of covariances.
  """
  if not texts and not path:
    raise UserError(
      "MEMIT weighs facts against the covariance of keys; give --text, or the "
      "files of --covariance"
    )
  if path and len(settings.layers) > 1 and facts.GAP not in path:
    raise UserError(
      f"--covariance {path!r} is one file for {len(settings.layers)} layers; "
      f"write {facts.GAP} in the place of the number of a layer"
    )
  moments = {}
  with costs.measured() as spent:
    for layer in settings.layers:
      place = path and path.replace(facts.GAP, str(layer))
      moments[layer] = moment(memory, layer, texts=texts, path=place)
    before = rome.sample_prefixes(
      memory, jax.random.key(seed), lengths=(10,), number=prefixes
    )
    made = memit.edit(
      memory, facts_, settings, moments=moments, prefixes=before
    )
  spent["bytes"] = sum(map(_num_bytes, made))
  return made, spent


def _num_bytes(edit: edits.Edit) -> int:
  return edit.left_FX.nbytes + edit.right_XD.nbytes + len(edit.rounding)


def write(
  path: str,
  edit_path: str | os.PathLike[str],
  target: str,
  *,
  remove: bool = False,
) -> list[edits.Edit]:
  """Writes a checkpoint with edits, or without them, as a run of ours.

  Args:
    path: The path of the checkpoint.
    edit_path: The path of the file of edits.
    target: The folder to write, which does not exist.
    remove: Whether the edits come off.

  Returns:
    The edits.

  Raises:
    UserError: An edit is not of this checkpoint, or the target exists.
  """
  conversion_target.check_absent(pathlib.Path(target))
  found = sources.open_source(path)
  made = edits.load(edit_path)
  parameters = dict(found.parameters)
  for edit in reversed(made) if remove else made:
    tensor = parameters.get(edit.path)
    nested = {} if tensor is None else {edit.path: tensor.read()}
    params = traverse_util.unflatten_dict(nested, sep="/")
    changed = edit.remove(params) if remove else edit.apply(params)
    kernel = edits.kernel_of(changed, edit.path)
    parameters[edit.path] = Tensor.of(kernel)
  with conversion_target.written_aside(pathlib.Path(target)) as folder:
    convert.write_run(folder, dataclasses.replace(found, parameters=parameters))
  return made
