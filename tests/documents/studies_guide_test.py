"""The guide to a study of your own, followed in few steps."""

import json
import pathlib
import re
import shlex

import gin
import pytest

from tests import few_examples as few
from transformer_zoo.cli import main as cli
from transformer_zoo.studies.execution import results
from transformer_zoo.studies.statistics import analysis

ROOT = pathlib.Path(__file__).parents[2]
# In place of the guide's: fewer steps, and no corpus that has to be written.
FEW_STEPS = {
  '"TRAIN_STEPS=300"': (
    "\"MIXTURE_OR_TASK_NAME='mini_cola'\", 'TRAIN_STEPS=2', 'BATCH_SIZE=8', "
    "'EMBED_DIM=32', 'NUM_ENCODER_LAYERS=1', 'NUM_DECODER_LAYERS=1', "
  ),
  '"TRAIN_STEPS=100"': (
    "'TRAIN_STEPS=2', 'WARMUP_STEPS=1', 'BATCH_SIZE=8', 'EMBED_DIM=32', "
    "'train.evaluation_max_examples=8', "
    "'NUM_ENCODER_LAYERS=1', 'NUM_DECODER_LAYERS=1'"
  ),
}


@pytest.fixture
def guide(tmp_path, monkeypatch):
  """The text of the guide; its files lie in the current folder."""
  pytest.importorskip("seqio")
  monkeypatch.chdir(tmp_path)
  monkeypatch.setenv("ZOO_DATA_DIR", "")
  monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
  text = (ROOT / "docs/guides/your_own_study.md").read_text(encoding="utf-8")
  names = re.findall(r"`((?:studies|suites)/\S+\.gin)`", text)
  blocks = re.findall(r"```gin\n(.*?)```", text, re.S)
  for name, block in zip(names, blocks, strict=True):
    for long, short in FEW_STEPS.items():
      block = block.replace(long, short)
    path = pathlib.Path(name)
    path.parent.mkdir(parents=True)
    path.write_text(block)
  with few.only_few():
    yield text
  gin.clear_config()


@pytest.mark.slow
def test_a_study_of_ones_own(guide, capsys):
  printed = {}
  for line in re.findall(r"^    (zoo .*)$", guide, re.M):
    words = shlex.split(line.replace("--seeds 2", "--seeds 1"))[1:]
    code = cli.main(words)
    said = capsys.readouterr()
    assert code == 0, said.out + said.err
    printed[" ".join(words)] = said.out + said.err
  plan = printed["ablate dropout --suite sentiment --plan"]
  assert "no_pretraining" in plan
  folder = pathlib.Path("runs/dropout-sentiment")
  study = json.loads((folder / "study.json").read_text())
  assert study["question"] == "Does dropout help fine-tuning?"
  assert [row["label"] for row in study["rows"]] == [
    "baseline",
    "dropout 0.1",
    "no_pretraining",
  ]
  assert "dropout 0.1" in (folder / "table.md").read_text()
  table = analysis.analyse(results.read(folder)).table
  # What is asked before fine-tuning, a row without pre-training has not.
  cells = table.of_column("grammar")
  assert [len(cells[row].values) for row in table.rows] == [1, 1, 0]
  assert (folder / "report.html").exists()
  # One pre-training, which is asked once, and a fine-tuning for each row.
  assert len(list(pathlib.Path("runs/runs").glob("*-*"))) == 5
