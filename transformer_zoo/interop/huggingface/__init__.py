"""Directories of the `transformers` package; each family of models is a file.

A family maps the attributes of a config.json to macros and parts of ours, and
its tensors to our parameters. Imports `tensors`, flax for types, and torch
inside of `pytorch_files.py` alone. Begin with `family.py` and `attributes.py`,
then `families/gpt_neo.py` as an example, then `directory.py` and `writing.py`.
"""

from collections.abc import Mapping
from typing import Any

from transformer_zoo import schemas
from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface.families import FAMILIES
from transformer_zoo.interop.huggingface.family import Family


def family_of(config: Mapping[str, Any]) -> Family:
  """Returns the family of a config.json.

  Raises:
    UserError: There is none for its `model_type`, or an attribute that all
      families have is of another type.
  """
  kind = config.get("model_type")
  known = {family.kind: family for family in FAMILIES}
  if not isinstance(kind, str) or kind not in known:
    raise UserError(
      f"config.json has the model_type {schemas.shown(kind)}, which is not "
      f"known here; allowed: {', '.join(map(repr, sorted(known)))}. Do not "
      "write one of these in its place: the model would be read and compute "
      "something else"
    )
  schemas.check(config, schemas.CONFIG, f"config.json of a {kind} model")
  return known[kind]
