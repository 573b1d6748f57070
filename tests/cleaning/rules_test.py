"""Every rule on a page that is written out."""

import random

import pytest

from transformer_zoo.cleaning.rules import BadWords
from transformer_zoo.cleaning.rules import LINES
from transformer_zoo.cleaning.rules import PAGES
from transformer_zoo.cleaning.rules import read_words
from transformer_zoo.cleaning.rules import Rules
from transformer_zoo.cleaning.rules import UNMARKED
from transformer_zoo.errors import UserError

pytest.importorskip("sentencex")

# Three sentences that no rule minds.
GOOD = (
  "The river rises in the northern hills. It passes two old mills there.\n"
  "Most of its water comes from rain."
)
PAPER = Rules()
JMLR = Rules(min_words_per_line=3, min_sentences_per_page=5)
TFDS = Rules(whole_page=False, max_word_length=1000, max_page_length=190_000)
BAD = BadWords(("bother", "go to blazes"))


def clean(text, rules=PAPER, **keywords):
  cleaned, counts = rules.clean(text, **keywords)
  return cleaned, {key: number for key, number in counts.items() if number}


def page_with(line):
  first, last = GOOD.split("\n")
  return "\n".join([first, line, last])


@pytest.mark.parametrize("rules", [PAPER, TFDS])
@pytest.mark.parametrize(
  "line, rule",
  [
    ("", "blank"),
    ("Home page | About us | Contact us", "no_end_mark"),
    ("This sentence of the page goes on and on...", "no_end_mark"),
    ("Read it here first.", "few_words"),
    ("Please enable JavaScript to see this whole page.", "javascript"),
    ("By reading on you accept our Terms of Use.", "policy"),
    ("This is what our privacy policy says of it.", "policy"),
    ("Our cookie policy has been changed last week.", "policy"),
    ("This site uses cookies for this and that.", "policy"),
    ("You agree to the use of cookies by us.", "policy"),
    ("We use cookies so that it works well.", "policy"),
  ],
)
def test_a_rule_drops_a_line(line, rule, rules):
  assert clean(page_with(line), rules) == (GOOD, {(LINES, rule): 1})


@pytest.mark.parametrize("rules", [PAPER, TFDS])
@pytest.mark.parametrize(
  "line, rule",
  [
    ("Then Lorem ipsum dolor sit amet, they say.", "lorem_ipsum"),
    ("They write f(x) { return x; } in such places.", "curly_bracket"),
  ],
)
def test_a_rule_drops_a_page(line, rule, rules):
  assert clean(page_with(line), rules) == (None, {(PAGES, rule): 1})


@pytest.mark.parametrize("line", ["Lorem ipsum dolor", "if (a) { b"])
def test_the_paper_looks_at_the_page_and_tfds_at_the_lines_left(line):
  assert clean(page_with(line), PAPER)[0] is None
  assert clean(page_with(line), TFDS) == (GOOD, {(LINES, "no_end_mark"): 1})


@pytest.mark.parametrize("mark", [".", "?", "!", '."'])
def test_terminal_punctuation(mark):
  text = page_with("And what else is there" + mark)
  assert clean(text) == (text, {})


@pytest.mark.parametrize(
  "line, cleaned",
  [
    ("It was first seen in 1990.[12]", "It was first seen in 1990."),
    ("It was first seen in 1990. [3][4]", "It was first seen in 1990."),
    ("It was[citation needed] first seen then.", "It was first seen then."),
    ("The History[edit] of it is long.", "The History of it is long."),
    ("It has been seen[] since then.", "It has been seen since then."),
    ("It was not[[1]] seen since then.", "It was not seen since then."),
    ("It has [a] mark that stays there.", "It has [a] mark that stays there."),
  ],
)
def test_citation_marks_are_removed(line, cleaned):
  changed = {UNMARKED: 1} if line != cleaned else {}
  assert clean(page_with(line)) == (page_with(cleaned), changed)


def test_both_published_thresholds():
  short = "It rises there. It is old. It is deep.\nIt is not long. It ends."
  assert clean(short, JMLR) == (short, {})
  assert clean(short, Rules(min_sentences_per_page=6)) == (
    None,
    {(PAGES, "few_sentences"): 1},
  )
  assert clean(GOOD, PAPER) == (GOOD, {})
  assert clean(GOOD, JMLR) == (None, {(PAGES, "few_sentences"): 1})
  four = page_with("It is old there.")
  assert clean(four, PAPER)[1] == {(LINES, "few_words"): 1}
  two = GOOD.split("\n")[0]
  assert clean(two, PAPER)[1] == {(PAGES, "few_sentences"): 1}


def test_a_page_has_a_sentence_at_the_least():
  rules = Rules(min_sentences_per_page=0)
  assert clean("Home | About", rules)[1][PAGES, "few_sentences"] == 1


def test_long_words_and_pages():
  line = "This is a very long word: " + "a" * 1001 + "."
  assert clean(page_with(line), TFDS)[1] == {(LINES, "long_word"): 1}
  assert clean(page_with(line), PAPER)[1] == {}
  page = "\n".join([GOOD] * 2000)
  assert clean(page, TFDS)[1] == {(PAGES, "too_long"): 1}
  assert clean(page, PAPER)[1] == {}


@pytest.mark.parametrize(
  "line, spoils",
  [
    ("Why would we BOTHER with such things?", True),
    ('They all told him to "go to blazes" then.', True),
    ("It was a bothersome thing to do then.", False),
    ("They go to the blazes of the fire.", False),
  ],
)
def test_bad_words_stand_by_themselves(line, spoils):
  text = page_with(line)
  expected = (None, {(PAGES, "bad_word"): 1}) if spoils else (text, {})
  assert clean(text, bad_words=BAD) == expected


def test_bad_words_of_a_line_that_is_dropped():
  text = page_with("Do not bother")
  assert clean(text, PAPER, bad_words=BAD)[0] is None
  assert clean(text, TFDS, bad_words=BAD)[0] == GOOD


def test_a_citation_mark_hides_no_bad_word():
  text = page_with("They did bo[1]ther all of us.")
  assert clean(text, bad_words=BAD)[0] is None


def test_a_share_of_the_pages_with_bad_words_is_dropped():
  words = BadWords(("bother",), share=0.25)
  urls = [f"http://example.org/{number}" for number in range(2000)]
  dropped = [words.drops("Do not bother.", url) for url in urls]
  # Four standard deviations of a draw with probability 1/4.
  assert abs(sum(dropped) - 500) < 78
  same = [words.drops("Do not bother.", url + "?utm_a=b") for url in urls]
  assert same == dropped


def test_read_words():
  assert read_words("Bother\n\n go to blazes \r\n", "words") == (
    "bother",
    "go to blazes",
  )
  with pytest.raises(UserError, match="The list of bad words 'w' is empty"):
    read_words("\n \n", "w")


def test_a_share_is_a_share():
  with pytest.raises(UserError, match="bad_words_share is 2"):
    Rules(bad_words_share=2)


LINES_OF_PAGES = [
  *GOOD.split("\n"),
  "Dr. Roberts et al. [1] said so[[2]] at 5 p.m. in the U.S. [citation needed]",
  "He asked why. ... She said no.",
  "What? No! Yes, it was so, they say.\x0bIt was so.\x85And so it was there.",
  "  An indented line with a tab.\t",
  "Home | About",
  "We use cookies here and there too.",
  "You need javascript { for this page.",
  "A line of code { that ends like this.",
  "They bo[]ther all of us too much.",
]


@pytest.mark.parametrize("rules", [PAPER, JMLR, TFDS])
def test_cleaning_again_changes_nothing(rules):
  draw = random.Random(0)
  kept = 0
  for _ in range(300):
    text = "\n".join(draw.choices(LINES_OF_PAGES, k=draw.randint(1, 8)))
    cleaned, _ = rules.clean(text, bad_words=BAD)
    if cleaned is not None:
      kept += 1
      assert clean(cleaned, rules, bad_words=BAD) == (cleaned, {})
  assert kept > 20
