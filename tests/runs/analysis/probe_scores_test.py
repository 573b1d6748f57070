"""Outcomes of pairs and facts: those that `zoo probe` counts."""

import json

import pytest

from tests.runs.analysis import probing_test
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.metrics import classification
from transformer_zoo.evaluation.probes import pairs
from transformer_zoo.evaluation.probes import relations
from transformer_zoo.runs.analysis import probe_scores
from transformer_zoo.runs.analysis import probing
from transformer_zoo.runs.analysis import recall
from transformer_zoo.runs.analysis.probe_scores import Facts
from transformer_zoo.runs.analysis.probe_scores import Pairs

ROWS = [
  {"good": f"It {good} .", "bad": f"It {bad} .", "phenomenon": kind}
  for kind, good, bad in (
    *(("number", "is", "am"), ("number", "am", "is"), ("number", "a", "b")),
    *(("order", "so it", "it so"), ("order", "no", "on")),
  )
]


def scores_of(lines):
  return classification.accuracy_by_kind(
    [line["target_answer"] for line in lines],
    [line["answer"] for line in lines],
  )


def test_pairs_and_suites_have_the_accuracies_of_zoo_probe(tmp_path):
  (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
  regions = [{"region_number": 1, "content": "It"}]
  items = [
    {
      "conditions": [
        {
          "condition_name": name,
          "regions": [*regions, {"region_number": 2, "content": word}],
        }
        for name, word in zip(("a", "b"), words, strict=True)
      ]
    }
    for words in (("is", "am"), ("am", "is"))
  ]
  formulas = ("(2;%a%) < (2;%b%)", "(2;%a%) = (2;%a%)")
  suite = {
    "meta": {"name": "regions"},
    "predictions": [{"formula": formula} for formula in formulas],
    "items": items,
  }
  (tmp_path / "suite.json").write_text(json.dumps(suite))
  found = probing_test.opened("gpt_2", start_id=None)
  probe = Pairs(name="own", paths=(str(tmp_path),))
  (lines,) = probe.ask(found, 4).values()
  scores = scores_of(lines)
  # One of the items is the other turned round.
  assert scores.pop("regions/1") == 50 and scores.pop("regions/2") == 100
  asked = pairs.read(tmp_path / "own.jsonl")
  answers, _ = probing.answer(found, asked, 4, whole=True)
  summary = probing.summarize(asked, answers, whole=True)
  assert {*summary} == {"own/number", "own/order"} == {*scores}
  for name, value in summary.items():
    assert scores[name] == pytest.approx(value["accuracy"], abs=0.01)
  for line in lines[-len(ROWS) :]:
    assert (line["prediction"] == line["targets"]) == line["answer"]


def test_facts_have_the_precisions_of_zoo_probe(tmp_path):
  template = {"relation": "P1", "template": "[X] is [Y] ."}
  (tmp_path / "templates.jsonl").write_text(json.dumps(template))
  facts = [("A dog", "big"), ("A cat", "a"), ("It", "so"), ("He", "a")]
  for name, of_file in (("P1", facts), ("P2", facts[:1])):
    (tmp_path / f"{name}.jsonl").write_text(
      "\n".join(
        json.dumps(
          {
            "sub_label": subject,
            "obj_label": target,
            "masked_sentences": [f"{subject} is [MASK] ."],
          }
        )
        for subject, target in of_file
      )
    )
  found = probing_test.opened("gpt_2", start_id=None)
  asked = Facts(name="own", paths=(str(tmp_path),)).ask(found, 4)
  # Bytes: no object is one token, and P2 has no template.
  assert {*asked} == {"own_typed"}
  folder = tmp_path.name
  (relation, _) = relations.read(tmp_path)
  assert scores_of(asked["own_typed"]) == {
    f"{folder}/P1": recall.score(found, relation, 4)["typed_precision"]
  }
  assert [line["targets"] for line in asked["own_typed"]] == [
    target for _, target in facts
  ]


@pytest.mark.parametrize(
  ("make", "message"),
  [
    (lambda: Pairs(paths=("a",)), "Pairs has no name; bind it in a scope: "),
    (
      lambda: Facts(name="own", paths="a.jsonl"),
      "own/Facts.paths is 'a.jsonl'; it is a list of paths, one at least",
    ),
    (
      lambda: probe_scores.check([Pairs(name="a", paths=("b",))] * 2),
      "evaluate.probes has two probes called 'a'; ",
    ),
    (
      lambda: probe_scores.check(["a.jsonl"]),
      "evaluate.probes has 'a.jsonl'; it is a list of @NAME/Pairs",
    ),
    (
      lambda: Facts(name="a", paths=("b",), words="absent.txt").content(),
      "cannot read the words 'absent.txt'",
    ),
  ],
)
def test_probes_that_are_refused(make, message):
  with pytest.raises(UserError, match=f"^{message}"):
    make()
