"""Examples of an encoder made of the rows of a benchmark, in one of its forms.

The special tokens, the cuts and the windows of long contexts depend on the run
and are made when an example is read (`data/features/forms.py`).
"""

from collections.abc import Mapping

import numpy as np

from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data.features import converters
from transformer_zoo.data.features import forms
from transformer_zoo.data.loader.examples import Examples
from transformer_zoo.data.storage import manifest
from transformer_zoo.data.storage import records

# Records that are looked at together.
_SOME = 256


class FormSource:
  """The rows of a split: one for each example, or one for each window.

  Attributes:
    num_examples: The number of rows.
    cut_part: What is cut where an example is too long, in the plural.
  """

  cached_bytes = 0

  def __init__(
    self,
    task: manifest.PreparedTask,
    split: str,
    lengths: Mapping[str, int],
    converter: converters.Encoder,
  ):
    """Opens the records.

    Args:
      task: A task with a form.
      split: one of its splits.
      lengths: tokens of 'inputs', special tokens counted.
      converter: The converter, which has the number of separators and the
        longest example.

    Raises:
      UserError: The files are damaged, or the length is too short.
    """
    length = lengths["inputs"]
    self._form = forms.of_task(
      task.form,
      task.vocabulary,
      length,
      separators=converter.separators,
      longest=converter.longest_example,
      answering=converter.answering,
      cls_place=converter.cls_place,
      first_new_id=converter.first_new_id,
      both_orders=converter.both_orders,
      num_texts=converter.num_texts,
    )
    self.layout = task.form["form"]
    # The number of the task among those that one model has a head for.
    self._head = (
      sorted(converter.heads).index(task.name) if converter.heads else None
    )
    # A row has one answer that is a span, whatever task it is of.
    self._labels = ()
    if forms.Spans.name in converter.heads.values():
      self._labels = ("answer_starts", "answer_ends")
    self.shares_rows = self._form.shares_rows and not self._labels
    self._records = records.ExampleRecords(task, split)
    columns = [task.features.index(name) for name in forms.FEATURES]
    self._lengths = task.lengths(split)[:, columns]
    self._ends = np.cumsum(self._form.num_rows(self._lengths))
    self.num_examples = int(self._ends[-1])
    self.cut_part = self._form.cut_part

  def num_cut(self, rows: int) -> int:
    """Returns how many examples of the first rows have a part in no row."""
    number = int(np.searchsorted(self._ends, rows - 1, side="right")) + 1
    places = np.flatnonzero(self._form.may_be_cut(self._lengths[:number]))
    return sum(
      self._form.exceeded(ids, text) is not None
      for start in range(0, len(places), _SOME)
      for ids, text in self._records.read(places[start : start + _SOME])
    )

  def rows_of(self, examples: int) -> int:
    """Returns the number of rows of so many of the first examples."""
    return int(self._ends[min(examples, len(self._ends)) - 1])

  def lengths(self, indices: np.ndarray | slice) -> np.ndarray:
    """As `Source.lengths`."""
    owners, windows = self._find(np.arange(self.num_examples)[indices])
    lengths = self._form.row_lengths(self._lengths[owners], windows)
    return lengths.astype(np.int32)[:, None]

  def read(self, indices: np.ndarray, seed: int, keys: np.ndarray) -> Examples:
    """As `Source.read`; nothing is drawn."""
    del seed, keys
    owners, windows = self._find(np.asarray(indices))
    rows, texts = [], []
    for (ids, text), owner, window in zip(
      self._records.read(owners), owners, windows, strict=True
    ):
      row, described = self._form(ids, text, window)
      if "window" in described:
        described["window"]["example"] = int(owner)
      rows.append(row if self._head is None else self._among_others(row))
      texts.append(text | described)
    joined = {name: Ragged.of([row[name] for row in rows]) for name in rows[0]}
    return Examples(joined, texts)

  def _among_others(self, row: forms.Row) -> forms.Row:
    """Returns a row with the features of rows in any form."""
    number = len(row["inputs"])
    return {
      "segment_lengths": np.array([number], np.int32),
      **{name: np.array([-1], np.int32) for name in self._labels},
      **row,
      "heads": np.full(number, self._head, np.int32),
    }

  def _find(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the example of each row, and its number among its windows."""
    owners = np.searchsorted(self._ends, rows, side="right")
    before = np.append(0, self._ends)[owners]
    return owners, rows - before
