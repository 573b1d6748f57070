"""Benchmarks in the forms of an encoder, beside their text-to-text tasks.

A form is a task `TASK:FORM`. It has the source, the post-processing and the
metrics of the text-to-text task, and its examples have the fields that these
read; the answer of a model is written as the target text of the task. So
scores, averages and submissions are the same. Rows of files get a form by
`ClassesTask` and its siblings (tasks/your_data/forms.py), which end in
`PiecesStep` here; for a SeqIO task over another source, one call registers it:

    register_classes("glue_mrpc_v002", "{sentence1}", "{sentence2}",
                     classes=("not_equivalent", "equivalent"))

    {'sentence1': 'He ran.', 'sentence2': 'She ran.', 'label': 0, 'idx': 7}
    -> first 'he ran .', second 'she ran .', label 0,
       targets_pretokenized 'not_equivalent'

Texts are templates over the fields of a raw row, or functions of a row.
`transformer_zoo/data/features/forms.py` describes what is written and how it
becomes rows.
"""

from collections.abc import Callable, Mapping, Sequence
import functools
import re
from typing import Any

import numpy as np
import seqio
import tensorflow as tf

from tasks import vocabulary as vocabularies_of_tasks
from transformer_zoo.data import vocabularies
from transformer_zoo.data.features import forms
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.answers import tagged_text

Example = Mapping[str, Any]
# A template such as '{premise}', or a function of a raw example.
Text = str | Callable[[Example], tf.Tensor]
Expand = Callable[[tf.data.Dataset], tf.data.Dataset]

# The target text of an example whose label is hidden.
HIDDEN = "<unk>"
_FIELD = re.compile(r"\{(\w+)\}")


def register_classes(
  task_name: str,
  first: Text,
  second: Text = "",
  *,
  classes: Sequence[str],
  features: Mapping[str, seqio.Feature] | None = None,
) -> seqio.Task:
  """Registers `TASK:classes`.

  Args:
    task_name: A text-to-text task whose targets are `classes`, or `<unk>` for a
      hidden one.
    first: The first text.
    second: The second text; empty for none.
    classes: The target texts in the order of their class ids.
    features: The features `first` and `second`; in the vocabulary of
      `EncoderVocabulary` by default.
  """
  return _register(
    task_name,
    {"form": "classes", "classes": list(classes)},
    {"first": first, "second": second},
    features,
  )


def register_number(
  task_name: str,
  first: Text,
  second: Text = "",
  *,
  label: str = "label",
  hidden: float | None = None,
  features: Mapping[str, seqio.Feature] | None = None,
) -> seqio.Task:
  """Registers `TASK:number`.

  Args:
    task_name: A text-to-text task whose targets are numbers.
    first: The first text.
    second: The second text; empty for none.
    label: The field with the number, which the targets may round.
    hidden: The number that stands for a hidden one; None if none is hidden.
    features: The features, as in `register_classes`.
  """
  return _register(
    task_name,
    {"form": "number"},
    {
      "first": first,
      "second": second,
      "label": functools.partial(number, label=label, hidden=hidden),
    },
    features,
    settings=[label, hidden],
  )


def register_choices(
  task_name: str,
  first: Text,
  choices: Sequence[Text] | Text,
  *,
  answers: Sequence[str],
  expand: Expand | None = None,
  features: Mapping[str, seqio.Feature] | None = None,
) -> seqio.Task:
  """Registers `TASK:choices`.

  Args:
    task_name: A text-to-text task whose targets are `answers`, or `<unk>` for a
      hidden one.
    first: The text that goes before each choice.
    choices: The texts of the choices, or a function that returns all of them,
      a vector of strings.
    answers: The target texts of the choices, as many as a row has at most.
    expand: Makes several raw examples of one, as the text-to-text task does.
    features: The features, as in `register_classes`.
  """
  if not callable(choices) and not isinstance(choices, str):
    parts = [_text(choice) for choice in choices]
    texts = lambda example: tf.stack([part(example) for part in parts])  # noqa: E731
  else:
    texts = choices
  return _register(
    task_name,
    {"form": "choices", "most": len(answers)},
    {
      "first": first,
      "seconds": texts,
      "choices": lambda example: tf.constant(list(answers)),
    },
    features,
    expand=expand,
    settings=[list(answers), _described(choices)],
  )


def register_embedding(
  task_name: str,
  texts: Sequence[Text],
  *,
  label: Callable[[Example], tf.Tensor] | None = None,
  scored: bool = True,
  features: Mapping[str, seqio.Feature] | None = None,
) -> seqio.Task:
  """Registers `TASK:embedding`.

  Args:
    task_name: A text-to-text task.
    texts: The texts that have a vector each: an anchor, its positive, and hard
      negatives.
    label: Returns the number of the first two texts, NaN where it is hidden;
      None if no row has one.
    scored: Whether the metrics of the task compare cosines with its targets.
    features: The features, as in `register_classes`.
  """
  parts = [_text(text) for text in texts]
  found = {"texts": lambda row: tf.stack([part(row) for part in parts])}
  if label is not None:
    found["label"] = label
  return _register(
    task_name,
    {"form": "embedding"},
    found,
    features,
    settings=[*map(_described, texts)],
    scored=scored,
  )


def register_spans(
  task_name: str,
  question: Text,
  context: Text,
  *,
  answers: Callable[[Example], tf.Tensor],
  starts: Callable[[Example], tf.Tensor] | None = None,
  no_answer: str | None = None,
  features: Mapping[str, seqio.Feature] | None = None,
) -> seqio.Task:
  """Registers `TASK:spans`.

  Its `context` and `answers` are written as in the raw rows, which the official
  metrics compare, and not with spaces around punctuation.

  Args:
    task_name: A text-to-text task of questions about a context.
    question: The question.
    context: The context.
    answers: Returns the accepted answers of a row, a vector of strings.
    starts: Returns the character of the context that each begins with; None to
      look for the first one.
    no_answer: The target text of a question without an answer; None if each
      question has one.
    features: The features, as in `register_classes`.
  """
  fallback = HIDDEN if no_answer is None else no_answer
  found = {
    "first": question,
    "second": context,
    "answers": answers,
    "targets": lambda example: tf.concat([answers(example), [fallback]], 0)[0],
  }
  if starts is not None:
    found["starts"] = starts
  return _register(
    task_name, {"form": "spans", "no_answer": no_answer}, found, features
  )


def register_tags(
  task_name: str,
  *,
  tags: Sequence[str],
  features: Mapping[str, seqio.Feature] | None = None,
) -> seqio.Task:
  """Registers `TASK:tags`.

  Args:
    task_name: A text-to-text task whose examples have `tokens` and `tags`
      (`tagging.bracketed`).
    tags: The names of the tags in IOB2, in the order of their numbers.
    features: The features, as in `register_classes`.
  """
  return _register(
    task_name, {"form": "tags", "tags": list(tags)}, {}, features
  )


def _register(
  task_name: str,
  form: dict[str, Any],
  texts: Mapping[str, Any],
  features: Mapping[str, seqio.Feature] | None,
  *,
  expand: Expand | None = None,
  settings: Any = None,
  scored: bool = True,
) -> seqio.Task:
  """Registers a form of a task."""
  task = seqio.TaskRegistry.get(task_name)
  steps = task.preprocessors
  try:
    steps = steps[: steps.index(seqio.preprocessors.tokenize)]
  except ValueError:
    raise UserError(
      f"Task {task_name!r} has no form {form['form']!r}: none of its steps is "
      "seqio.preprocessors.tokenize, before which its texts would be taken."
    ) from None
  return seqio.TaskRegistry.add(
    f"{task_name}:{form['form']}",
    source=task.source,
    preprocessors=[
      TextsStep(steps, texts, expand, settings),
      PiecesStep(form),
    ],
    postprocess_fn=task.postprocessor if scored else None,
    metric_fns=task.metric_fns if scored else [],
    output_features=features or vocabularies_of_tasks.form_features(),
  )


class TextsStep:
  """A SeqIO preprocessor from raw rows to the texts of a form.

  Attributes:
    steps: The steps of the text-to-text task before its tokenisation.
    texts: The texts of the form by name.
    expand: Makes several raw examples of one.
    settings: JSON of what the functions of `texts` enclose.
  """

  def __init__(
    self,
    steps: Sequence[Callable[..., tf.data.Dataset]],
    texts: Mapping[str, Text],
    expand: Expand | None,
    settings: Any,
  ):
    self.steps = list(steps)
    self.texts = dict(texts)
    self.expand = expand
    self.settings = settings

  def __call__(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns the examples of the text-to-text task with the texts."""
    texts = {name: _text(text) for name, text in self.texts.items()}

    # Row by row: two readings of a shuffled dataset would not be in one order.
    def examples_of(row):
      rows = written = tf.data.Dataset.from_tensors(row)
      for step in self.steps:
        written = step(written)
      if self.expand is not None:
        rows = self.expand(rows)
      return tf.data.Dataset.zip((rows, written))

    def joined(row, example):
      return dict(example) | {name: text(row) for name, text in texts.items()}

    return dataset.flat_map(examples_of).map(
      joined, num_parallel_calls=tf.data.AUTOTUNE
    )


class PiecesStep:
  """A SeqIO preprocessor from the texts of a form to pieces and labels.

  Attributes:
    form: The name of the form, and the names of classes or tags; it is kept in
      the manifest of the prepared task.
  """

  def __init__(self, form: Mapping[str, Any]):
    self.form = dict(form)

  def __call__(
    self,
    dataset: tf.data.Dataset,
    output_features: Mapping[str, seqio.Feature],
  ) -> tf.data.Dataset:
    """Returns examples with the features `first` and `second`."""
    vocabulary = output_features["first"].vocabulary
    pieces = {
      "classes": _pieces_of_classes,
      "number": _pieces_of_texts,
      "choices": _pieces_of_choices,
      "spans": _pieces_of_spans,
      "tags": _pieces_of_tags,
      "embedding": _pieces_of_embedding,
    }[self.form["form"]]

    @seqio.map_over_dataset
    def with_pieces(example):
      example = dict(example)
      for name in ("inputs", "targets"):
        example[f"{name}_pretokenized"] = example.pop(name)
      return example | pieces(example, self.form, vocabulary)

    return with_pieces(dataset)


def _pieces_of_texts(example, form, vocabulary):
  """Returns the pieces of two texts."""
  del form
  return {
    name: tf.cast(vocabulary.encode_tf(example[name]), tf.int32)
    for name in ("first", "second")
  }


def _pieces_of_classes(example, form, vocabulary):
  """Returns the pieces of two texts, and the number of the class."""
  label = _place_in(form["classes"], example["targets_pretokenized"])
  return _pieces_of_texts(example, form, vocabulary) | {"label": label}


def _pieces_of_choices(example, form, vocabulary):
  """Returns the pieces of a text and its continuations, and the right one."""
  del form
  texts = example.pop("seconds")
  number = tf.size(texts)
  example["choices"] = example["choices"][:number]
  seconds = vocabulary.encode_tf(texts)
  return {
    "first": tf.cast(vocabulary.encode_tf(example["first"]), tf.int32),
    "second": tf.cast(seconds.values, tf.int32),
    "second_lengths": tf.cast(seconds.row_lengths(), tf.int32),
    "label": _place_in(example["choices"], example["targets_pretokenized"]),
  }


def _pieces_of_embedding(example, form, vocabulary):
  """Returns the pieces of the texts, and the number of the first two."""
  del form
  pieces = vocabulary.encode_tf(example.pop("texts"))
  others = pieces[1:]
  return {
    "first": tf.cast(pieces[0], tf.int32),
    "second": tf.cast(others.values, tf.int32),
    "second_lengths": tf.cast(others.row_lengths(), tf.int32),
    "label": tf.cast(example.pop("label", np.nan), tf.float32),
  }


def _pieces_of_spans(example, form, vocabulary):
  """Returns the pieces of a question and its context, and the answer's."""
  del form
  ours = vocabularies.from_seqio(vocabulary)

  def find(context, answers, starts):
    context = context.decode("utf-8")
    ids, places = ours.encode_with_places(context)
    first, last = -1, -1
    if len(answers):
      answer = answers[0].decode("utf-8")
      start = find_answer(context, answer, starts[0] if len(starts) else None)
      first, last = pieces_between(places, start, start + len(answer))
    return (
      ids,
      places[:, 0].copy(),
      places[:, 1].copy(),
      np.int32(first),
      np.int32(last),
    )

  starts = example.pop("starts", tf.zeros([0], tf.int32))
  ids, begins, ends, first, last = tf.numpy_function(
    find,
    [example["second"], example["answers"], tf.cast(starts, tf.int32)],
    [tf.int32] * 5,
    stateful=False,
  )
  question = vocabulary.encode_tf(example["first"])
  return {
    "context": example["second"],
    "first": tf.cast(question, tf.int32),
    "second": tf.ensure_shape(ids, [None]),
    "piece_starts": tf.ensure_shape(begins, [None]),
    "piece_ends": tf.ensure_shape(ends, [None]),
    "answer_start": tf.ensure_shape(first, []),
    "answer_end": tf.ensure_shape(last, []),
  }


def _pieces_of_tags(example, form, vocabulary):
  """Returns the pieces of a sentence, and the first piece and tag of words."""
  ours = vocabularies.from_seqio(vocabulary)

  def find(tokens, tags):
    words = [token.decode("utf-8") for token in tokens]
    numbers = tag_numbers([tag.decode("utf-8") for tag in tags], form["tags"])
    ids, places = ours.encode_with_places(" ".join(words))
    return ids, forms.first_pieces(words, places), np.array(numbers, np.int32)

  ids, first, numbers = tf.numpy_function(
    find, [example["tokens"], example["tags"]], [tf.int32] * 3, stateful=False
  )
  return {
    "first": tf.ensure_shape(ids, [None]),
    "second": tf.zeros([0], tf.int32),
    "first_pieces": tf.ensure_shape(first, [None]),
    "label": tf.ensure_shape(numbers, [None]),
  }


def find_answer(context: str, answer: str, start: int | None) -> int:
  """Returns the character of a context that an answer begins with.

  Args:
    context: The context.
    answer: The answer.
    start: Where the answer begins; None for its first place between words, or
      else within one.

  Raises:
    ValueError: The answer is not there.
  """
  if start is not None:
    if context[start : start + len(answer)] == answer:
      return start
    raise ValueError(
      f"the answer {answer!r} is not at character {start} of its context, "
      f"which has {context[start : start + len(answer)]!r} there"
    )
  whole = re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", context)
  place = whole.start() if whole else context.find(answer)
  if place < 0 or not answer:
    raise ValueError(
      f"the answer {answer!r} is not in its context {context[:60]!r}"
    )
  return place


def pieces_between(places: np.ndarray, start: int, end: int) -> tuple[int, int]:
  """Returns the first and the last piece that has some of the characters.

  Args:
    places: The characters of each piece, int [pieces, 2].
    start: The first character.
    end: The character after the last one.

  Raises:
    ValueError: No piece has any of them.
  """
  found = np.flatnonzero((places[:, 1] > start) & (places[:, 0] < end))
  if not found.size:
    raise ValueError(f"no piece has the characters {start} to {end}")
  return int(found[0]), int(found[-1])


def tag_numbers(tags: Sequence[str], names: Sequence[str]) -> list[int]:
  """Returns the number of each tag of a sentence, which may be in IOB1 or IOB2.

  Args:
    tags: The tags.
    names: The names of all tags in IOB2.

  Raises:
    ValueError: A tag is none of them.
  """
  numbers = {name: number for number, name in enumerate(names)}
  found = ["O"] * len(tags)
  for kind, start, end in tagged_text.entities(tags):
    found[start:end] = [f"B-{kind}", *[f"I-{kind}"] * (end - start - 1)]
  for tag in found:
    if tag not in numbers:
      raise ValueError(f"the tag {tag!r} is none of {', '.join(names)}")
  return [numbers[tag] for tag in found]


def _place_in(names: Any, name: tf.Tensor) -> tf.Tensor:
  """Returns the place of a target text among some, -1 for a hidden one.

  A text that is none of them and not `HIDDEN` ends the reading in a ValueError.
  """
  names = tf.constant(names) if isinstance(names, list) else names
  found = tf.equal(names, name)
  place = tf.argmax(tf.cast(found, tf.int32), output_type=tf.int32)
  place = tf.where(tf.reduce_any(found), place, -1)
  is_known = tf.reduce_any(found) | tf.equal(name, HIDDEN)
  place = tf.cond(
    is_known,
    lambda: place,
    lambda: tf.numpy_function(_refuse, [name, names], tf.int32),
  )
  # Examples of known shapes are read in batches.
  return tf.ensure_shape(place, [])


def _refuse(name: bytes, names: np.ndarray) -> np.int32:
  listed = ", ".join(each.decode("utf-8") for each in names)
  raise ValueError(f"the target {name.decode('utf-8')!r} is none of {listed}")


def number(
  example: Example, label: str = "label", hidden: float | None = None
) -> tf.Tensor:
  """Returns the number of a row, float32, NaN where it is hidden.

  Args:
    example: A raw row.
    label: The field with the number.
    hidden: The number that stands for a hidden one; None if none is hidden.
  """
  value = _as_number(example[label])
  if hidden is not None:
    value = tf.where(value == hidden, np.float32(np.nan), value)
  return value


def _as_number(value: tf.Tensor) -> tf.Tensor:
  if value.dtype == tf.string:
    return tf.strings.to_number(value, tf.float32)
  return tf.cast(value, tf.float32)


def _text(text: Text) -> Callable[[Example], tf.Tensor]:
  """Returns the function that writes a text of a raw example."""
  if callable(text):
    return text
  pieces = _FIELD.split(text)

  def write(example):
    # Every other piece is the name of a field.
    parts = [
      example[piece] if i % 2 else tf.constant(piece)
      for i, piece in enumerate(pieces)
    ]
    return tf.strings.join(parts)

  return write


def _described(texts: Any) -> Any:
  return texts if isinstance(texts, str) or callable(texts) else list(texts)
