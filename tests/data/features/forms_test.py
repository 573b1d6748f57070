"""Rows of forms: frames, cuts, windows and labels, against BERT's own loops."""

import numpy as np
import pytest

from transformer_zoo.data.features import converters
from transformer_zoo.data.features import forms
from transformer_zoo.data.features.forms import FORMS
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import UserError

WORDS = [f"w{i}" for i in range(95)]
CLS, SEP = 2, 3


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
  path = tmp_path_factory.mktemp("bert") / "vocab.txt"
  pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
  path.write_text("\n".join(pieces) + "\n")
  return Vocabulary(path)


def make(vocabulary, form, length, separators=1, longest=None, **described):
  described["form"] = form
  return forms.of_task(
    described, vocabulary, length, separators=separators, longest=longest
  )


def pieces(number, first=5):
  return first + np.arange(number, dtype=np.int32) % 90


def cut_as_bert(first, second, room):
  """`_truncate_seq_pair` of google-research/bert, run_classifier.py."""
  first, second = list(first), list(second)
  while len(first) + len(second) > room:
    (first if len(first) > len(second) else second).pop()
  return first, second


@pytest.mark.parametrize("seed", range(40))
def test_pairs_are_cut_as_berts(vocabulary, seed):
  rng = np.random.default_rng(seed)
  first, second = pieces(rng.integers(0, 30)), pieces(rng.integers(1, 30), 8)
  length = int(rng.integers(5, 40))
  row = forms.Frame.of(vocabulary, 1).join_cut(first, second, length)
  one, other = cut_as_bert(first, second, length - 3)
  assert row["inputs"].tolist() == [CLS, *one, SEP, *other, SEP]
  types = [0] * (len(one) + 2) + [1] * (len(other) + 1)
  if other:
    assert row["token_types"].tolist() == types


@pytest.mark.parametrize(
  "separators, second, row, types",
  [
    (1, [8, 9], [CLS, 5, 6, SEP, 8, 9, SEP], [0, 0, 0, 0, 1, 1, 1]),
    (2, [8], [CLS, 5, 6, SEP, SEP, 8, SEP], [0, 0, 0, 0, 0, 1, 1]),
    (2, [], [CLS, 5, 6, SEP], [0, 0, 0, 0]),
  ],
)
def test_frames(vocabulary, separators, second, row, types):
  frame = forms.Frame.of(vocabulary, separators)
  found = frame.join(np.array([5, 6]), np.array(second, np.int32))
  assert found["inputs"].tolist() == row
  assert found["token_types"].tolist() == types


def test_a_vocabulary_without_special_tokens_ends_texts():
  frame = forms.Frame.of(Vocabulary("bytes"), 1)
  found = frame.join(np.array([5, 6]), np.array([8]))
  assert found["inputs"].tolist() == [5, 6, 1, 8, 1]


@pytest.mark.parametrize("form", ["classes", "number"])
@pytest.mark.parametrize("label", [0, 2, None])
def test_the_label_is_at_the_first_token(vocabulary, form, label):
  hidden = -1 if form == "classes" else float("nan")
  row, _ = make(vocabulary, form, 12)(
    {"first": pieces(3), "second": pieces(2)},
    {"label": hidden if label is None else label},
    0,
  )
  assert row["weights"].tolist() == [int(label is not None), *[0] * 7]
  assert not row["targets"][1:].any()
  if form == "number":
    found = row["targets"].view(np.float32)[0]
  else:
    found = row["targets"][0]
  assert found == (label or 0)


def test_choices_have_equal_shares_of_a_row(vocabulary):
  row, _ = make(vocabulary, "choices", 24)(
    {"first": pieces(4), "second": np.array([50, 51, 60, 70, 71, 72, 73])},
    {"label": 1, "second_lengths": [2, 1, 4], "choices": ["a", "b", "c"]},
    0,
  )
  parts = np.split(row["inputs"], np.cumsum(row["segment_lengths"])[:-1])
  assert [part.tolist() for part in parts] == [
    [CLS, 5, 6, 7, SEP, 50, 51, SEP],
    [CLS, 5, 6, 7, 8, SEP, 60, SEP],
    [CLS, 5, 6, 7, SEP, 70, 71, SEP],
  ]
  starts = np.cumsum([0, 8, 8])
  assert np.flatnonzero(row["weights"]).tolist() == starts.tolist()
  assert row["targets"][starts].tolist() == [0, 1, 0]


@pytest.mark.parametrize("num_texts", [2, 3])
def test_each_text_of_an_embedding_has_its_part(vocabulary, num_texts):
  maker = forms.of_task(
    {"form": "embedding"},
    vocabulary,
    5 * num_texts,
    separators=2,
    num_texts=num_texts,
  )
  record = {"label": 2.5, "second_lengths": [1, 2, 1]}
  row, _ = maker({"first": pieces(4), "second": pieces(4, 50)}, record, 0)
  parts = np.split(row["inputs"], np.cumsum(row["segment_lengths"])[:-1])
  assert [part.tolist() for part in parts] == [
    [CLS, 5, 6, 7, SEP],
    [CLS, 50, SEP],
    [CLS, 51, 52, SEP],
  ][:num_texts]
  places = np.flatnonzero(row["weights"])
  assert places.tolist() == [0, 5, 8][:num_texts]
  assert set(row["targets"][places].view(np.float32)) == {2.5}


@pytest.mark.parametrize("form", FORMS)
def test_examples_may_be_shorter_than_rows(vocabulary, form):
  """So rows with several have positions that a model knows."""
  second = 0 if form == "tags" else 30
  record = {
    "label": [0] if form == "tags" else 0,
    "first_pieces": [0],
    "second_lengths": [10, 20],
    **record_of_context(),
  }
  ids = {"first": pieces(30), "second": pieces(second)}
  row, _ = make(vocabulary, form, 60, longest=16)(ids, record, 0)
  of_two = form in ("choices", "embedding")
  expected, _ = make(vocabulary, form, 32 if of_two else 16)(ids, record, 0)
  for name, values in expected.items():
    np.testing.assert_array_equal(row[name], values)


@pytest.mark.parametrize(
  ("form", "longest", "first", "second", "limit"),
  [
    ("classes", None, 17, [20], None),
    ("classes", None, 18, [20], 40),
    ("classes", 30, 18, [20], 30),
    ("tags", None, 38, [], None),
    ("tags", None, 39, [], 40),
    # Of three choices each has 13 tokens.
    ("choices", None, 4, [6, 1, 6], None),
    ("choices", None, 4, [1, 1, 7], 13),
    ("choices", None, 11, [0, 0], None),
    ("choices", 10, 4, [3, 4], 10),
    # Of two texts each has 20 tokens, and a third one is left out.
    ("embedding", None, 18, [18, 30], None),
    ("embedding", None, 4, [19], 20),
    ("embedding", 10, 9, [4], 10),
    ("spans", None, 18, [90], None),
    ("spans", None, 19, [90], 18),
  ],
)
def test_what_is_cut_and_its_limit(
  vocabulary, form, longest, first, second, limit
):
  ids = {"first": pieces(first), "second": pieces(sum(second))}
  maker = make(vocabulary, form, 40, longest=longest)
  assert maker.exceeded(ids, {"second_lengths": second}) == limit


def test_a_question_has_64_tokens_of_a_long_row(vocabulary):
  maker = make(vocabulary, "spans", 400)
  ids = {"first": pieces(65), "second": pieces(3)}
  assert maker.exceeded(ids, {}) == 64


@pytest.mark.parametrize(
  ("first", "second", "limit"), [(9, 8, None), (9, 9, 20), (19, 0, 20)]
)
def test_a_pair_in_both_orders_has_half_of_a_row(
  vocabulary, first, second, limit
):
  maker = forms.of_task(
    {"form": "classes"}, vocabulary, 40, separators=1, both_orders=True
  )
  ids = {"first": pieces(first), "second": pieces(second)}
  assert maker.exceeded(ids, {"label": 0}) == limit


def test_choices_of_a_known_number_need_no_full_row(vocabulary):
  record = {"label": 1, "second_lengths": [2, 1], "choices": ["a", "b"]}
  maker = make(vocabulary, "choices", 40, most=2)
  row, _ = maker({"first": pieces(4), "second": pieces(3)}, record, 0)
  (known,) = maker.row_lengths(np.array([[4, 3]]), np.array([0]))
  assert len(row["inputs"]) == known == 17


def windows_as_bert(question, context, length):
  """Starts and lengths of windows (google-research/bert, run_squad.py)."""
  room = length - min(question, 64) - 3
  found, start = [], 0
  while start < context:
    size = min(context - start, room)
    found.append((start, size))
    if start + size == context:
      break
    start += min(size, 128)
  return found


def record_of_context(answer=(-1, -1)):
  return {"answer_start": answer[0], "answer_end": answer[1]}


@pytest.mark.parametrize("seed", range(30))
def test_windows_are_berts(vocabulary, seed):
  rng = np.random.default_rng(seed)
  question, context = int(rng.integers(1, 90)), int(rng.integers(1, 900))
  length = int(rng.integers(160, 400))
  spans = make(vocabulary, "spans", length)
  lengths = np.array([[question, context]])
  windows = windows_as_bert(question, context, length)
  assert spans.num_rows(lengths).tolist() == [len(windows)]
  ids = {"first": pieces(question), "second": np.arange(context)}
  first = int(rng.integers(0, context))
  answer = first, min(first + int(rng.integers(0, 9)), context - 1)
  found = 0
  for number, (start, size) in enumerate(windows):
    row, more = spans(ids, record_of_context(answer), number)
    window = more["window"]
    place = window["place"]
    assert (window["start"], window["pieces"]) == (start, size)
    assert (window["number"], window["count"]) == (number, len(windows))
    shown = row["inputs"][place : place + size]
    assert shown.tolist() == list(range(start, start + size))
    assert len(row["inputs"]) <= length
    sizes = spans.row_lengths(lengths, np.array([number]))
    assert sizes.tolist() == [len(row["inputs"])]
    begin, end = row["answer_starts"][0], row["answer_ends"][0]
    if start <= answer[0] and answer[1] < start + size:
      found += 1
      assert row["inputs"][begin] == answer[0]
      assert row["inputs"][end] == answer[1]
    else:
      assert (begin, end) == (0, 0)
    assert not row["weights"].any()
  assert found  # the answer is shorter than what two windows share


def test_a_question_without_an_answer_has_it_at_the_first_place(vocabulary):
  row, _ = make(vocabulary, "spans", 32)(
    {"first": pieces(3), "second": pieces(4)}, record_of_context(), 0
  )
  assert row["answer_starts"].tolist() == row["answer_ends"].tolist() == [0]


@pytest.mark.parametrize("length", [6, 7, 20])
def test_tags_are_at_the_first_pieces_of_words(vocabulary, length):
  """Words without a piece or behind the end of the row have no place."""
  record = {
    "tokens": ["a", "", "b", "c"],
    "first_pieces": [0, -1, 2, 4],
    "label": [3, 1, 0, 5],
  }
  ids = {"first": pieces(6), "second": pieces(0)}
  row, more = make(vocabulary, "tags", length)(ids, record, 0)
  places = [1, -1, 3, 5 if length > 6 else -1]
  assert more["first_places"] == places
  for place, label in zip(places, record["label"], strict=True):
    if place >= 0:
      assert (row["targets"][place], row["weights"][place]) == (label, 1)
  assert row["weights"].sum() == sum(place >= 0 for place in places)
  assert row["inputs"][-1] == SEP


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("separators", [1, 2])
def test_lengths_are_known_without_reading(vocabulary, form, separators):
  """A plan of packed rows needs them; choices fill their rows."""
  rng = np.random.default_rng(0)
  maker = make(vocabulary, form, 40, separators)
  for _ in range(20):
    first, second = rng.integers(1, 40, 2)
    second = 0 if form == "tags" else second
    record = {
      "label": [0] if form == "tags" else 0,
      "first_pieces": [0],
      "second_lengths": [second - second // 2, second // 2],
      **record_of_context(),
    }
    row, _ = maker(
      {"first": pieces(first), "second": pieces(second)}, record, 0
    )
    (known,) = maker.row_lengths(np.array([[first, second]]), np.array([0]))
    assert {len(row["inputs"]), len(row["targets"])} == {len(row["weights"])}
    if form == "choices":
      assert len(row["inputs"]) <= known == 40
      two = make(vocabulary, form, 40, separators, most=2)
      (known,) = two.row_lengths(np.array([[first, second]]), np.array([0]))
      assert len(row["inputs"]) <= known <= 40
    elif form == "embedding":
      assert len(row["inputs"]) <= known <= 40
    else:
      assert len(row["inputs"]) == known


@pytest.mark.parametrize(
  "form, length, message",
  [
    (
      "classes",
      4,
      "Inputs of 4 tokens are too short for two texts and their special "
      "tokens; give them at least 5.",
    ),
    (
      "tags",
      3,
      "Inputs of 3 tokens are too short for two texts and their special "
      "tokens; give them at least 4.",
    ),
  ],
)
def test_rows_that_are_too_short_are_refused(vocabulary, form, length, message):
  with pytest.raises(UserError) as error:
    make(vocabulary, form, length)
  assert str(error.value) == message


def test_too_many_choices_for_a_row_are_refused(vocabulary):
  with pytest.raises(UserError) as error:
    make(vocabulary, "choices", 12)(
      {"first": pieces(4), "second": pieces(3)},
      {"label": 1, "second_lengths": [1, 1, 1]},
      0,
    )
  assert str(error.value) == (
    "Inputs of 12 tokens are too short for 3 choices; give them at least 15."
  )


@pytest.mark.parametrize(
  "name, base, form",
  [
    ("glue_mrpc_v002:classes", "glue_mrpc_v002", "classes"),
    ("a:b", "a:b", None),
    ("a:b:tags", "a:b", "tags"),
    (":tags", ":tags", None),
  ],
)
def test_names_of_forms(name, base, form):
  assert forms.split_name(name) == (base, form)
  assert forms.name_in_form(base, form) == name
  assert forms.name_in_form(name, form) == name


def test_first_pieces_of_words():
  """A word without a piece has none, nor has one within another's piece."""
  places = np.array([[0, 2], [2, 4], [5, 6], [10, 15], [15, 15]])
  words = ["Pete", "B", "😀", "abcd", "e"]
  assert forms.first_pieces(words, places).tolist() == [0, 2, -1, 3, -1]
  assert forms.first_pieces([], places[:0]).tolist() == []
  # SentencePiece has a piece for a space alone: '▁', '9', '▁no', '▁', '4'.
  places = np.array([[0, 0], [0, 1], [2, 4], [5, 5], [5, 6]])
  assert forms.first_pieces(["9", "no", "4"], places).tolist() == [0, 2, 3]


@pytest.mark.parametrize("answering, place", [("first", 0), ("last", -1)])
def test_one_token_answers_for_a_text(vocabulary, answering, place):
  ids = {"first": pieces(3), "second": pieces(4)}
  form = forms.of_task(
    {"form": "classes"}, vocabulary, 12, separators=1, answering=answering
  )
  row, _ = form(ids, {"label": 1}, 0)
  assert row["targets"][place] == row["weights"][place] == 1
  assert row["weights"].sum() == 1
  form = forms.of_task(
    {"form": "choices", "most": 2},
    vocabulary,
    24,
    separators=1,
    answering=answering,
  )
  text = {"second_lengths": np.array([1, 3]), "label": 1}
  row, _ = form(ids, text, 0)
  ends = np.cumsum(row["segment_lengths"])
  places = [0, ends[0]] if answering == "first" else ends - 1
  assert np.flatnonzero(row["weights"]).tolist() == list(places)
  assert row["targets"][places].tolist() == [0, 1]


def test_only_the_first_or_the_last_token_answers():
  with pytest.raises(
    UserError, match="answering is 'mean'; it must be one of "
  ):
    converters.Encoder(answering="mean")


@pytest.mark.parametrize("second", [[], [8, 9]])
def test_rows_of_xlnet_end_in_cls(vocabulary, second):
  frame = forms.Frame.of(vocabulary, 1, "last")
  first, second = np.array([5, 6, 7]), np.array(second, int)
  row = frame.join_cut(first, second, 20)
  cls, sep = vocabulary.cls_id, vocabulary.sep_id
  expected, types = [5, 6, 7, sep], [0] * 4
  if len(second):
    expected, types = [*expected, 8, 9, sep], [*types, 1, 1, 1]
  np.testing.assert_array_equal(row["inputs"], [*expected, cls])
  np.testing.assert_array_equal(row["token_types"], [*types, 2])
  assert frame.specials(len(second) > 0) == len(row["inputs"]) - 3 - len(second)
  rows = forms.of_task(
    {"form": "classes"},
    vocabulary,
    16,
    separators=1,
    answering="last",
    cls_place="last",
  )
  made, _ = rows({"first": first, "second": second}, {"label": 1}, 0)
  assert made["weights"].tolist() == [0] * (len(made["inputs"]) - 1) + [1]
