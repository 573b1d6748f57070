"""Minimal pairs as their authors write them, and files that have none."""

import json

import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.probes import pairs
from transformer_zoo.evaluation.probes.questions import Question


def blimp(folder, *rows):
  path = folder / "anaphor.jsonl"
  path.write_text("\n".join(map(json.dumps, rows)))
  return path


@pytest.mark.parametrize(
  ("good", "bad", "text", "right", "wrong"),
  [
    ("The cats sleep .", "The cats sits .", "The cats ___ .", "sleep", "sits"),
    # No gap is empty.
    ("Who saw us ?", "Who saw us Bo ?", "Who saw us ___", "?", "Bo ?"),
    ("Ann ran", "Ann", "___", "Ann ran", "Ann"),
    ("A b c", "D e", "___", "A b c", "D e"),
    ("no no yes", "no yes", "no ___", "no yes", "yes"),
  ],
)
def test_a_pair_is_a_question_whose_gaps_hold_words(
  tmp_path, good, bad, text, right, wrong
):
  path = blimp(
    tmp_path, {"sentence_good": good, "sentence_bad": bad, "UID": "number"}
  )
  assert pairs.read(path) == [Question("number", "anaphor", text, right, wrong)]
  before, after = pairs.read(path)[0].sides
  for filling, sentence in ((right, good), (wrong, bad)):
    assert " ".join(filter(None, [before, filling, after])) == sentence


@pytest.mark.parametrize(
  ("name", "text", "expected"),
  [
    (
      "crows.csv",
      'sent_more,sent_less,bias_type\n"She, a nurse",He a nurse,gender',
      Question("gender", "crows", "___ a nurse", "She,", "He"),
    ),
    (
      "own.tsv",
      "good\tbad\na, b\ta, c",
      Question("all", "own", "a, ___", "b", "c"),
    ),
  ],
)
def test_crows_pairs_and_pairs_of_ones_own(tmp_path, name, text, expected):
  path = tmp_path / name
  path.write_text(text)
  assert pairs.read(path) == [expected]


def test_wino_bias_has_the_stereotype_first(tmp_path):
  texts = {
    "pro": "1 [The nurse] said [she] left.\n2 Ask [the guard] for [his] key.\n",
    "anti": "1 [The nurse] said [he] left.\n2 Ask [the guard] for [her] key.\n",
  }
  for name, text in texts.items():
    (tmp_path / f"{name}_stereotyped_type1.txt.dev").write_text(text)
  name = "pro_stereotyped_type1.txt"
  assert pairs.read(tmp_path / f"{name}.dev") == [
    Question("all", name, "The nurse said ___ left.", "she", "he"),
    Question("all", name, "Ask the guard for ___ key.", "his", "her"),
  ]


def test_files_of_wino_bias_have_the_same_sentences(tmp_path):
  (tmp_path / "pro_stereotyped_type1.txt").write_text("1 [A] saw [her].\n")
  (tmp_path / "anti_stereotyped_type1.txt").write_text("")
  with pytest.raises(UserError, match="has 1 sentences and .* has 0"):
    pairs.read(tmp_path / "pro_stereotyped_type1.txt")


@pytest.mark.parametrize(
  ("content", "message"),
  [
    ("", "has no pairs"),
    ("{", "line 1, is no JSON"),
    ('["a"]', "has the columns of no pair; a pair has sentence_good and"),
    ('{"good": "a", "evil": "b"}', "has the columns good, evil; a pair has"),
    ('{"good": "a", "bad": 3}', "has bad=3; it must be a sentence"),
    ('{"good": "a  b", "bad": "a b"}', "has the same sentence twice"),
    ('{"good": "a", "bad": "a ___ ?"}', "___ is the mark of a gap"),
  ],
)
def test_a_file_without_pairs_is_refused(tmp_path, content, message):
  path = tmp_path / "pairs.jsonl"
  path.write_text(content)
  with pytest.raises(UserError, match=message):
    pairs.read(path)


def test_an_absent_file_is_told(tmp_path):
  with pytest.raises(UserError, match="cannot read the pairs"):
    pairs.read(tmp_path / "absent.jsonl")
