"""SyntaxGym's suites: their regions and formulas, and files that are none."""

import copy
import json

import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.probes import suites

CONTENT = {
  "meta": {"name": "number_prep", "metric": "sum"},
  "predictions": [
    {"type": "formula", "formula": "(3;%match%) < (3;%mismatch%)"},
    {"type": "formula", "formula": "[(*;%match%)-(*;%mismatch%)<0.5]"},
  ],
  "items": [
    {
      "item_number": 1,
      "conditions": [
        {
          "condition_name": name,
          "regions": [
            {"region_number": 1, "content": "The author"},
            {"region_number": 2, "content": ""},
            {"region_number": 3, "content": verb},
            {"region_number": 4, "content": "good."},
          ],
        }
        for name, verb in (("match", "is"), ("mismatch", "are"))
      ],
    }
  ],
}


def read(folder, content):
  path = folder / "suite.json"
  path.write_text(json.dumps(content))
  return suites.read(path)


def test_regions_have_what_stands_around_them(tmp_path):
  suite = read(tmp_path, CONTENT)
  assert suite.name == "number_prep"
  (item,) = suite.regions()
  assert item["match", "3"] == ("The author", "is", "good.")
  assert item["mismatch", "*"] == ("", "The author are good.", "")


@pytest.mark.parametrize(
  ("formula", "expected"),
  [
    ("(1;%a%) < (1;%b%)", True),
    ("(1;%a%) > (1;%b%)", False),
    ("(1;%a%) = (1;%a%)", True),
    ("(1;%a%) - (2;%a%) < (1;%b%) - (2;%b%)", False),
    ("(1;%a%) + (2;%a%) > (1;%b%)", True),
    ("[(1;%a%) < (1;%b%)] & [(2;%a%) < (2;%b%)]", True),
    ("[(1;%a%) > (1;%b%)] | [(2;%a%) > (2;%b%)]", False),
    ("((1;%a%) > (1;%b%)) | ((2;%a%) < (2;%b%))", True),
    ("(1;%a%) > -1", True),
  ],
)
def test_a_formula_compares_surprisals(formula, expected):
  values = {("a", "1"): 2, ("b", "1"): 2.5, ("a", "2"): 1, ("b", "2"): 4}
  assert suites.holds(formula, values) is expected


@pytest.mark.parametrize(
  ("change", "message"),
  [
    ({"items": None}, "has items=None; it takes a list"),
    ({"items": []}, "has no items"),
    ({"predictions": [{"formula": "(9;%match%) < 1"}]}, "has no region 9"),
    ({"predictions": [{"formula": "(1;%mach%) < 1"}]}, "no condition 'mach'"),
    ({"predictions": [{"formula": "open('a') < 1"}]}, "cannot be read"),
    ({"predictions": [{"formula": "(1;%match%) <"}]}, "cannot be read"),
  ],
)
def test_a_file_that_is_no_suite_is_refused(tmp_path, change, message):
  with pytest.raises(UserError, match=message):
    read(tmp_path, copy.deepcopy(CONTENT) | change)
