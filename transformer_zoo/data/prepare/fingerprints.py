"""Fingerprints of tasks: prepared records are reused while theirs is unchanged.

A fingerprint covers the source with its files, the steps with their arguments,
the features, the vocabulary, and the source text of the modules that steps,
source and arguments are defined in. Code in other modules is not covered: give
a step or a source an attribute `version` and change it with that code, or let
the source describe itself by a method `fingerprint() -> str`.

Works on SeqIO's objects without importing SeqIO.
"""

from collections.abc import Callable, Mapping, Sequence
import contextlib
import enum
import functools
import hashlib
import inspect
import json
import os
import pathlib
import re
import sys
import sysconfig
import types
from typing import Any

import numpy as np

from transformer_zoo.data.storage import manifest

# The paths of a source of files; the files themselves are described.
_PATTERNS = "_split_to_filepattern"
_OURS = ("transformer_zoo", "tasks", "mixtures")
_INSTALLED = tuple(
  str(pathlib.Path(sysconfig.get_path(name)).resolve())
  for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


# The paths of all files that `describe_file` has described in this process.
described_files: set[str] = set()


def hash_definition(
  task: Any, steps: Sequence[Callable[..., Any]], vocabulary: Any
) -> str:
  """Returns the fingerprint of a task.

  Args:
    task: The `seqio.Task`.
    steps: The preprocessors of the task that `prepare` runs.
    vocabulary: The vocabulary of the task.
  """
  content = {
    "format": manifest.FORMAT,
    "source": describe_source(task.source),
    "steps": [describe(step) for step in steps],
    "modules": hash_modules(task.source, *steps),
    "features": {k: f.add_eos for k, f in task.output_features.items()},
    "vocabulary": [vocabulary.checksum, vocabulary.extra_ids],
    "skips_bad_rows": skips_bad_rows(),
  }
  text = json.dumps(content, sort_keys=True)
  return hashlib.sha256(text.encode()).hexdigest()


def skips_bad_rows() -> bool:
  """Returns True if bad rows are skipped (`zoo ... --skip_bad_rows`)."""
  return os.environ.get("ZOO_SKIP_BAD_ROWS") == "1"


def describe_source(source: Any) -> dict[str, Any]:
  """Returns JSON that changes when a SeqIO source yields other examples."""
  version = getattr(source, "version", None)
  if hasattr(source, "fingerprint"):
    return {"fingerprint": source.fingerprint(), "version": describe(version)}
  content = {"class": type(source).__name__, "version": describe(version)}
  builder = getattr(source, "tfds_dataset", None)
  if builder is not None:
    content["tfds"] = builder.name
  elif not _is_installed(type(source).__module__):
    fields = _arguments(source)
    fields.pop(_PATTERNS, None)
    content["fields"] = describe(fields)
  function = getattr(source, "_dataset_fn", None)
  if function is not None:
    content["function"] = describe(function)
    content["splits"] = list(source.splits)
    return content
  for split in source.splits or ():
    files = builder.files(split) if builder else source.list_shards(split)
    content[split] = [describe_file(file) for file in files]
  return content


def find_unknown_reader(source: Any) -> str | None:
  """Returns the name of a reader whose data may change unnoticed.

  None if `describe_source` covers every change of the data.
  """
  if hasattr(source, "fingerprint"):
    return None
  function = getattr(source, "_dataset_fn", None)
  if function is not None:
    while isinstance(function, functools.partial):
      function = function.func
    return getattr(function, "__qualname__", type(function).__qualname__)
  if getattr(source, "tfds_dataset", None) is not None:
    return None
  files = [f for split in source.splits for f in source.list_shards(split)]
  known = files and all(os.path.isfile(_path(file)) for file in files)
  return None if known else type(source).__qualname__


def describe_file(file: Any) -> list[Any]:
  """Returns JSON that changes when a file is replaced or edited.

  The folder of the file is left out: it may be moved or spelled differently.

  Args:
    file: A path, or a part of a TFDS file.
  """
  path = _path(file)
  described_files.add(path)
  name = os.path.basename(path)
  # The part of a TFDS file that belongs to a split such as `train[:90%]`.
  part = [getattr(file, "skip", 0), getattr(file, "take", -1)]
  try:
    status = os.stat(path)
  except OSError:  # A shard that is no file has only its name.
    return [path, *part]
  return [name, status.st_size, status.st_mtime_ns, *part]


def describe(value: Any) -> Any:
  """Returns JSON of a step or argument, the same in every process.

  Functions and classes are described by their names, their `version` and the
  values that they enclose; instances by their class and the arguments that they
  were constructed with.
  """
  if value is None or isinstance(value, (bool, int, float, str)):
    return value
  if isinstance(value, Mapping):
    return {str(key): describe(item) for key, item in value.items()}
  if isinstance(value, (list, tuple)):
    return [describe(item) for item in value]
  if isinstance(value, (set, frozenset)):
    return sorted(json.dumps(describe(item)) for item in value)
  if isinstance(value, re.Pattern):
    return [value.pattern, int(value.flags)]
  if isinstance(value, enum.Enum):
    return [_name(type(value)), value.name]
  if isinstance(value, functools.partial):
    return [describe(part) for part in (value.func, value.args, value.keywords)]
  if inspect.ismethod(value):
    return [describe(value.__func__), describe(value.__self__)]
  if isinstance(value, (types.FunctionType, type)):
    return [_name(value), describe(getattr(value, "version", None))] + [
      describe(_enclosed(value)) if inspect.isfunction(value) else None
    ]
  if (array := _as_array(value)) is not None:
    content = array.tolist() if array.dtype.hasobject else array.tobytes()
    return [str(array.dtype), list(array.shape), describe(content)]
  if inspect.isbuiltin(value):
    return _name(value)
  if callable(value) or not _is_installed(type(value).__module__):
    return [describe(type(value)), describe(_arguments(value))]
  text = value if isinstance(value, bytes) else repr(value).encode()
  text = _ADDRESS.sub("", text.decode("latin-1"))
  return [_name(type(value)), hashlib.sha256(text.encode()).hexdigest()]


def hash_modules(*values: Any) -> dict[str, str]:
  """Returns {module: hash of its source} of functions, classes and instances.

  Installed packages are left out: they change with the environment.

  Args:
    *values: The steps and sources of a task. Modules of their arguments, of
      the values that they enclose and of their base classes are included.
  """
  found = {}
  _collect_modules(values, found, set())
  return dict(sorted(found.items()))


def _collect_modules(value: Any, found: dict[str, str], seen: set[int]) -> None:
  if id(value) in seen or isinstance(value, (str, bytes, int, float)):
    return
  seen.add(id(value))
  if isinstance(value, functools.partial):
    parts = [value.func, *value.args, *value.keywords.values()]
  elif isinstance(value, Mapping):
    parts = list(value.values())
  elif isinstance(value, (list, tuple, set, frozenset)):
    parts = list(value)
  elif inspect.ismethod(value):
    parts = [value.__func__, value.__self__]
  elif inspect.isfunction(value):
    parts = list(_enclosed(value).values())
    parts += [value.__wrapped__] if hasattr(value, "__wrapped__") else []
    _add_module(value.__globals__.get("__name__", ""), value, found)
  elif isinstance(value, type):
    parts = list(value.__bases__)
    _add_module(value.__module__, value, found)
  elif isinstance(value, types.ModuleType) or not hasattr(value, "__dict__"):
    return
  else:
    parts = [type(value), *_arguments(value).values()]
  for part in parts:
    _collect_modules(part, found, seen)


def _add_module(name: str, value: Any, found: dict[str, str]) -> None:
  if _is_installed(name):
    return
  file = getattr(sys.modules.get(name), "__file__", None)
  try:
    found[name] = _hash_file(file, os.stat(file).st_mtime_ns)
  except (OSError, TypeError):  # A module made in memory, as in a notebook.
    found[f"{name}:{value.__qualname__}"] = _source_or_code(value)


@functools.lru_cache(maxsize=1024)
def _hash_file(path: str, modified: int) -> str:
  del modified  # A part of the key: the file may be edited.
  return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def _source_or_code(value: Any) -> str:
  code = getattr(value, "__code__", None)
  # What exec compiles is "<string>", under which Python 3.13 keeps the text of
  # `python -c`.
  if code is None or code.co_filename != "<string>":
    with contextlib.suppress(OSError, TypeError):
      return inspect.getsource(value)
  return "" if code is None else f"{code.co_code.hex()} {code.co_names}"


@functools.lru_cache(maxsize=4096)
def _is_installed(module: str) -> bool:
  """Returns True for the modules of Python and of installed packages."""
  root = module.partition(".")[0]
  if root in _OURS or root == "__main__":
    return False
  if root in sys.builtin_module_names or root in sys.stdlib_module_names:
    return True
  file = getattr(sys.modules.get(module), "__file__", None)
  return file is not None and str(pathlib.Path(file).resolve()).startswith(
    _INSTALLED
  )


def _arguments(value: Any) -> dict[str, Any]:
  """Returns the attributes of an instance that its constructor was given.

  These are its public attributes, and private ones named after a parameter of
  the constructor. Other private attributes are what it keeps while it is used.
  """
  try:
    given = set(inspect.signature(type(value).__init__).parameters)
  except (TypeError, ValueError):
    given = set()
  if _is_installed(type(value).__module__):
    given = set()
  return {
    name: item
    for name, item in getattr(value, "__dict__", {}).items()
    if (not name.startswith("_") or given & {name, name.lstrip("_")})
    and not isinstance(
      inspect.getattr_static(type(value), name, None), functools.cached_property
    )
  }


def _enclosed(function: types.FunctionType) -> dict[str, Any]:
  """Returns the values that a function takes from the one around it."""
  if hasattr(function, "__wrapped__"):  # SeqIO's decorators enclose a step.
    return {"__wrapped__": function.__wrapped__}
  return dict(inspect.getclosurevars(function).nonlocals)


def _as_array(value: Any) -> np.ndarray | None:
  """Returns an array or an eager tensor as an array, None for other values."""
  if isinstance(value, (np.ndarray, np.generic)):
    return np.asarray(value)
  if type(value).__module__.partition(".")[0] != "tensorflow":
    return None
  try:
    return np.asarray(value.numpy())
  except (AttributeError, NotImplementedError):  # No tensor, or one of a graph.
    return None


def _name(value: Any) -> str:
  return f"{value.__module__}.{value.__qualname__}"


def _path(file: Any) -> str:
  return str(getattr(file, "filename", file))
