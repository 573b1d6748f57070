"""Rows of prepared forms: windows of long contexts, epochs, cuts, damage."""

import collections

import numpy as np
import pytest

from tests import prepared_splits
from transformer_zoo.data.features.converters import Encoder
from transformer_zoo.data.loader import loader
from transformer_zoo.data.loader.evaluation_split import EvaluationSplit
from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import UserError

LENGTH = 40
LENGTHS = {"inputs": LENGTH, "targets": LENGTH}
# Pieces of the contexts: one window, exactly one, two, three.
CONTEXTS = [5, 33, 34, 80]


@pytest.fixture
def make(make_task, tmp_path):
  """Returns a function that writes a task of a form."""

  def write(form, examples):
    template = make_task("words", [{"inputs": [3], "targets": [4]}])
    folder = tmp_path / f"words:{form['form']}"
    folder.mkdir()
    task = manifest.PreparedTask(
      **{
        **vars(template),
        "name": folder.name,
        "folder": str(folder),
        "features": ("first", "second"),
        "splits": {},
        "form": form,
      }
    )
    task.splits["train"] = prepared_splits.write_split(
      examples, "train", task, folder
    )
    return task

  return write


def ids(number, first):
  return np.arange(first, first + number, dtype=np.int32) % 40 + 5


@pytest.fixture
def spans(make):
  """Questions of four pieces; the answer of each is its last two pieces."""
  return make(
    {"form": "spans", "no_answer": None},
    [
      {
        "first": ids(4, 0),
        "second": ids(number, number),
        "answer_start": number - 2,
        "answer_end": number - 1,
        "context": "x" * number,
      }
      for number in CONTEXTS
    ],
  )


def converter(form):
  return Encoder(form=form)


def test_every_piece_of_a_long_context_is_in_a_window(spans):
  """The vocabulary has no [CLS]: a row has 36 - 4 + 2 pieces of context."""
  split = EvaluationSplit(
    spans, "train", LENGTHS, 3, converter=converter("spans")
  )
  assert split.num_examples == 1 + 1 + 1 + 3
  assert split.truncated == {"questions": 0}
  shown = collections.defaultdict(set)
  answered = collections.Counter()
  places = []
  for batch in split:
    places += batch.places.tolist()
    for i, text in enumerate(batch.texts):
      window = text["window"]
      first, number = window["start"], window["pieces"]
      shown[window["example"]] |= set(range(first, first + number))
      row = batch.arrays["encoder_input_tokens"][i]
      begin = window["place"]
      context = ids(len(text["context"]), len(text["context"]))
      np.testing.assert_array_equal(
        row[begin : begin + number], context[first : first + number]
      )
      if batch.arrays["answer_starts"][i]:
        answered[window["example"]] += 1
        end = batch.arrays["answer_ends"][i]
        assert row[end] == context[-1]
  assert sorted(places) == list(range(6))
  assert [len(shown[i]) for i in range(4)] == CONTEXTS
  assert all(answered[i] >= 1 for i in range(4))


@pytest.mark.parametrize("questions, rows", [(1, 1), (3, 3), (4, 6), (9, 6)])
def test_the_most_examples_are_questions(spans, questions, rows):
  split = EvaluationSplit(
    spans,
    "train",
    LENGTHS,
    4,
    converter=converter("spans"),
    max_examples=questions,
  )
  assert split.num_examples == rows


def test_an_epoch_of_training_has_every_window_once(spans):
  mixture = manifest.PreparedMixture("m", (spans,), (1.0,))
  batches = loader.open_batches(
    mixture,
    split="train",
    lengths=LENGTHS,
    batch_size=6,
    seed=0,
    packing=True,  # several examples with an answer each share no row
    converter=converter("spans"),
  )
  epochs = [batches[step] for step in range(3)]
  rows = [
    sorted(
      (int(end), *tokens)
      for tokens, end in zip(
        batch["encoder_input_tokens"].tolist(),
        batch["answer_ends"],
        strict=True,
      )
    )
    for batch in epochs
  ]
  assert rows[0] == rows[1] == rows[2]
  assert len(set(rows[0])) == 6
  assert any(
    (one["answer_ends"] != other["answer_ends"]).any()
    for one, other in zip(epochs, epochs[1:], strict=False)
  )


@pytest.mark.parametrize("lengths", [LENGTHS, {"inputs": LENGTH}])
def test_short_examples_have_batches_of_their_own(lengths, make):
  """The lengths of an encoder's run may name targets, which it does not cut."""
  task = make(
    {"form": "classes", "classes": ["no", "yes"]},
    [
      {"first": ids(1 + number % 38, 0), "second": ids(0, 0), "label": 1}
      for number in range(200)
    ],
  )
  bucket = {name: 20 if name == "inputs" else 3 for name in lengths}
  batches = loader.open_batches(
    manifest.PreparedMixture("m", (task,), (1.0,)),
    split="train",
    lengths=lengths,
    batch_size=4,
    seed=0,
    packing=False,
    converter=converter("classes"),
    length_buckets=[{**bucket, "batch_size": 8}],
  )
  shapes = set()
  for step in range(20):
    tokens = batches[step]["encoder_input_tokens"]
    shapes.add(tokens.shape)
    filled = (tokens > 0).sum(axis=1)
    assert filled.min() > (0 if tokens.shape[1] == 20 else 20)
  assert shapes == {(8, 20), (4, LENGTH)}


def test_cut_examples_are_counted(make):
  task = make(
    {"form": "classes", "classes": ["no", "yes"]},
    [
      {"first": ids(number, 0), "second": ids(other, 9), "label": 1}
      for number, other in [(3, 0), (38, 0), (39, 0), (20, 18), (20, 19)]
    ],
  )
  split = EvaluationSplit(
    task, "train", LENGTHS, 5, converter=converter("classes")
  )
  # EOS stands behind both texts.
  assert split.truncated == {"inputs": 1}
  (batch,) = split
  some = {"converter": converter("classes"), "max_examples": 2}
  few = EvaluationSplit(task, "train", LENGTHS, 5, **some)
  assert few.truncated == {"inputs": 0}
  assert batch.input_lengths.max() == LENGTH


def test_cut_choices_are_counted(make):
  """Each of two choices has 20 tokens of the row."""
  choices = make(
    {"form": "choices", "most": 2},
    [
      {
        "first": ids(4, 0),
        "second": ids(sum(sizes), 9),
        "second_lengths": sizes,
        "choices": ["a", "b"],
        "label": 1,
      }
      for sizes in [[2, 14], [1, 15], [15, 15], [2, 2]]
    ],
  )
  split = EvaluationSplit(
    choices, "train", LENGTHS, 4, converter=converter("choices")
  )
  assert split.truncated == {"choices": 2}


def test_cut_questions_are_counted(make):
  """A question has 19 pieces of the row."""
  questions = make(
    {"form": "spans", "no_answer": None},
    [
      {
        "first": ids(question, 0),
        "second": ids(context, 9),
        "answer_start": 0,
        "answer_end": 1,
        "context": "x" * context,
      }
      for question, context in [(19, 90), (20, 90), (20, 3)]
    ],
  )
  some = {"converter": converter("spans"), "max_examples": 2}
  split = EvaluationSplit(questions, "train", LENGTHS, 4, **some)
  assert split.truncated == {"questions": 1}


def test_a_row_of_another_form_is_refused(spans):
  with pytest.raises(UserError, match="'words:spans' makes examples of the"):
    EvaluationSplit(spans, "train", LENGTHS, 5, converter=converter("tags"))
  with pytest.raises(UserError, match="lays out those for an encoder_decoder"):
    EvaluationSplit(spans, "train", LENGTHS, 5)
