"""A study of encoders from its gin file to its table, in few steps."""

import json
import re

import pytest

from transformer_zoo.cli import main as cli
from transformer_zoo.studies.execution import results

FEATURES = """
Study.question = "Do features of a frozen encoder answer?"
Study.columns = {"NER_features": "", "masked_loss": ""}
Study.rows = (@masked/Row(),)
Row.phases = ("pretrain_encoder", "heads")
"""
DIRECTIONS = """
Study.question = "Does a BiLSTM help a model that reads from left to right?"
Study.published = "bert/table5_pretraining_tasks"
Study.columns = {"SST2": "SST2"}
Study.rows = (@left_to_right/Row(), @with_bilstm/Row())
Row.phases = ("pretrain_encoder", "heads")
left_to_right/Row.published = "LTR & No NSP"
left_to_right/Row.changes = {
  "pretrain_encoder": ("objectives/left_to_right.gin",),
  "heads": ("parts/left_to_right.gin",),
}
with_bilstm/Row.published = "+ BiLSTM"
with_bilstm/Row.changes = {
  "pretrain_encoder": ("objectives/left_to_right.gin",),
  "heads": (
    "parts/left_to_right.gin", "peft/bilstm.gin", "LSTM_LAYERS=1",
    "LSTM_DIM=$(encoder_width // 2)",
  ),
}
"""
RATES = """
Study.question = "Which rate?"
Study.columns = {"MNLI": ""}
Study.seeds = (0, 1)
Study.grids = {"heads": (("LEARNING_RATE=0.0",), ("LEARNING_RATE=0.002",))}
Study.rows = (@masked/Row(),)
Row.phases = ("pretrain_encoder", "heads")
masked/Row.changes = {"heads": (
  "TRAIN_STEPS=80", "WARMUP_STEPS=10", "EVAL_PERIOD=0",
  "CHECKPOINT_PERIOD=80", "BATCH_SIZE=16",
)}
"""
STUDIES = {"features": FEATURES, "directions": DIRECTIONS, "rates": RATES}


@pytest.fixture
def few_steps(few_steps):
  """Writes the studies beside the suite."""
  for name, text in STUDIES.items():
    (few_steps / f"{name}.gin").write_text(text)
  return few_steps


@pytest.mark.slow
def test_studies_of_encoders(few_steps, capsys):
  words = ["ablate", "features.gin", "directions.gin", "--suite=few.gin"]
  words.append("--seeds=1")
  assert cli.main([*words, "--plan"]) == 0
  plan = capsys.readouterr().out
  assert "pretrain_encoder" in plan and "directions" in plan
  code = cli.main(words)
  said = capsys.readouterr()
  assert code == 0, said.out + said.err
  results = {
    path.parent.name.rpartition("-")[0]: json.loads(path.read_text())
    for path in sorted((few_steps / "runs" / "runs").glob("*/result.json"))
  }
  assert {"pretrain_encoder", "heads"} == set(results)
  for name, columns in (
    ("features", ["NER_features", "masked_loss"]),
    ("directions", ["SST2"]),
  ):
    table = (few_steps / "runs" / f"{name}-few" / "table.md").read_text()
    head = re.search(r"^\|.*\|$", table, re.M)[0]
    assert [c for c in columns if c in head] == columns
  assert "[92.1" in table and "[91.6" in table
  # Finished runs are not trained again.
  assert cli.main(words) == 0
  assert "training: step" not in capsys.readouterr().out


@pytest.mark.slow
def test_a_search_leaves_out_the_rate_of_nothing(few_steps, capsys):
  words = ["ablate", "rates.gin", "--suite=few.gin"]
  assert cli.main([*words, "--plan", "--json"]) == 0
  plan = json.loads(capsys.readouterr().out)
  assert plan["total"]["runs"] == 2 + 2 + 1
  code = cli.main(words)
  said = capsys.readouterr()
  assert code == 0, said.out + said.err
  folder = few_steps / "runs" / "rates-few"
  study = results.read(folder)
  (search,) = study.searches()
  nothing, learnt = search.scores
  assert nothing < learnt and search.chosen == 1
  for run in study.scored_runs("masked", "MNLI"):
    assert "LEARNING_RATE = 0.002" in (run.folder / "config.gin").read_text()
  assert f"**{learnt:.2f}**" in (folder / "table.md").read_text()
  assert len(list((few_steps / "runs" / "runs").glob("*/result.json"))) == 5
  assert cli.main(words) == 0
  assert "training: step" not in capsys.readouterr().out
