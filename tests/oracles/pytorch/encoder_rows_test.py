"""Rows of forms against the tokenizers of `transformers`, on real questions."""

import functools
import json
import pathlib

import numpy as np
import pytest

from transformer_zoo.data.features import forms
from transformer_zoo.data.vocabularies import Vocabulary

transformers = pytest.importorskip("transformers")

PAIRS = [
  ("Who sang?", "Ann sang, and Bob (a tenor) left at 9.30."),
  ("It rained.", ""),
  ("A man isn't here; he's gone to São Paulo.", "Nobody's there…"),
  ("word " * 60, "Another text of some words. " * 9),
  ("short", "Naïve coördination of the 1990s, \u2019tis said. " * 20),
]


@pytest.fixture(scope="module")
def bert(shared_data):
  """Ours and theirs, without case."""
  path = pathlib.Path(shared_data) / "vocab/bert_uncased_30522/vocab.txt"
  theirs = transformers.BertTokenizer(str(path), do_lower_case=True)
  return Vocabulary(path), theirs


@pytest.fixture(scope="module")
def roberta(shared_data, tmp_path_factory):
  """GPT-2's pieces with RoBERTa's special ones, as its own files have them."""
  folder = pathlib.Path(shared_data) / "vocab/gpt2_50257"
  pieces = json.loads((folder / "vocab.json").read_text())
  special = ["<s>", "<pad>", "</s>", "<unk>"]
  ids = {piece: i for i, piece in enumerate([*special, *pieces, "<mask>"])}
  folder_of_ours = tmp_path_factory.mktemp("roberta")
  (folder_of_ours / "vocab.json").write_text(json.dumps(ids))
  (folder_of_ours / "merges.txt").write_text(
    (folder / "merges.txt").read_text()
  )
  names = dict(zip(("bos", "pad", "eos", "unk"), special, strict=True))
  (folder_of_ours / "special_tokens_map.json").write_text(
    json.dumps({f"{name}_token": piece for name, piece in names.items()})
  )
  theirs = transformers.RobertaTokenizer(
    str(folder_of_ours / "vocab.json"), str(folder_of_ours / "merges.txt")
  )
  return Vocabulary(folder_of_ours), theirs


@functools.cache
def ids_of(vocabulary, text):
  return np.array(vocabulary.encode(text), np.int32)


@pytest.mark.parametrize("kind, separators", [("bert", 1), ("roberta", 2)])
@pytest.mark.parametrize("pair", PAIRS, ids=range(len(PAIRS)))
def test_whole_pairs(pair, kind, separators, request):
  ours, theirs = request.getfixturevalue(kind)
  frame = forms.Frame.of(ours, separators)
  row = frame.join_cut(*(ids_of(ours, text) for text in pair), 1000)
  expected = theirs(*(text for text in pair if text))
  assert row["inputs"].tolist() == expected["input_ids"]
  if kind == "bert":
    assert row["token_types"].tolist() == expected["token_type_ids"]


@pytest.mark.parametrize("kind, separators", [("bert", 1), ("roberta", 2)])
@pytest.mark.parametrize("pair", PAIRS[3:], ids=range(2))
@pytest.mark.parametrize("length", [24, 64, 100])
def test_cut_pairs(pair, length, kind, separators, request):
  """Of an odd room BERT's code gives the first text a piece more.

  Theirs give it to the longer one.
  """
  ours, theirs = request.getfixturevalue(kind)
  frame = forms.Frame.of(ours, separators)
  row = frame.join_cut(*(ids_of(ours, text) for text in pair), length)
  expected = theirs(*pair, truncation="longest_first", max_length=length)
  assert len(row["inputs"]) == len(expected["input_ids"]) == length
  pieces = [ids_of(ours, text) for text in pair]
  kept = forms.shortened(*map(len, pieces), length - frame.specials(True))
  found = [
    np.array(expected["input_ids"])[np.array(expected.sequence_ids()) == side]
    for side in (0, 1)
  ]
  for some, whole, number in zip(found, pieces, kept, strict=True):
    assert abs(len(some) - number) <= 1
    np.testing.assert_array_equal(some, whole[: len(some)])


@pytest.mark.parametrize("kind, separators", [("bert", 1), ("roberta", 2)])
def test_windows_of_contexts(kind, separators, request):
  """Their stride is what two windows share; ours is between two starts."""
  ours, theirs = request.getfixturevalue(kind)
  question, length = "Who sang, and when?", 200
  context = " ".join(
    f"In {year} Ann (the {year % 7}th) sang: “così fan tutte”; it wasn't bad."
    for year in range(1900, 1960)
  )
  first = ids_of(ours, question)
  second, places = ours.encode_with_places(context)
  spans = forms.of_task({"form": "spans"}, ours, length, separators=separators)
  lengths = np.array([[len(first), len(second)]])
  room = length - len(first) - spans.frame.specials(True)
  expected = theirs(
    question,
    context,
    truncation="only_second",
    max_length=length,
    stride=room - forms.STRIDE,
    return_overflowing_tokens=True,
    return_offsets_mapping=True,
  )
  (number,) = spans.num_rows(lengths)
  assert number == len(expected["input_ids"]) > 4
  record = {"answer_start": -1, "answer_end": -1}
  for window in range(number):
    row, more = spans({"first": first, "second": second}, record, window)
    assert row["inputs"].tolist() == expected["input_ids"][window]
    place = more["window"]["place"]
    start, pieces = more["window"]["start"], more["window"]["pieces"]
    theirs_of_context = expected["offset_mapping"][window][
      place : place + pieces
    ]
    for (begin, end), ours_of_piece in zip(
      theirs_of_context, places[start : start + pieces].tolist(), strict=True
    ):
      while begin < end and context[begin].isspace():
        begin += 1
      assert [begin, end] == ours_of_piece


def test_first_pieces_of_words(bert):
  ours, theirs = bert
  words = ["EU", "rejects", "Düsseldorf", "(", "F.C.", "\u200b", "2,000", "St"]
  ids, places = ours.encode_with_places(" ".join(words))
  found = forms.first_pieces(words, places)
  expected = theirs(words, is_split_into_words=True, add_special_tokens=False)
  assert ids.tolist() == expected["input_ids"]
  firsts = [
    next((i for i, w in enumerate(expected.word_ids()) if w == word), -1)
    for word in range(len(words))
  ]
  assert found.tolist() == firsts
