"""Pieces with the characters that they are."""

import pytest

from tests.data.vocabularies.conftest import KINDS
from transformer_zoo.data.features import forms
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import UserError

TEXT = "The  café, (ﬁne)\n in 2016: “Ünï” ½."


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_are_where_their_text_is(trained, kind):
  vocabulary = trained[kind]
  ids, places = vocabulary.encode_with_places(TEXT)
  assert ids.tolist() == vocabulary.encode(TEXT)
  assert places.shape == (len(ids), 2)
  assert (places[:, 0] <= places[:, 1]).all()
  assert (places[1:] >= places[:-1]).all()
  covered = {i for start, end in places.tolist() for i in range(start, end)}
  assert covered == {i for i, c in enumerate(TEXT) if not c.isspace()}


@pytest.mark.parametrize("kind", KINDS)
def test_a_word_of_one_piece_or_more_is_covered_by_them(trained, kind):
  text = "The The The"
  _, places = trained[kind].encode_with_places(text)
  for start in (0, 4, 8):
    inside = [p for p in places.tolist() if start <= p[0] and p[1] <= start + 3]
    inside = [p for p in inside if p[0] < p[1]]
    assert (inside[0][0], inside[-1][1]) == (start, start + 3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("middle", ["\u200e", "\x07", "\u200b \u200e"])
def test_a_word_that_normalises_to_nothing_takes_no_piece(
  middle, trained, kind
):
  words = ["The", *middle.split(" "), "name"]
  _, places = trained[kind].encode_with_places(" ".join(words))
  found = forms.first_pieces(words, places)
  assert found[0] == 0
  assert found[-1] > max(found[:-1])
  assert places[found[-1], 0] == len(" ".join(words[:-1])) + 1


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_has_no_pieces(trained, kind):
  ids, places = trained[kind].encode_with_places("")
  assert (len(ids), places.shape) == (0, (0, 2))


def test_places_are_those_of_the_text_as_it_was_before_its_case_went(trained):
  """ALBERT's uncased models read other characters than the text has."""
  vocabulary = Vocabulary(trained["unigram"].path, 0, lower_case=True)
  ids, places = vocabulary.encode_with_places(TEXT)
  assert ids.tolist() == vocabulary.encode(TEXT)
  covered = {i for start, end in places.tolist() for i in range(start, end)}
  assert covered == {i for i, c in enumerate(TEXT) if not c.isspace()}


def test_a_vocabulary_that_tells_no_places_is_named(trained, monkeypatch):
  vocabulary = Vocabulary(trained["unigram"].path)
  monkeypatch.delattr(type(vocabulary._tokenizer), "encode_with_places")
  with pytest.raises(UserError, match="does not know which characters a piece"):
    vocabulary.encode_with_places("text")
