"""CounterFact and zsRE as their authors write them, and rows that are none."""

import json

import pytest

from transformer_zoo.editing import benchmarks
from transformer_zoo.editing.facts import Fact
from transformer_zoo.errors import UserError

COUNTERFACT = {
  "case_id": 0,
  "pararel_idx": 7,
  "requested_rewrite": {
    "prompt": "The home town of {} is",
    "relation_id": "P19",
    "target_new": {"str": "Oslo", "id": "Q585"},
    "target_true": {"str": "Lima", "id": "Q2868"},
    "subject": "Ann Fox",
  },
  "paraphrase_prompts": ["It rained. Ann Fox comes from"],
  "neighborhood_prompts": ["The home town of Bo is", "Eve was born in"],
  "attribute_prompts": ["Joe was born in"],
  "generation_prompts": ["Ann Fox grew up in"],
}
SNIPPETS = [
  {
    "relation_id": "P19",
    "target_id": "Q585",
    "samples": [{"name": "Joe", "text": "Joe was born in Oslo."}],
  }
]
ZSRE = {
  "subject": "Ann Fox",
  "src": "Which club did Ann Fox play for?",
  "pred": "Rangers",
  "rephrase": "What was Ann Fox's club?",
  "alt": "Rovers",
  "answers": ["Arsenal", "Arsenal FC"],
  "loc": "nq question: who wrote the letter",
  "loc_ans": "Bo Elm",
  "cond": "Rangers >> Rovers || Which club did Ann Fox play for?",
}
EXPECTED = {
  "counterfact": Fact(
    "The home town of {} is",
    "Ann Fox",
    "Oslo",
    "Lima",
    ("It rained. Ann Fox comes from",),
    ("The home town of Bo is", "Eve was born in"),
    generations=("Ann Fox grew up in",),
    references=("Joe was born in Oslo.",),
  ),
  "zsre": Fact(
    "Which club did {} play for?",
    "Ann Fox",
    "Arsenal",
    paraphrases=("What was Ann Fox's club?",),
    elsewhere=(("nq question: who wrote the letter?", "Bo Elm"),),
  ),
}


def written(folder, rows, name="facts.json"):
  path = folder / name
  path.write_text(json.dumps(rows))
  return str(path)


@pytest.mark.parametrize(
  ("name", "row"), [("counterfact", COUNTERFACT), ("zsre", ZSRE)]
)
def test_a_row_is_a_fact(tmp_path, name, row):
  path = written(tmp_path, [row, row])
  texts = written(tmp_path, SNIPPETS, "attribute_snippets.json")
  found = benchmarks.facts_of_file(path, references=texts)
  assert found == [EXPECTED[name]] * 2
  assert len(benchmarks.facts_of_file(path, first=1, number=3)) == 1


def test_facts_of_ones_own(tmp_path):
  path = tmp_path / "own.jsonl"
  row = {"prompt": "{} has", "subject": "a", "target": "b"}
  path.write_text(f"{json.dumps({**row, 'elsewhere': [['c', 'd']]})}\n" * 2)
  found = benchmarks.facts_of_file(path, number=1)
  assert found == [Fact("{} has", "a", "b", elsewhere=(("c", "d"),))]


def without(row, name):
  return {key: value for key, value in row.items() if key != name}


@pytest.mark.parametrize(
  ("rows", "message"),
  [
    ({"a": 1}, "facts.json' has no list of facts; CounterFact and zsRE do"),
    ([], "facts.json' has no fact from row 0 on"),
    (
      [{"prompt": "a"}],
      "row 0 of '.*' is no fact: CounterFact has requested_rewrite there, and",
    ),
    (
      [COUNTERFACT, without(COUNTERFACT, "neighborhood_prompts")],
      "row 1 of '.*' lacks neighborhood_prompts; it is a list",
    ),
    (
      [{**COUNTERFACT, "paraphrase_prompts": [3]}],
      r"row 0 of '.*' has paraphrase_prompts\[0\]=3; it takes a text",
    ),
    (
      [{**ZSRE, "src": "Which club?"}],
      "row 0 of '.*': the subject 'Ann Fox' stands nowhere in the prompt",
    ),
    ([{**ZSRE, "answers": []}], "row 0 of '.*': answers is empty"),
  ],
)
def test_rows_that_are_no_facts_are_refused(tmp_path, rows, message):
  with pytest.raises(UserError, match=message):
    benchmarks.facts_of_file(written(tmp_path, rows))


def test_an_absent_file_is_told(tmp_path):
  with pytest.raises(UserError, match="cannot read the facts"):
    benchmarks.facts_of_file(tmp_path / "absent.json")
