"""The vectors of texts that a directory of sentence-transformers describes.

`modules.json` lists what follows the encoder: a pooling and, in most, a
normalization. `sentence_bert_config.json` has the longest text, and
`config_sentence_transformers.json` the prompt that is put before each.
"""

import pathlib
from typing import Any

from transformer_zoo import schemas
from transformer_zoo.errors import UserError
from transformer_zoo.schemas import Required

_MODULES = "modules.json"
_LIST = {
  "modules": Required([{"type": Required(str), "path": Required(str)}]),
}
_SIZE = (range(1, schemas.LARGEST + 1), None)
_OF_ENCODER = {"max_seq_length": _SIZE, "do_lower_case": (bool, None)}
_OF_PROMPTS = {"default_prompt_name": (str, None)}
# The switch or word of a pooling, and `Embedding.pool`.
_POOLS = {"cls_token": "first", "cls": "first"} | dict.fromkeys(
  ("mean_tokens", "mean"), "mean"
)
_SWITCH = "pooling_mode_"


def overrides(folder: pathlib.Path) -> list[str]:
  """Returns the bindings of `Embedding`, and of the longest text.

  Args:
    folder: A directory; without `modules.json` it has none.

  Raises:
    UserError: A file is damaged, or describes vectors that are not made here.
  """
  path = folder / _MODULES
  if not path.is_file():
    return []
  text = path.read_text(encoding="utf-8", errors="replace")
  # A schema is one of a table.
  listed = schemas.parsed(f'{{"modules": {text}}}', _LIST, repr(str(path)))
  kinds = [one["type"].rpartition(".")[2] for one in listed["modules"]]
  if kinds[:2] != ["Transformer", "Pooling"] or kinds[2:] not in (
    [],
    ["Normalize"],
  ):
    raise UserError(
      f"{str(path)!r} lists the modules {', '.join(kinds)}; --embeddings makes "
      "vectors of a Transformer, a Pooling and perhaps a Normalize"
    )
  bindings = [
    f"Embedding.pool={_pool(folder / listed['modules'][1]['path'])!r}",
    f"Embedding.normalize={kinds[2:] == ['Normalize']}",
  ]
  encoder = _read(folder / "sentence_bert_config.json", _OF_ENCODER)
  if encoder.get("do_lower_case"):
    raise UserError(
      f"sentence_bert_config.json in {str(folder)!r} sets do_lower_case, which "
      "is not followed; write the texts in lower case and remove it"
    )
  if encoder.get("max_seq_length"):
    lengths = {"inputs": encoder["max_seq_length"]}
    bindings.append(f"TASK_FEATURE_LENGTHS={lengths!r}")
  path = folder / "config_sentence_transformers.json"
  prompt = _read(path, _OF_PROMPTS).get("default_prompt_name")
  if prompt is not None:
    raise UserError(
      f"{str(path)!r} has the default_prompt_name {prompt!r}, which is not "
      "followed; write the prompt before each text and remove it"
    )
  return bindings


def _pool(folder: pathlib.Path) -> str:
  path = folder / "config.json"
  config = schemas.read(path, schema={})
  chosen = [
    name.removeprefix(_SWITCH)
    for name, value in config.items()
    if name.startswith(_SWITCH) and value is True
  ]
  chosen += [config["pooling_mode"]] if "pooling_mode" in config else []
  if len(chosen) != 1 or chosen[0] not in _POOLS:
    raise UserError(
      f"{str(path)!r} has the poolings "
      f"{', '.join(map(str, chosen)) or 'none'}; --embeddings makes one of "
      f"{', '.join(_POOLS)}"
    )
  return _POOLS[chosen[0]]


def _read(path: pathlib.Path, schema: schemas.Schema) -> dict[str, Any]:
  return schemas.read(path, schema) if path.is_file() else {}
