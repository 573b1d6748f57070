"""Properties of every shipped objective that works on chunks of tokens."""

import csv
import json
import pathlib
import re

import gin
import numpy as np
import pytest

from tests.corruption import vocabulary as vocabularies
import transformer_zoo
from transformer_zoo import config
from transformer_zoo import corruption
from transformer_zoo.corruption.draws import Draws

GIN = pathlib.Path(transformer_zoo.__file__).parent.parent / "gin_configs"
# The others read the sentences or documents of a prepared corpus.
NAMES = sorted(
  path.stem
  for path in (GIN / "objectives").glob("*.gin")
  if not re.search(
    "Needs the sentences|@ConcatenatedDocuments", path.read_text()
  )
)
# [CLS], [SEP] and a mask, and sentinels besides.
VOCABULARY = vocabularies.bert(
  size=1200,
  sentinel_ids=np.arange(1199, 1000, -1),
  word_starts=np.arange(1200) < vocabularies.CONTINUES,
)


@pytest.fixture(params=NAMES)
def objective(request):
  config.load([f"objectives/{request.param}.gin"], root="CORRUPTION")
  made = config.value("CORRUPTION")
  lengths = config.value("TASK_FEATURE_LENGTHS")
  gin.clear_config()
  return made, lengths


def _texts(objective, rows):
  made, lengths = objective
  tokens = vocabularies.text(rows, made.raw_length(lengths), words=True)
  tokens[:, ::19] = vocabularies.FULL_STOP
  return tokens


def test_an_example_is_a_function_of_its_key_and_its_text(objective):
  corrupt, _ = objective
  tokens = _texts(objective, 12)
  indices = np.array([5, 2**40, 7, 0, 1, 2, 3, 100, 2**33, 9, 8, 6])
  together = corrupt(tokens, Draws(4, indices), VOCABULARY)
  for row in (0, 1, 11):
    one = slice(row, row + 1)
    alone = corrupt(tokens[one], Draws(4, indices[one]), VOCABULARY)
    assert set(alone) == set(together)
    for name, value in together.items():
      np.testing.assert_array_equal(alone[name].values, value.rows()[row])


def test_nothing_is_drawn_elsewhere_and_the_text_is_left_alone(objective):
  corrupt, _ = objective
  tokens = _texts(objective, 3)
  before, state = tokens.copy(), np.random.get_state()[1].tolist()
  first = corrupt(tokens, Draws(0, np.arange(3)), VOCABULARY)
  again = corrupt(tokens, Draws(0, np.arange(3)), VOCABULARY)
  for name, value in first.items():
    np.testing.assert_array_equal(value.values, again[name].values)
    assert value.values.dtype == np.int32
    assert value.lengths.sum() == len(value.values)
  np.testing.assert_array_equal(tokens, before)
  assert np.random.get_state()[1].tolist() == state


def test_rows_fit_their_lengths(objective):
  corrupt, lengths = objective
  assert corrupt.check(lengths, VOCABULARY) < 0.03
  made = corrupt(_texts(objective, 50), Draws(0, np.arange(50)), VOCABULARY)
  room = 0 if corrupt.layout == "encoder" else 1  # EOS
  longest = made["inputs"].lengths.max()
  assert longest + room <= lengths["inputs"]
  if room == 0:
    # Whole rows, and every feature stands beside the tokens.
    sizes = {name: value.lengths.tolist() for name, value in made.items()}
    labels = sizes.pop("attention_kind", [1] * 50)
    assert labels == [1] * 50
    assert all(size == [lengths["inputs"]] * 50 for size in sizes.values())


def test_specs_go_through_json(objective):
  spec = json.loads(json.dumps(corruption.to_spec(objective[0])))
  assert corruption.from_spec(spec) == objective[0]


# Raffel et al. 2020: table, column that names the rows, the file of each row.
T5_ROWS = [
  ("table02_architectures", "objective", {"Denoising": "iid_15", "LM": "lm"}),
  (
    "table03_objective_examples",
    "Objective",
    {
      "Prefix language modeling": "prefix_lm",
      "BERT-style Devlin et al. (2018)": "bert_style",
      "Deshuffling": "deshuffling",
      "MASS-style Song et al. (2019)": "mass_style",
      "I.i.d. noise, replace spans": "iid_15",
      "I.i.d. noise, drop tokens": "iid_drop_tokens",
      "Random spans": "span_3",
    },
  ),
  (
    "table04_disparate_objectives",
    "row",
    {
      "Prefix language modeling": "prefix_lm",
      "BERT-style (Devlin et al., 2018)": "bert_style",
      "Deshuffling": "deshuffling",
    },
  ),
  (
    "table05_bert_style_variants",
    "row",
    {
      "BERT-style (Devlin et al., 2018)": "bert_style",
      "MASS-style (Song et al., 2019)": "mass_style",
      "Replace corrupted spans": "iid_15",
      "Drop corrupted tokens": "iid_drop_tokens",
    },
  ),
  (
    "table06_corruption_rates",
    "row",
    {"10%": "iid_10", "15%": "iid_15", "25%": "iid_25", "50%": "iid_50"},
  ),
  (
    "table07_span_lengths",
    "row",
    {
      "Baseline (i.i.d.)": "iid_15",
      "2": "span_2",
      "3": "span_3",
      "5": "span_5",
      "10": "span_10",
    },
  ),
]


@pytest.mark.parametrize("table, column, files", T5_ROWS)
def test_every_row_of_the_t5_paper_has_a_file(
  shared_data, table, column, files
):
  path = shared_data.parent / "reference" / "t5_tables" / f"{table}.csv"
  if not path.exists():
    pytest.skip("no published tables")
  with path.open(newline="") as file:
    rows = {row[column] for row in csv.DictReader(file)}
  assert rows == set(files)
  for name in files.values():
    text = (GIN / "objectives" / f"{name}.gin").read_text()
    assert "Raffel et al. 2020" in text.replace("\n# ", " ")
