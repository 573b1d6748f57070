"""Which data a run reads: what tells it apart from other data of its name."""

import hashlib
import json

from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import UserError
from transformer_zoo.runs import inputs

UNKNOWN = ""


def made(mixture_or_task_name: str, prepared_dir: str) -> str:
  """Prepares data, where it is not or has changed, and returns its mark.

  Raises:
    UserError: it cannot be prepared, or SeqIO is not installed and it is not.
  """
  return _mark(inputs.prepared(mixture_or_task_name, prepared_dir))


def found(mixture_or_task_name: str, prepared_dir: str) -> str:
  """Returns the mark of prepared data, `UNKNOWN` where there is none."""
  try:
    return _mark(manifest.load(mixture_or_task_name, prepared_dir))
  except UserError:
    return UNKNOWN


def _mark(mixture: manifest.PreparedMixture) -> str:
  text = json.dumps(inputs.identity(mixture), sort_keys=True)
  return hashlib.sha256(text.encode()).hexdigest()
