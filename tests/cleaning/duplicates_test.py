"""Spans that occur twice: which occurrence stays, and what goes."""

import pytest

from transformer_zoo.cleaning import duplicates
from transformer_zoo.cleaning.duplicates import Claim
from transformer_zoo.cleaning.duplicates import DuplicateSpans
from transformer_zoo.cleaning.pages import PageCleaning
from transformer_zoo.cleaning.rules import Rules
from transformer_zoo.errors import UserError

pytest.importorskip("sentencex")

THREE = DuplicateSpans()
LINE = DuplicateSpans(length=1, unit="line")


TREES = "alder birch cedar dogwood elm fir xylosma yew zelkova".split()
NAMES = {tree[0]: tree for tree in TREES}


def sentences(letters):
  """A line with a sentence for each letter."""
  return " ".join(f"This is an old {NAMES[x]} tree." for x in letters)


def test_spans_go_across_lines_and_ignore_case():
  one = THREE.spans(sentences("abcd"))
  two = THREE.spans(sentences("ab").upper() + "\n" + sentences("cd"))
  assert len(one) == 2 and one == two
  assert THREE.spans(sentences("ab")) == []
  assert len(set(LINE.spans("A b.\na B. \nC d."))) == 2


@pytest.mark.parametrize(
  "page, starts, rest",
  [
    ("abcdef", [1], "aef"),
    ("abcdef", [0, 1], "ef"),
    ("abcdef", [], "abcdef"),
    ("abc", [0], ""),
  ],
)
def test_discard_takes_the_sentences_of_a_span(page, starts, rest):
  assert THREE.discard(sentences(page), starts) == sentences(rest)


def test_discard_leaves_no_empty_lines():
  text = "\n".join([sentences("ab"), sentences("cd"), sentences("e")])
  assert THREE.discard(text, [1]) == sentences("a") + "\n" + sentences("e")


@pytest.mark.parametrize(
  "page, rest",
  [
    ("abcdef", "abcdef"),
    ("abcxabc", "abcx"),
    ("abcdabcd", "abcd"),
    ("abab", "abab"),
    ("ababab", "abab"),
    ("aaaaaa", "aaa"),
    ("abcxyabcxz", "abcxyz"),
  ],
)
def test_the_first_of_a_repeated_span_stays(page, rest):
  text, _ = PageCleaning(spans=THREE).clean(sentences(page))
  assert text == sentences(rest)


def test_repeated_lines():
  text = "One line.\nAnother line.\none LINE. \nA third line."
  assert LINE.without_repeats(text) == "One line.\nAnother line.\nA third line."


def test_the_first_page_keeps_a_span():
  places = [(b"c", 0), (b"a", 4), (b"b", 2)]
  for order in (places, places[::-1]):
    claims = dict(duplicates.claims_of_pages(b"span", iter(order)))
    assert claims == {
      b"a": Claim(4, b"span", True),
      b"b": Claim(2, b"span", False),
      b"c": Claim(0, b"span", False),
    }
  assert list(duplicates.claims_of_pages(b"span", [(b"a", 4)])) == []


def test_a_span_that_overlaps_a_lost_one_is_disputed():
  kept = [Claim(start, b"%d" % start, True) for start in (0, 3, 4, 8, 9)]
  claims = [*kept, Claim(6, b"lost", False)]
  assert list(duplicates.spans_kept(claims, 3)) == [b"0", b"3", b"9"]
  assert len(list(duplicates.spans_kept(claims, 1))) == 5


def test_the_order_of_pages_is_that_of_addresses():
  keys = [duplicates.page_key("text", f"http://{n}.org") for n in range(4)]
  assert len({key[:16] for key in keys}) == 4
  other = duplicates.page_key("other text", "http://0.org")
  assert other[:16] == keys[0][:16] and other != keys[0]


def test_settling_drops_what_a_lost_sentence_leaves_too_short():
  cleaning = PageCleaning(Rules(min_sentences_per_page=1), THREE)
  text = sentences("abc") + "\n" + sentences("abc") + " So it is."
  assert cleaning.clean(text)[0] == sentences("abc")


@pytest.mark.parametrize(
  "fields, message",
  [
    ({"unit": "word"}, "unit is 'word'; allowed: 'sentence', 'line'"),
    ({"length": 0}, "length is 0; a span has 1 unit or more"),
  ],
)
def test_bad_fields_are_told(fields, message):
  with pytest.raises(UserError, match=message):
    DuplicateSpans(**fields)
