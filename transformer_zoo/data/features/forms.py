"""Rows of an encoder made of the pieces of an example, in each of six forms.

    classes, number   [CLS] first [SEP] second [SEP]     [CLS] first [SEP]
    tags              [CLS] words [SEP]
    choices           [CLS] first [SEP] a [SEP] [CLS] first [SEP] b [SEP] ...
    embedding         [CLS] first [SEP] [CLS] a [SEP] [CLS] b [SEP] ...
    spans             [CLS] question [SEP] a window of the context [SEP]

A prepared example has the pieces of its texts without special tokens, as the
features `first` and `second`, so that one folder of records serves rows of any
length and both formats of separators. Beside them a record has what a form
needs (`label`, `choices`, places of pieces in the context, ...), which each
class below names, and what the text-to-text task has: `targets_pretokenized`
and the fields that its post-processing reads.

A form is described once, by its class: its rows, the head and the scorer that
answer it, and the texts that it reads; `FORMS` has them by name.

Special tokens are those that the vocabulary has; where it lacks [SEP], EOS
stands for it.
"""

import abc
from collections.abc import Mapping, Sequence
import dataclasses
from typing import Any, ClassVar

import numpy as np

from transformer_zoo.corruption.special_tokens import separator_id
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import UserError

FEATURES = ("first", "second")
# google-research/bert, run_squad.py: --doc_stride and --max_query_length.
STRIDE = 128
LONGEST_QUESTION = 64

Row = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Frame:
  """The special tokens around one or two texts.

  Attributes:
    begin: The ids before the first text.
    between: The ids between two texts.
    end: The ids behind the last text.
    apart: The number of ids at the end that are of a segment of their own,
      whose token type is 2.
  """

  begin: tuple[int, ...]
  between: tuple[int, ...]
  end: tuple[int, ...]
  apart: int = 0

  @classmethod
  def of(
    cls,
    vocabulary: Vocabulary,
    separators: int,
    cls_place: str = "first",
    first_new_id: int | None = None,
  ) -> "Frame":
    """Returns the frame of a vocabulary.

    Args:
      vocabulary: The vocabulary of the pieces.
      separators: The number of separators between two texts.
      cls_place: Where [CLS] stands, "first" or, as in XLNet, "last".
      first_new_id: The id of the first of three tokens that no vocabulary has:
        start, delimiter and extract (Radford et al. 2018, section 3.3), which
        stand before, between and behind the texts; None for the special tokens
        of the vocabulary.
    """
    if first_new_id is not None:
      start, delimiter, extract = range(first_new_id, first_new_id + 3)
      return cls((start,), (delimiter,), (extract,))
    mark = () if vocabulary.cls_id is None else (vocabulary.cls_id,)
    separator = separator_id(vocabulary)
    end = () if separator is None else (separator,)
    if cls_place == "last":
      return cls((), end * separators, end + mark, len(mark))
    return cls(mark, end * separators, end)

  def specials(self, has_second: np.ndarray | bool) -> np.ndarray | int:
    """Returns the number of special tokens of rows with one or two texts."""
    return len(self.begin) + len(self.end) + has_second * len(self.between)

  def join(self, first: np.ndarray, second: np.ndarray) -> Row:
    """Returns `inputs` and `token_types` of one row."""
    between = self.between if len(second) else ()
    opening = [self.begin, first, between or self.end]
    closing = [second, self.end] if len(second) else []
    inputs = np.concatenate([*opening, *closing]).astype(np.int32)
    types = np.zeros(len(inputs), np.int32)
    types[sum(map(len, opening)) :] = 1
    types[len(types) - self.apart :] = 2
    return {"inputs": inputs, "token_types": types}

  def join_cut(self, first: np.ndarray, second: np.ndarray, length: int) -> Row:
    """Returns a row of at most `length` tokens; the longer text is cut."""
    room = length - self.specials(len(second) > 0)
    kept_first, kept_second = shortened(len(first), len(second), room)
    return self.join(first[:kept_first], second[:kept_second])


def shortened(first: int, second: int, room: int) -> tuple[int, int]:
  """Returns the pieces that stay of two texts, cut at their ends.

  The longer text loses a piece until both fit; of two equal ones the second
  does (`_truncate_seq_pair` of google-research/bert, run_classifier.py).

  Args:
    first: The number of pieces of the first text.
    second: The number of pieces of the second text.
    room: The most pieces of both together.
  """
  second_left = min(second, max(room // 2, room - first))
  return min(first, room - second_left), second_left


@dataclasses.dataclass(frozen=True)
class Form(abc.ABC):
  """A form of a benchmark's examples, and its rows.

  Attributes:
    frame: The special tokens.
    length: The most tokens of a row.
    answer_place: The place of the token of a text that answers for all of it,
      0 or -1.
    name: The name of the form, in `EncoderFeatures.form` and `TASK:FORM`.
    head: The name of the head that answers.
    scorer: The module and the class in `evaluation.scorers` that write the
      answer of the head as text, and score it.
    num_texts: The least and the largest number of texts of an example; the
      largest is None for any.
    names: Whether the `form` of a task lists the names of its answers under the
      name of the form.
    answers_at_one_token: Whether an example has one prediction.
    shares_rows: Whether several examples may stand in one row.
    has_segments: Whether an example consists of several texts, a segment each.
    cut_part: What is cut where an example is too long, in the plural.
    least: The fewest pieces of text in a row.
  """

  frame: Frame
  length: int
  answer_place: int = 0
  name: ClassVar[str]
  head: ClassVar[str]
  scorer: ClassVar[str]
  num_texts: ClassVar[tuple[int, int | None]] = (1, 2)
  names: ClassVar[bool] = False
  answers_at_one_token: ClassVar[bool] = False
  shares_rows: ClassVar[bool] = True
  has_segments: ClassVar[bool] = False
  cut_part: ClassVar[str] = "inputs"
  least: ClassVar[int] = 2

  def __post_init__(self):
    needed = self.frame.specials(True) + self.least
    if self.length < needed:
      raise UserError(
        f"Inputs of {self.length} tokens are too short for two texts and their "
        f"special tokens; give them at least {needed}."
      )

  @classmethod
  def record(
    cls, vocabulary: Vocabulary, texts: Sequence[str]
  ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Returns what a prepared record of texts without a label has.

    Args:
      vocabulary: The vocabulary of the texts.
      texts: The texts, as many as `num_texts` allows.

    Returns:
      The pieces, `first` and `second`, and the rest of the record.
    """
    first, second = (
      np.array([] if text is None else vocabulary.encode(text), np.int32)
      for text in (*texts, None)[:2]
    )
    return {"first": first, "second": second}, {"label": -1}

  def num_rows(self, lengths: np.ndarray) -> np.ndarray:
    """Returns the rows of each example, int64 [n].

    Args:
      lengths: The pieces of both texts, int [n, 2].
    """
    return np.ones(len(lengths), np.int64)

  def whole_lengths(self, lengths: np.ndarray) -> np.ndarray:
    """Returns the tokens of each example with nothing cut off, int64 [n]."""
    first, second = lengths.T.astype(np.int64)
    return first + second + self.frame.specials(second > 0)

  def may_be_cut(self, lengths: np.ndarray) -> np.ndarray:
    """Returns which examples something may be cut of, bool [n].

    Args:
      lengths: The pieces of both texts, int [n, 2].
    """
    return self.whole_lengths(lengths) > self.length

  def exceeded(
    self, ids: Mapping[str, np.ndarray], text: Mapping[str, Any]
  ) -> int | None:
    """Returns the most tokens of what is cut in an example.

    Args:
      ids: The pieces of the example, `first` and `second`.
      text: The rest of its record.

    Returns:
      The limit of a row, of a choice or of a question; None if nothing exceeds
      it.
    """
    del text
    lengths = np.array([[len(ids["first"]), len(ids["second"])]])
    is_cut = self.whole_lengths(lengths)[0] > self.length
    return self.length if is_cut else None

  def row_lengths(self, lengths: np.ndarray, window: np.ndarray) -> np.ndarray:
    """Returns the tokens of rows, int64 [n].

    Args:
      lengths: The pieces of both texts of the example of each row, int [n, 2].
      window: The number of each row among the rows of its example, int64 [n].
    """
    del window
    return np.minimum(self.whole_lengths(lengths), self.length)

  def _with_answer(self, row: Row, target: int, has_label: bool) -> Row:
    """Adds `targets` and `weights` of a row that predicts at one token."""
    targets, weights = np.zeros((2, len(row["inputs"])), np.int32)
    targets[self.answer_place] = target
    weights[self.answer_place] = has_label
    return row | {"targets": targets, "weights": weights}

  @abc.abstractmethod
  def __call__(
    self, ids: Mapping[str, np.ndarray], text: Mapping[str, Any], window: int
  ) -> tuple[Row, dict[str, Any]]:
    """Makes a row.

    Args:
      ids: The pieces of the example, `first` and `second`.
      text: The rest of its record.
      window: The number of the row among the rows of the example.

    Returns:
      The features that the converter `Encoder` reads, each int32 [tokens] or
      [1], and what a scorer needs beside `text`.
    """


class Classes(Form):
  """One or two texts with a class at the answering token.

  Records have `label`, the number of the class or -1 where it is hidden. The
  task's `form` has `classes`, the target texts in the order of the numbers.
  """

  name = head = "classes"
  scorer = "heads.ClassScorer"
  names = True
  answers_at_one_token = True

  def __call__(self, ids, text, window):
    """As `Form.__call__`."""
    del window
    row = self.frame.join_cut(ids["first"], ids["second"], self.length)
    label = text["label"]
    return self._with_answer(row, max(label, 0), label >= 0), {}


class Number(Form):
  """One or two texts with a number at the answering token.

  Records have `label`, a number, NaN where it is hidden. The target is the
  32 bits of the float.
  """

  name = head = "number"
  scorer = "heads.NumberScorer"
  answers_at_one_token = True

  @classmethod
  def record(cls, vocabulary, texts):
    """As `Form.record`."""
    ids, _ = super().record(vocabulary, texts)
    return ids, {"label": np.nan}

  def __call__(self, ids, text, window):
    """As `Form.__call__`."""
    del window
    row = self.frame.join_cut(ids["first"], ids["second"], self.length)
    label = np.float32(text["label"])
    hidden = bool(np.isnan(label))
    bits = np.float32(0 if hidden else label).view(np.int32)
    return self._with_answer(row, int(bits), not hidden), {}


@dataclasses.dataclass(frozen=True)
class BothOrders(Form):
  """A pair in both orders, a segment each, which answer together.

  The row of a pair as it stands follows the row of the pair turned around, each
  of at most half of the tokens (Radford et al. 2018, section 3.3,
  "Similarity"). The second row has the targets; `other_order` is the place of
  the answering token of the first. A text without a second one stands once, and
  `other_order` is -1.

  Attributes:
    of_one: The form of one order.
  """

  of_one: Form | None = None
  shares_rows: ClassVar[bool] = False

  def whole_lengths(self, lengths):
    """As `Form.whole_lengths`."""
    pairs = lengths[:, 1] > 0
    return super().whole_lengths(lengths) * np.where(pairs, 2, 1)

  def may_be_cut(self, lengths):
    """As `Form.may_be_cut`."""
    return self.of_one.may_be_cut(lengths)

  def exceeded(self, ids, text):
    """As `Form.exceeded`."""
    return self.of_one.exceeded(ids, text)

  def __call__(self, ids, text, window):
    """As `Form.__call__`."""
    row, _ = self.of_one(ids, text, window)
    parts, other = [row], -1
    if len(ids["second"]):
      turned = {"first": ids["second"], "second": ids["first"]}
      before, _ = self.of_one(turned, {**text, "label": _hidden(text)}, window)
      parts, other = [before, row], len(before["inputs"]) - 1
    joined = {
      name: np.concatenate([part[name] for part in parts]) for name in row
    }
    segments = [len(part["inputs"]) for part in parts]
    return joined | {
      "segment_lengths": np.array(segments, np.int32),
      "other_order": np.array([other], np.int32),
    }, {}


def _hidden(text: Mapping[str, Any]) -> float | int:
  """A label that is none."""
  return np.nan if isinstance(text["label"], float) else -1


@dataclasses.dataclass(frozen=True)
class Choices(Form):
  """A text with several continuations, one of which is right.

  Each has a part of the row, at most an equal share of its tokens, in which it
  stands as the second text.

  Records have `second_lengths`, the pieces of each continuation in `second`;
  `choices`, the target text of each; and `label`, the number of the right one,
  -1 where it is hidden.

  Attributes:
    most: The most choices of an example; None if it is not known before the
      records are read, so that every row may be full.
    longest: The most tokens of a part; None for an equal share of the row.
  """

  most: int | None = None
  longest: int | None = None
  name: ClassVar[str] = "choices"
  head: ClassVar[str] = "choice"
  scorer: ClassVar[str] = "heads.ChoiceScorer"
  num_texts: ClassVar[tuple[int, int | None]] = (2, None)
  shares_rows: ClassVar[bool] = False
  has_segments: ClassVar[bool] = True
  cut_part: ClassVar[str] = "choices"

  @classmethod
  def record(cls, vocabulary, texts):
    """As `Form.record`: a text, and the choices that may follow it."""
    first, *choices = (
      np.array(vocabulary.encode(text), np.int32) for text in texts
    )
    return {"first": first, "second": np.concatenate(choices)}, {
      "label": -1,
      "choices": list(texts[1:]),
      "second_lengths": list(map(len, choices)),
    }

  def whole_lengths(self, lengths):
    """As `Form.whole_lengths`; of an example with fewer choices, more."""
    if self.most is None:
      return np.full(len(lengths), self.length)
    first, second = lengths.T.astype(np.int64)
    return self.most * (first + self.frame.specials(True)) + second

  def may_be_cut(self, lengths):
    """As `Form.may_be_cut`: what a choice is alone stands in its record."""
    if self.most is None:
      return np.ones(len(lengths), bool)
    first, second = lengths.T.astype(np.int64)
    longest = first + second + self.frame.specials(True)
    return longest > self._share(self.most)

  def exceeded(self, ids, text):
    """As `Form.exceeded`: each choice stands in its part of the row."""
    sizes = np.array(text["second_lengths"])
    parts = len(ids["first"]) + sizes + self.frame.specials(sizes > 0)
    share = self._share(len(sizes))
    return share if (parts > share).any() else None

  def _share(self, choices: int) -> int:
    """The most tokens of a part."""
    return min(self.length // choices, self.longest or self.length)

  def __call__(self, ids, text, window):
    """As `Form.__call__`."""
    del window
    sizes, label = text["second_lengths"], text["label"]
    length = self._share(len(sizes))
    if length < self.frame.specials(True) + self.least:
      raise UserError(
        f"Inputs of {self.length} tokens are too short for {len(sizes)} "
        "choices; give them at least "
        f"{len(sizes) * (self.frame.specials(True) + self.least)}."
      )
    parts = []
    for number, second in enumerate(
      np.split(ids["second"], np.cumsum(sizes)[:-1])
    ):
      part = self.frame.join_cut(ids["first"], second, length)
      parts.append(self._with_answer(part, number == label, label >= 0))
    return _one_behind_the_other(parts), {}


def _one_behind_the_other(parts: Sequence[Row]) -> Row:
  """Returns a row of several, with the tokens of each as `segment_lengths`."""
  segments = [len(part["inputs"]) for part in parts]
  return {
    name: np.concatenate([part[name] for part in parts]) for name in parts[0]
  } | {"segment_lengths": np.array(segments, np.int32)}


@dataclasses.dataclass(frozen=True)
class Embedding(Form):
  """Texts that have a vector each: an anchor, its positive, hard negatives.

  Each has a part of the row, at most an equal share of its tokens.

  Records have `second_lengths`, the pieces of each text behind the first in
  `second`; and `label`, a number of the first two texts, NaN without one: their
  similarity, or the number of a class. The target at the answering token of
  each text is the 32 bits of the label.

  Attributes:
    most: The most texts of a row; those behind them are left out.
    longest: The most tokens of a text; None for an equal share of the row.
  """

  most: int = 2
  longest: int | None = None
  name: ClassVar[str] = "embedding"
  head: ClassVar[str] = "embedding"
  scorer: ClassVar[str] = "heads.SimilarityScorer"
  num_texts: ClassVar[tuple[int, int | None]] = (2, 2)
  shares_rows: ClassVar[bool] = False
  has_segments: ClassVar[bool] = True
  cut_part: ClassVar[str] = "texts"

  def __post_init__(self):
    needed = self.frame.specials(False) + 1
    if self._share < needed:
      raise UserError(
        f"Inputs of {self.length} tokens are too short for {self.most} texts; "
        f"give them at least {self.most * needed}."
      )

  @classmethod
  def record(cls, vocabulary, texts):
    """As `Form.record`: the texts of a row."""
    first, *others = (
      np.array(vocabulary.encode(text), np.int32) for text in texts
    )
    return {"first": first, "second": np.concatenate(others)}, {
      "label": np.nan,
      "second_lengths": list(map(len, others)),
    }

  def whole_lengths(self, lengths):
    """As `Form.whole_lengths`; of an example with fewer texts, more."""
    specials = self.most * self.frame.specials(False)
    return lengths.sum(axis=1, dtype=np.int64) + specials

  def may_be_cut(self, lengths):
    """As `Form.may_be_cut`: the length of a text stands in its record."""
    return lengths.max(axis=1) + self.frame.specials(False) > self._share

  def exceeded(self, ids, text):
    """As `Form.exceeded`: each text stands in its part of the row."""
    longest = max(map(len, self._texts(ids, text)))
    return (
      self._share
      if longest + self.frame.specials(False) > self._share
      else None
    )

  @property
  def _share(self) -> int:
    """The most tokens of a text, special ones too."""
    return min(self.length // self.most, self.longest or self.length)

  def _texts(self, ids, text) -> list[np.ndarray]:
    """The pieces of the texts of a row."""
    ends = np.cumsum(text["second_lengths"], dtype=np.int64)
    others = np.split(ids["second"], ends)[:-1]
    return [ids["first"], *others][: self.most]

  def __call__(self, ids, text, window):
    """As `Form.__call__`."""
    del window
    bits = int(np.float32(text["label"]).view(np.int32))
    nothing = ids["first"][:0]
    rows = (
      self.frame.join_cut(pieces, nothing, self._share)
      for pieces in self._texts(ids, text)
    )
    parts = [self._with_answer(row, bits, True) for row in rows]
    return _one_behind_the_other(parts), {}


class Spans(Form):
  """A question and windows of a context that may have the answer in it.

  Windows begin every `STRIDE` pieces, and the last one ends with the context.
  A window that does not have the whole answer has it at place 0, as has a
  question without an answer (google-research/bert, run_squad.py).

  Records have `context`, its text; `piece_starts` and `piece_ends`, the
  characters of it that each piece of `second` is; and `answer_start` and
  `answer_end`, the first and the last piece of the answer, -1 for none. A row
  comes with `window`: `example`, the number of the question in the split;
  `number` of `count` windows; `start`, its first piece of the context, and
  `pieces`, how many it has; `place`, where in the row the first of them stands.
  """

  name = head = "spans"
  scorer = "spans.SpanScorer"
  num_texts = (2, 2)
  shares_rows = False
  cut_part = "questions"

  @classmethod
  def record(cls, vocabulary, texts):
    """As `Form.record`: a question, and the context that may answer it."""
    question, context = texts
    second, places = vocabulary.encode_with_places(context)
    first = np.array(vocabulary.encode(question), np.int32)
    return {"first": first, "second": second}, {
      "context": context,
      "answers": [],
      **{"answer_start": -1, "answer_end": -1},
      **{"piece_starts": places[:, 0], "piece_ends": places[:, 1]},
    }

  def _question(self, pieces: np.ndarray) -> np.ndarray:
    return np.minimum(pieces, min(LONGEST_QUESTION, self._longest))

  @property
  def _longest(self) -> int:
    """The most pieces of a question, half of a row at most."""
    return (self.length - self.frame.specials(True)) // 2

  def _windows(self, lengths: np.ndarray) -> tuple[np.ndarray, ...]:
    """Returns pieces of the context in a window, and between two starts."""
    question = self._question(lengths[:, 0])
    room = self.length - self.frame.specials(True) - question
    return room, np.minimum(room, STRIDE)

  def num_rows(self, lengths):
    """As `Form.num_rows`."""
    lengths = np.asarray(lengths, np.int64)
    room, stride = self._windows(lengths)
    return 1 + -(-np.maximum(lengths[:, 1] - room, 0) // stride)

  def whole_lengths(self, lengths):
    """As `Form.whole_lengths`, of the first window."""
    return self.row_lengths(lengths, np.zeros(len(lengths), np.int64))

  def may_be_cut(self, lengths):
    """As `Form.may_be_cut`."""
    return self._question(lengths[:, 0]) < lengths[:, 0]

  def exceeded(self, ids, text):
    """As `Form.exceeded`: of a question, as no window leaves context out."""
    del text
    question = len(ids["first"])
    kept = int(self._question(question))
    return kept if kept < question else None

  def row_lengths(self, lengths, window):
    """As `Form.row_lengths`."""
    lengths = np.asarray(lengths, np.int64)
    room, stride = self._windows(lengths)
    context = np.minimum(lengths[:, 1] - window * stride, room)
    question = self._question(lengths[:, 0])
    return question + context + self.frame.specials(context > 0)

  def __call__(self, ids, text, window):
    """As `Form.__call__`."""
    question, context = ids["first"], ids["second"]
    lengths = np.array([[len(question), len(context)]])
    (room,), (stride,) = self._windows(lengths)
    start = int(window * stride)
    shown = context[start : start + room]
    question = question[: self._question(len(question))]
    row = self.frame.join(question, shown)
    place = len(row["inputs"]) - len(shown) - len(self.frame.end)
    first, last = text["answer_start"] - start, text["answer_end"] - start
    is_shown = text["answer_start"] >= 0 and 0 <= first and last < len(shown)
    shift = np.array([place]) if is_shown else np.zeros(1, np.int64)
    ends = np.array([first, last]) * is_shown
    nothing = np.zeros(len(row["inputs"]), np.int32)
    described = {
      "number": int(window),
      "count": int(self.num_rows(lengths)[0]),
      "start": start,
      "pieces": len(shown),
      "place": place,
    }
    labels = {
      "answer_starts": (shift + ends[0]).astype(np.int32),
      "answer_ends": (shift + ends[1]).astype(np.int32),
    }
    return (
      row | {"targets": nothing, "weights": nothing} | labels,
      {"window": described},
    )


class Tags(Form):
  """Words with a tag at the first piece of each.

  Records have `tokens`, the words; `first_pieces`, the piece of `first` that
  each begins with, -1 for a word without one; and `label`, the number of each
  tag. The task's `form` has `tags`, their names in the order of the numbers. A
  row comes with `first_places`: where in the row each word begins, -1 for a
  word that has no piece or is cut off.
  """

  name = head = "tags"
  scorer = "heads.TagScorer"
  num_texts = (1, 1)
  names = True
  least = 1

  @classmethod
  def record(cls, vocabulary, texts):
    """As `Form.record`: words with spaces between them."""
    words = texts[0].split()
    ids, places = vocabulary.encode_with_places(" ".join(words))
    return {"first": ids, "second": ids[:0]}, {
      "tokens": words,
      "first_pieces": first_pieces(words, places),
      "label": [-1] * len(words),
    }

  def __call__(self, ids, text, window):
    """As `Form.__call__`."""
    del window
    room = self.length - self.frame.specials(False)
    row = self.frame.join(ids["first"][:room], ids["second"][:0])
    pieces = np.asarray(text["first_pieces"], np.int64)
    read = (pieces >= 0) & (pieces < room)
    places = np.where(read, pieces + len(self.frame.begin), -1)
    targets, weights = np.zeros((2, len(row["inputs"])), np.int32)
    targets[places[read]] = np.asarray(text["label"], np.int32)[read]
    weights[places[read]] = 1
    row |= {"targets": targets, "weights": weights}
    return row, {"first_places": places.tolist()}


def first_pieces(words: Sequence[str], places: np.ndarray) -> np.ndarray:
  """Returns the first piece of each word, int32 [words]; -1 where it has none.

  A piece that is only the space before a word is the word's first one, as in
  `word_ids` of `transformers` (XLM-R's tags).

  Args:
    words: The words, which stand with one space between them.
    places: The characters of each piece, int [pieces, 2].
  """
  lengths = np.array([len(word) for word in words], np.int64)
  starts = np.cumsum(lengths + 1) - lengths - 1
  found = np.searchsorted(places[:, 1], starts, side="right")
  begins = np.append(places[:, 0], np.iinfo(np.int32).max)[found]
  has_piece = begins < starts + lengths
  # A piece of two words is the first one's.
  taken = np.maximum.accumulate(np.where(has_piece, found, -1))
  has_piece[1:] &= found[1:] > taken[:-1]
  before = np.maximum(found - 1, 0)
  if len(places):
    found -= (found > 0) & (places[before] == starts[:, None]).all(axis=-1)
  return np.where(has_piece, found, -1).astype(np.int32)


FORMS = {
  each.name: each for each in (Classes, Number, Spans, Choices, Tags, Embedding)
}
# Each task of a mixture in the first of its forms, answered by its own head.
OF_EACH_TASK = "heads"


def name_in_form(name: str, form: str | None) -> str:
  """Returns the name of a task or mixture in a form: `TASK:FORM`.

  Args:
    name: The name of the text-to-text task, or already of the form.
    form: The form; None leaves the name as it is.
  """
  if form is None or name.endswith(f":{form}"):
    return name
  return f"{name}:{form}"


def split_name(name: str) -> tuple[str, str | None]:
  """Returns the task or mixture of a name, and the form that it asks for.

  Args:
    name: A name such as `TASK:FORM` or `TASK`.
  """
  base, _, form = name.rpartition(":")
  is_form = form in (*FORMS, OF_EACH_TASK)
  return (base, form) if base and is_form else (name, None)


def of_task(
  form: Mapping[str, Any],
  vocabulary: Vocabulary,
  length: int,
  *,
  separators: int,
  longest: int | None = None,
  answering: str = "first",
  cls_place: str = "first",
  first_new_id: int | None = None,
  both_orders: bool = False,
  num_texts: int = 2,
) -> Form:
  """Returns what makes the rows of a task.

  Args:
    form: The `form` of a prepared task.
    vocabulary: The vocabulary of its pieces.
    length: The most tokens of a row.
    separators: The number of separators between two texts.
    longest: The most tokens of an example, or of a choice; None for a row's.
    answering: The token of a text that answers for all of it, "first" or
      "last".
    cls_place: As in `Frame.of`.
    first_new_id: As in `Frame.of`.
    both_orders: Whether a pair stands in both orders.
    num_texts: The most texts of a row in the form "embedding".

  Raises:
    UserError: The length is too short.
  """
  frame = Frame.of(vocabulary, separators, cls_place, first_new_id)
  place = {"first": 0, "last": -1}[answering]
  of_one = FORMS[form["form"]]
  if of_one is Choices:
    return Choices(frame, length, place, form.get("most"), longest)
  if of_one is Embedding:
    return Embedding(frame, length, place, num_texts, longest)
  if both_orders:
    half = of_one(frame, min(length // 2, longest or length), place)
    return BothOrders(frame, length, place, half)
  return of_one(frame, min(length, longest or length), place)
