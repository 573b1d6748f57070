"""transformer_zoo: controlled experiments on how Transformers transfer.

`import transformer_zoo as zoo` costs milliseconds: `zoo.load` and the other
names of `transformer_zoo.api` are imported when they are used.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

# Public name -> the module of `transformer_zoo.api` that has it.
_API = {
  "load": "loading",
  "Model": "model",
  "train": "runs",
  "evaluate": "runs",
  "infer": "runs",
  "harness": "harness",
  "study": "studies",
  "task": "inputs",
  "batches": "inputs",
}


def __getattr__(name: str) -> Any:
  if name not in _API:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
  return getattr(importlib.import_module(f"{__name__}.api.{_API[name]}"), name)


def __dir__() -> list[str]:
  return sorted([*globals(), *_API])
