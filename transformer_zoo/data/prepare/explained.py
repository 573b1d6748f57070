"""Examples read one by one, so that an error names the one that it is in."""

from collections.abc import Callable, Iterator
import itertools
import re
from typing import Any, TYPE_CHECKING

from transformer_zoo.errors import UserError

if TYPE_CHECKING:
  import seqio
  import tensorflow as tf

_MOST_BAD = 1_000  # in a row: then it is not the rows that are bad
_NODE = re.compile(r"\{\{function_node .*?\}\}\s*")


def explain(read: Callable[[], Any], task: "seqio.Task", what: str) -> Any:
  """Returns `read()`; what the user's files can cause becomes a UserError."""
  import tensorflow as tf  # pylint: disable=g-import-not-at-top

  try:
    return read()
  # TFDS asserts that a dataset is on disk.
  except (OSError, EOFError, AssertionError, tf.errors.OpError) as error:
    lines = _NODE.sub("", str(error)).strip().split("\n")
    raise UserError(
      f"Task {task.name!r} cannot read its {what}: {lines[0]}"
    ) from error


def one_by_one(
  dataset: "tf.data.Dataset",
  task: "seqio.Task",
  what: str,
  first: int,
  on_bad: Callable[[str], None] | None,
) -> Iterator[dict[str, Any]]:
  """Yields the examples of a dataset.

  Args:
    dataset: of one split.
    task: that it is of.
    what: it is, for messages.
    first: number of its first example.
    on_bad: called with a sentence for an example that a step refuses, which is
      passed over; None for an error.

  Raises:
    UserError: a file or an example cannot be read; says which.
  """
  import tensorflow as tf  # pylint: disable=g-import-not-at-top

  examples = dataset.prefetch(64).as_numpy_iterator()
  end, bad = object(), 0
  for number in itertools.count(first):
    try:
      example = explain(
        lambda: next(examples, end), task, f"{what}, example {number}"
      )
    except UserError as error:
      bad += 1
      refused = isinstance(error.__cause__, tf.errors.InvalidArgumentError)
      if not refused or bad == _MOST_BAD:
        raise
      if on_bad is None:
        raise UserError(
          f"{error}; mend the data, or skip such rows with --skip_bad_rows."
        ) from error
      on_bad(str(error))
      continue
    if example is end:
      return
    bad = 0
    yield example
