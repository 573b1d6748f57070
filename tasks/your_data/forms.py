"""A user's own rows in the forms of an encoder, by one word of the same call.

    ClassesTask.from_tsv(
      "my_nli",
      splits={"train": "nli/train.tsv", "validation": "nli/dev.tsv"},
      inputs="nli premise: {premise} hypothesis: {hypothesis}",
      targets="{label}",
      labels=["entailment", "neutral", "contradiction"],
      metrics=["accuracy"],
    )

registers the form `my_nli:classes`, and the text-to-text task `my_nli` unless
there is one. The texts of the form are the fields of `inputs`: the first one,
and all others after the separator.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
import functools
from typing import Any, ClassVar

import seqio
import tensorflow as tf

from tasks import vocabulary as vocabularies
from tasks.formats import forms
from tasks.your_data import scoring_by_name
from tasks.your_data import templates
from tasks.your_data import text_to_text
from tasks.your_data.from_files import FromFiles
from tasks.your_data.registration import add_task
from tasks.your_data.rows import Row
from tasks.your_data.rows import RowFiles
from tasks.your_data.rows import RowsDataSource
from tasks.your_data.rows import TEXT
from tasks.your_data.templates import RowProblem
from tasks.your_data.templates import Template
from transformer_zoo.data.features.forms import name_in_form
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.answers import post_processors
from transformer_zoo.evaluation.answers import tagged_text
from transformer_zoo.evaluation.metrics import classification

_TEXTS = tf.TensorSpec((None,), tf.string)
_NUMBERS = tf.TensorSpec((None,), tf.int32)


class _Examples:
  """The examples of a text-to-text task with the texts of a form.

  Attributes:
    as_text: The maker of the text-to-text examples.
    form: What the manifest says of the form.
    fields: The fields of a row that are used.
    signature: The tensor specification of an example.
    settings: JSON of all that the examples depend on.
    metrics: The metrics of the examples.
    post_processing: Their post-processing, or None.
  """

  def __init__(
    self,
    form: Mapping[str, Any],
    examples: Any,
    scoring: tuple[Sequence[Callable[..., Any]], Callable[..., Any] | None],
    texts: Mapping[str, Callable[[Row, Mapping[str, Any]], Any]],
    signature: Mapping[str, tf.TensorSpec],
    fields: Sequence[str],
    settings: Any,
  ):
    self.form = form
    self.metrics, self.post_processing = scoring
    self.as_text = examples
    self._texts = texts
    self.signature = {**examples.signature, **signature}
    self.fields = tuple(dict.fromkeys([*examples.fields, *fields]))
    self.settings = [examples.settings, dict(form), settings]

  def __call__(self, row: Row) -> Iterator[dict[str, Any]]:
    for example in self.as_text(row):
      found = {name: text(row, example) for name, text in self._texts.items()}
      yield example | found


def register(
  form: str,
  name: str,
  files: RowFiles,
  *,
  inputs: str,
  targets: str,
  metrics: scoring_by_name.Metrics = (),
  labels: Sequence[str] | None = None,
  answers: str | Sequence[str] | None = None,
  answer_starts: str | None = None,
  no_answer: str = "unanswerable",
  choices: str | Sequence[str] | None = None,
  texts: Sequence[str] | None = None,
  similarity: str | None = None,
  may_be_empty: Sequence[str] = (),
  vocabulary: str | None = None,
  extra_ids: int | None = None,
) -> seqio.Task:
  """Registers a form of a task over `files`; the arguments are `FormTask`'s."""
  _check_arguments(
    form,
    name,
    {
      "labels": labels,
      "answers": answers,
      "answer_starts": answer_starts,
      "choices": choices,
      "texts": texts,
      "similarity": similarity,
    },
  )
  texts = _texts_of(form, name, inputs, choices, texts)
  options = {"metrics": metrics, "may_be_empty": may_be_empty}
  if form == "tags":
    made = _tags(name, inputs, targets, labels)
  elif form == "choices" and isinstance(choices, str):
    options["choices"] = choices
    made = _listed_choices(name, inputs, targets, choices, texts, may_be_empty)
  else:
    options |= {"labels": labels, "answers": answers, "no_answer": no_answer}
    examples, *scoring = text_to_text.make_examples(
      name, inputs=inputs, targets=targets, **options
    )
    made = _with_texts(
      form, examples, scoring, texts, labels, choices, answer_starts, similarity
    )
  if name not in seqio.TaskRegistry.names():
    if form == "tags":
      add_task(
        name,
        _source(files, made.as_text),
        features=vocabularies.features(vocabulary, extra_ids),
        metric_fns=made.metrics,
        postprocess_fn=made.post_processing,
      )
    else:
      text_to_text.register(
        name,
        files,
        inputs=inputs,
        targets=targets,
        vocabulary=vocabulary,
        extra_ids=extra_ids,
        **options,
      )
  return add_task(
    name_in_form(name, form),
    _source(files, made),
    features=vocabularies.form_features(vocabulary, extra_ids),
    tokenized=[forms.PiecesStep(made.form)],
    metric_fns=made.metrics,
    postprocess_fn=made.post_processing,
  )


def _source(files: RowFiles, examples: Any) -> RowsDataSource:
  return RowsDataSource(
    files,
    examples,
    signature=examples.signature,
    fields=examples.fields,
    settings=examples.settings,
  )


# Argument -> the forms that use it; all use the others.
_USED = {
  "labels": ("classes", "choices", "tags"),
  "answers": ("spans",),
  "answer_starts": ("spans",),
  "choices": ("choices",),
  "texts": ("classes", "number", "spans", "choices", "embedding"),
  "similarity": ("embedding",),
}
_NEEDED = {
  "classes": "labels",
  "number": None,
  "spans": None,
  "choices": "choices",
  "tags": "labels",
  "embedding": "texts",
}


def _check_arguments(form: str, name: str, given: Mapping[str, Any]) -> None:
  """Raises UserError for an argument that the form lacks or does not use."""
  for argument, users in _USED.items():
    if given[argument] is not None and form not in users:
      raise UserError(
        f"Task {name!r} has {argument}=, which the form {form!r} does not use; "
        "leave it out."
      )
  needed = _NEEDED[form]
  if needed and given[needed] is None:
    raise UserError(f"Task {name!r} in the form {form!r} needs {needed}=.")
  listed = not isinstance(given["choices"], (str, type(None)))
  if listed and given["labels"] is None:
    raise UserError(
      f"Task {name!r} has the choices {list(given['choices'])!r}; give the "
      "target text of each, in this order, with labels=."
    )
  if listed and len(given["choices"]) != len(given["labels"]):
    raise UserError(
      f"Task {name!r} has {len(given['choices'])} choices and "
      f"{len(given['labels'])} labels; each choice has one."
    )


def _texts_of(
  form: str,
  name: str,
  inputs: str,
  choices: str | Sequence[str] | None,
  texts: Sequence[str] | None,
) -> dict[str, Template]:
  """Returns the texts of a row, `first` and perhaps `second`.

  Those of an embedding are called by their numbers.
  """
  if form == "embedding":
    if isinstance(texts, str) or len(texts) < 2:
      raise UserError(
        f"Task {name!r} has the texts {texts!r}; list two or more, an anchor, "
        "its positive, and hard negatives."
      )
    return {
      str(number): Template(text, "texts") for number, text in enumerate(texts)
    }
  most = 1 if form == "choices" else 2
  if texts is None:
    listed = [choices] if isinstance(choices, str) else choices or []
    used = {field for text in listed for field in Template(text).fields}
    fields = [f for f in Template(inputs, "inputs").fields if f not in used]
    braced = [f"{{{field}}}" for field in fields]
    if form == "choices":
      texts = [" ".join(braced)]
    else:
      texts = [*braced[:1], *([" ".join(braced[1:])] if braced[1:] else [])]
  if isinstance(texts, str) or not 1 <= len(texts) <= most:
    raise UserError(
      f"Task {name!r} has the texts {texts!r}; list "
      + ("one text." if most == 1 else "one text or two.")
    )
  if form == "spans" and len(texts) != 2:
    raise UserError(
      f"Task {name!r} in the form 'spans' needs two texts, the question and "
      f"its context; the inputs {inputs!r} have {len(texts)}."
    )
  return {
    key: Template(text, "texts")
    for key, text in zip(("first", "second"), texts, strict=False)
  }


def _with_texts(
  form: str,
  examples: text_to_text.RowExamples,
  scoring: Sequence[Any],
  texts: Mapping[str, Template],
  labels: Sequence[str] | None,
  choices: Sequence[str] | None,
  answer_starts: str | None,
  similarity: str | None,
) -> _Examples:
  """Returns the examples of all forms but tags and choices by a list."""
  empty = examples.may_be_empty
  if form == "embedding":
    return _with_vectors(examples, scoring, [*texts.values()], similarity)
  fill = {
    name: (lambda row, _, text=text: text.fill(row, empty))
    for name, text in texts.items()
  }
  fill.setdefault("second", lambda row, example: "")
  fields = [field for text in texts.values() for field in text.fields]
  signature = {"first": TEXT, "second": TEXT}
  described: dict[str, Any] = {"form": form}
  if labels is not None:
    labels = [templates.spell(label) for label in labels]
  if form == "classes":
    described["classes"] = labels
  elif form == "number":
    fill["label"] = lambda row, example: _number(example["targets"])
    signature["label"] = tf.TensorSpec((), tf.float32)
  elif form == "spans":
    described["no_answer"] = examples.no_answer
    starts = answer_starts and Template(answer_starts, "answer_starts")
    fill["answers"] = lambda row, example: _answers(example)
    fill["starts"] = functools.partial(
      _starts, context=texts["second"], starts=starts, empty=empty
    )
    signature |= {"answers": _TEXTS, "starts": _NUMBERS}
    fields += starts.fields if starts else ()
  elif form == "choices":
    parts = [Template(choice, "choices") for choice in choices]
    fields += [field for part in parts for field in part.fields]
    del fill["second"], signature["second"]
    fill["seconds"] = lambda row, _: [part.fill(row, empty) for part in parts]
    fill["choices"] = lambda row, _: labels
    described["most"] = len(parts)
    signature |= {"seconds": _TEXTS, "choices": _TEXTS}
  return _Examples(
    described,
    examples,
    scoring,
    fill,
    signature,
    fields,
    [[text.text for text in texts.values()], choices, answer_starts],
  )


def _with_vectors(
  examples: text_to_text.RowExamples,
  scoring: Sequence[Any],
  texts: Sequence[Template],
  similarity: str | None,
) -> _Examples:
  """Returns the examples of texts that have a vector each."""
  empty = examples.may_be_empty
  fill = {"texts": lambda row, _: [text.fill(row, empty) for text in texts]}
  fields = [field for text in texts for field in text.fields]
  signature: dict[str, Any] = {"texts": _TEXTS}
  if similarity is not None:
    label = Template(similarity, "similarity")
    fill["label"] = lambda row, _: _number(label.fill(row), "similarities")
    fields += label.fields
    signature["label"] = tf.TensorSpec((), tf.float32)
  return _Examples(
    {"form": "embedding"},
    examples,
    scoring,
    fill,
    signature,
    fields,
    [[text.text for text in texts], similarity],
  )


def _number(text: str, what: str = "targets") -> float:
  try:
    return float(text)
  except ValueError:
    raise RowProblem(f"has the {what} {text!r}, which are no number") from None


def _answers(example: Mapping[str, Any]) -> list[str]:
  return example.get("answers", [example["targets"]])


def _starts(
  row: Row,
  example: Mapping[str, Any],
  *,
  context: Template,
  starts: Template | None,
  empty: Sequence[str],
) -> list[int]:
  """Returns the character of the context that the first answer begins with."""
  answers = _answers(example)
  if not answers:
    return []
  start = None
  if starts is not None:
    text = templates.read_list(row, starts.fields[0])[0]
    if not text.isdecimal():
      raise RowProblem(
        f"has {text!r} in the field {starts.fields[0]!r}, which is no place in "
        "a text"
      )
    start = int(text)
  try:
    return [forms.find_answer(context.fill(row, empty), answers[0], start)]
  except ValueError as error:
    raise RowProblem(f"cannot become a span: {error}") from None


class _ListedExamples:
  """A question with a list of choices; the target is the right one's text.

  `text_to_text.RowExamples` documents the attributes.
  """

  signature: ClassVar = {"inputs": TEXT, "targets": TEXT, "choices": _TEXTS}

  def __init__(self, inputs: str, targets: str, choices: str, empty):
    self._inputs = Template(inputs, "inputs")
    self._label = Template(targets, "targets").fields[0]
    self._choices = Template(choices, "choices").fields[0]
    self._empty = tuple(empty)
    self.fields = (*self._inputs.fields, self._label, self._choices)
    self.settings = [inputs, targets, choices, self._empty]

  def __call__(self, row: Row) -> Iterator[dict[str, Any]]:
    choices = templates.read_list(row, self._choices)
    label = templates.read_field(row, self._label)
    yield {
      "inputs": self._inputs.fill(row, self._empty),
      "targets": text_to_text.find_label(label, choices, self._label),
      "choices": choices,
    }


def _listed_choices(
  name: str,
  inputs: str,
  targets: str,
  choices: str,
  texts: Mapping[str, Template],
  may_be_empty: Sequence[str],
) -> _Examples:
  """Returns the examples of rows with a list of choices each."""
  for argument, text in (("choices", choices), ("targets", targets)):
    if not Template(text, argument).is_field:
      raise UserError(
        f"Task {name!r} has choices= of one text, so that {argument}= is one "
        f"field, such as '{{label}}', not {text!r}."
      )
  empty = tuple(may_be_empty)
  return _Examples(
    {"form": "choices"},
    _ListedExamples(inputs, targets, choices, empty),
    ([classification.accuracy], None),
    {
      "first": lambda row, _: texts["first"].fill(row, empty),
      "seconds": lambda row, example: example["choices"],
    },
    {"first": TEXT, "seconds": _TEXTS},
    texts["first"].fields,
    texts["first"].text,
  )


class _TaggedExamples:
  """Words with tags, as text with its entities in brackets.

  `text_to_text.RowExamples` documents the attributes.
  """

  signature: ClassVar = {
    "inputs": TEXT,
    "targets": TEXT,
    "tokens": _TEXTS,
    "tags": _TEXTS,
  }

  def __init__(self, inputs: str, targets: str, labels: Sequence[str]):
    self._inputs = Template(inputs, "inputs")
    self._words, self._tags = self._inputs.fields[0], targets[1:-1]
    self._labels = list(labels)
    self.fields = (*self._inputs.fields, self._tags)
    self.settings = [inputs, targets, self._labels]

  def __call__(self, row: Row) -> Iterator[dict[str, Any]]:
    words = _list_or_words(row, self._words)
    tags = _list_or_words(row, self._tags)
    if len(words) != len(tags):
      raise RowProblem(
        f"has {len(words)} words in the field {self._words!r} and {len(tags)} "
        f"tags in the field {self._tags!r}"
      )
    if all(tag.isdecimal() for tag in tags):
      tags = [
        text_to_text.find_label(tag, self._labels, self._tags) for tag in tags
      ]
    try:
      forms.tag_numbers(tags, self._labels)
    except ValueError as error:
      raise RowProblem(f"cannot be read: {error}") from None
    yield {
      "inputs": self._inputs.fill({**row, self._words: " ".join(words)}),
      "targets": tagged_text.bracketed(words, tags),
      "tokens": words,
      "tags": tags,
    }


def _list_or_words(row: Row, field: str) -> list[str]:
  values = templates.read_list(row, field)
  return values[0].split() if len(values) == 1 else values


def _tags(
  name: str, inputs: str, targets: str, labels: Sequence[str]
) -> _Examples:
  """Returns the examples of tagged words."""
  one = len(Template(inputs, "inputs").fields) == 1
  if not one or not Template(targets, "targets").is_field:
    raise UserError(
      f"Task {name!r} in the form 'tags' has one field of words in its inputs "
      "and one field of tags as its targets, such as 'ner: {tokens}' and "
      f"'{{tags}}', not {inputs!r} and {targets!r}."
    )
  if "O" not in labels:
    raise UserError(
      f"Task {name!r} has the labels {list(labels)!r}; give the tags in IOB2, "
      "'O' among them."
    )
  return _Examples(
    {"form": "tags", "tags": list(labels)},
    _TaggedExamples(inputs, targets, labels),
    ([classification.entity_f1], post_processors.bracketed_entities),
    {},
    {},
    (),
    None,
  )


class FormTask(FromFiles):
  """A form of a task over rows of files, made and registered by `from_...`.

  The arguments of `TextToTextTask`, and:
    texts: The texts with fields that an encoder reads, one or two. By default
      the fields of `inputs`: the first one, and all others behind it.
      `EmbeddingTask` needs a list of two or more, an anchor, its positive, and
      hard negatives.
    vocabulary: A vocabulary with [CLS] and [SEP], or any other, of both tasks;
      by default BERT's for the form and T5's for text to text.

  `ClassesTask` needs `labels`. `NumberTask` has targets that are numbers.
  `SpansTask` has two texts, a question and a context that the first answer is
  a part of:
    answer_starts: The field with the character of the context that each answer
      begins with; by default it is looked for.
  `ChoicesTask` needs `choices`: a field with the list of them, as
  `TextToTextTask`, or a list of texts with fields, whose target texts `labels`
  names in the same order.
  `TagsTask` has one field of words in its inputs, lists or texts with spaces,
  one of tags (IOB1, IOB2, or numbers) as its targets, and the names of the tags
  in IOB2 as `labels`; it is scored by F1 over entities.
  `EmbeddingTask` may have:
    similarity: The field with the number of the first two texts, as
      '{score}': their similarity, or the number of a class. The cosine of their
      vectors is what the metrics compare with `targets`.

  Each raises UserError for impossible arguments; bad files are reported when
  the task is read.
  """


class ClassesTask(FormTask):
  """One or two texts and their class."""

  _register = staticmethod(functools.partial(register, "classes"))


class NumberTask(FormTask):
  """One or two texts and a number."""

  _register = staticmethod(functools.partial(register, "number"))


class SpansTask(FormTask):
  """A question and a context with the answer in it."""

  _register = staticmethod(functools.partial(register, "spans"))


class ChoicesTask(FormTask):
  """A text and several continuations, one of them right."""

  _register = staticmethod(functools.partial(register, "choices"))


class TagsTask(FormTask):
  """Words and their tags."""

  _register = staticmethod(functools.partial(register, "tags"))


class EmbeddingTask(FormTask):
  """Texts that have a vector each."""

  _register = staticmethod(functools.partial(register, "embedding"))
