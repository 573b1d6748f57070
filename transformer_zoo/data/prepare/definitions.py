"""What a task's prepared records depend on, and how its scoring is imported.

Works on SeqIO's objects without importing SeqIO.
"""

from collections.abc import Callable, Sequence
import functools
import hashlib
import importlib
import inspect
import json
import os
from typing import Any

from transformer_zoo.data.prepare import plain_values
from transformer_zoo.data.prepare import reached_code
from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import UserError

# Of SeqIO's sources of files; the files themselves are described.
_PATTERNS = "_split_to_filepattern"


def hash_definition(
  task: Any, steps: Sequence[Callable[..., Any]], vocabulary: Any
) -> str:
  """Returns a hash of all that the records of a task depend on.

  That is: the source with the names, sizes and times of its files; the steps
  with their arguments; the code of both, and that of ours and the user's which
  they call (reached_code.py); the features; the vocabulary. A source of another
  kind may say what it depends on by a method `fingerprint() -> str`.

  Args:
    task: a `seqio.Task`.
    steps: those of its preprocessors that the records went through.
    vocabulary: of the task.
  """
  content = {
    "format": manifest.FORMAT,
    "source": describe_source(task.source),
    "steps": [_describe(step) for step in steps],
    "code": reached_code.reached_code(
      *steps, type(task.source), *filter(callable, vars(task.source).values())
    ),
    "features": {k: f.add_eos for k, f in task.output_features.items()},
    "vocabulary": [vocabulary.checksum, vocabulary.extra_ids],
    "skips_bad_rows": skips_bad_rows(),
  }
  text = json.dumps(content, sort_keys=True)
  return hashlib.sha256(text.encode()).hexdigest()


def skips_bad_rows() -> bool:
  """Whether bad rows are passed over (`zoo ... --skip_bad_rows`)."""
  return os.environ.get("ZOO_SKIP_BAD_ROWS") == "1"


def describe_scoring(task: Any) -> manifest.Scoring | None:
  """Returns how a `seqio.Task` is scored, None if it says nothing of that.

  A task without metrics may still say what becomes of a predicted text: the
  labels of a benchmark's diagnostic set are the server's alone.

  SeqIO tells the kinds of metric apart by the names of their parameters.

  Raises:
    UserError: a metric has other parameters than (targets, predictions) or
      (targets, scores), or cannot be imported by name; or the task has metric
      objects.
  """
  if objects := getattr(task, "_metric_objs_constructor_args", ()):
    raise UserError(
      f"Task {task.name!r} has metric_objs ({_name(objects[0])}), which cannot "
      "be written into a manifest; give it functions of (targets, predictions) "
      "or (targets, scores) as metric_fns."
    )
  try:
    if not task.metric_fns and task.postprocessor is None:
      return None
    refused = [str(metric) for metric in task.predict_with_aux_metric_fns]
  except ValueError as error:
    refused = [str(error).rpartition("Got: ")[2]]
  if refused:
    raise UserError(
      f"Task {task.name!r} has a metric that cannot be called ({refused[0]}); "
      "the parameters of a metric are (targets, predictions) or (targets, "
      "scores)."
    )
  post = task.postprocessor
  return manifest.Scoring(
    postprocess=post and refer_to(post, task.name),
    metrics=_refer_to_all(task.predict_metric_fns, task.name),
    score_metrics=_refer_to_all(task.score_metric_fns, task.name),
  )


def _name(value: Any) -> str:
  return getattr(value, "__qualname__", type(value).__qualname__)


def refer_to(function: Callable[..., Any], task: str) -> dict[str, Any]:
  """Returns {'function': 'module:name', 'kwargs': {...}} for a function.

  Raises:
    UserError: the function cannot be imported by name, or its bound arguments
      are not JSON.
  """
  kwargs, inner = {}, function
  while isinstance(inner, functools.partial):
    kwargs = dict(inner.keywords) | kwargs
    if inner.args:
      raise UserError(
        f"Task {task!r} scores with {inner.func!r} bound to positional "
        "arguments; bind them by keyword."
      )
    inner = inner.func
  module = getattr(inner, "__module__", None)
  name = getattr(inner, "__qualname__", "")
  reference = f"{module}:{name}"
  try:
    found = resolve({"function": reference, "kwargs": {}})
    json.dumps(kwargs)
  except (TypeError, UserError):
    found = None
  if found is not inner:
    raise UserError(
      f"Task {task!r} scores with {reference}, which cannot be written into a "
      "manifest; use a function of a module, or functools.partial of one with "
      "JSON keyword arguments."
    )
  return {"function": reference, "kwargs": kwargs}


def resolve(reference: dict[str, Any]) -> Callable[..., Any]:
  """Returns the function that `refer_to` wrote down.

  Raises:
    UserError: it is not there, as after an upgrade that moved it.
  """
  module, _, name = reference["function"].partition(":")
  try:
    function = getattr(importlib.import_module(module), name)
  except (AttributeError, ImportError) as error:
    raise UserError(
      f"The prepared data is scored with {reference['function']!r}, which "
      f"cannot be imported here ({error}); run `zoo prepare` again: it keeps "
      "the records and names the functions anew."
    ) from None
  if reference["kwargs"]:
    return functools.partial(function, **reference["kwargs"])
  return function


def _refer_to_all(
  functions: Sequence[Callable[..., Any]], task: str
) -> tuple[dict[str, Any], ...]:
  return tuple(refer_to(function, task) for function in functions)


def describe_source(source: Any) -> dict[str, Any]:
  """Returns JSON that changes when a SeqIO source yields other examples."""
  if hasattr(source, "fingerprint"):
    return {"fingerprint": source.fingerprint()}
  content = {"class": type(source).__name__}
  builder = getattr(source, "tfds_dataset", None)
  if builder is not None:
    content["tfds"] = builder.name
  elif type(source).__module__.partition(".")[0] != "seqio":
    content["fields"] = {
      name: text
      for name, item in plain_values.fields(source)
      if (text := plain_values.text_of_all(item)) is not None
      and name != _PATTERNS
    }
  function = getattr(source, "_dataset_fn", None)
  if function is not None:
    content["function"] = _describe(function)
    content["splits"] = list(source.splits)
    return content
  for split in source.splits or ():
    files = builder.files(split) if builder else source.list_shards(split)
    content[split] = [describe_file(file) for file in files]
  return content


def find_unknown_reader(source: Any) -> str | None:
  """Returns what reads data of a source that may have changed unnoticed.

  None where `describe_source` tells every change.
  """
  if hasattr(source, "fingerprint"):
    return None
  function = getattr(source, "_dataset_fn", None)
  if function is not None:
    while isinstance(function, functools.partial):
      function = function.func
    return _name(function)
  if getattr(source, "tfds_dataset", None) is not None:
    return None
  files = [f for split in source.splits for f in source.list_shards(split)]
  known = files and all(os.path.isfile(_path(file)) for file in files)
  return None if known else type(source).__qualname__


def _path(file: Any) -> str:
  return str(getattr(file, "filename", file))


def describe_file(file: Any) -> list[Any]:
  """Returns JSON that changes when a file is another one.

  Its folder is left out, which may be spelled another way, or moved.

  Args:
    file: a path, or a part of a TFDS file.
  """
  path = _path(file)
  name = os.path.basename(path)
  # The part of a TFDS file that belongs to a split such as `train[:90%]`.
  part = [getattr(file, "skip", 0), getattr(file, "take", -1)]
  try:
    status = os.stat(path)
  except OSError:  # a shard that is no file has its name only
    return [path, *part]
  return [name, status.st_size, status.st_mtime_ns, *part]


def _describe(value: Any) -> Any:
  """Returns JSON of a step or of its arguments, without memory addresses."""
  if value is None or isinstance(value, (bool, int, float, str)):
    return value
  if isinstance(value, dict):
    return {str(k): _describe(v) for k, v in value.items()}
  if isinstance(value, (list, tuple)):
    return [_describe(item) for item in value]
  if isinstance(value, functools.partial):
    return [
      _describe(value.func),
      _describe(value.args),
      _describe(value.keywords),
    ]
  if inspect.isfunction(value):
    closure = inspect.getclosurevars(inspect.unwrap(value)).nonlocals
    # SeqIO's decorators close over the function that they wrap.
    closure = {} if hasattr(value, "__wrapped__") else closure
    return [
      f"{value.__module__}.{value.__qualname__}",
      reached_code.source_code(value),
      _describe(closure),
    ]
  if inspect.isbuiltin(value) or inspect.isclass(value):
    return f"{value.__module__}.{value.__qualname__}"
  if (text := plain_values.text_of(value)) is not None:
    return text
  fields = {
    name: item
    for name, item in plain_values.fields(value)
    # What is private and no text may have `value` among its own.
    if not name.startswith("_") or isinstance(item, str)
  }
  return [
    f"{type(value).__module__}.{type(value).__qualname__}",
    reached_code.source_code(type(value)),
    _describe(fields),
  ]
