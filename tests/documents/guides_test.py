"""The guides on data of your own, followed: files written, commands run."""

import json
import pathlib
import re
import shlex
import sys

import gin
import pytest

from tests import few_examples as few
from transformer_zoo.cli import main as cli

ROOT = pathlib.Path(__file__).parents[2]
ROWS = [
  ("anna saw a fish.", "anna saw an animal.", "entailment"),
  ("iris sold a boat.", "iris was glad.", "neutral"),
  ("walter left.", "walter stayed.", "contradiction"),
] * 4
QUICK = [
  "--gin.TRAIN_STEPS=2",
  "--gin.BATCH_SIZE=8",
  "--gin.EVAL_PERIOD=2",
  "--gin.CHECKPOINT_PERIOD=2",
  "--gin.EMBED_DIM=32",
  "--gin.MLP_DIM=32",
  "--gin.NUM_HEADS=2",
  "--gin.HEAD_DIM=8",
  "--gin.VOCAB_SIZE=1664",
  "--gin.NUM_ENCODER_LAYERS=1",
  "--gin.NUM_DECODER_LAYERS=1",
  "--gin.TASK_FEATURE_LENGTHS={'inputs': 48, 'targets': 8}",
]


def guide(name):
  return (ROOT / f"docs/guides/{name}.md").read_text(encoding="utf-8")


def blocks(name, language):
  """The code blocks of a guide."""
  return re.findall(rf"```{language}\n(.*?)```", guide(name), re.S)


def commands(text):
  """The commands of the indented blocks, each as a list of words."""
  lines = re.findall(
    r"^    (.*)$", re.sub(r"```.*?```", "", text, flags=re.S), re.M
  )
  joined = "\n".join(lines).replace("\\\n", " ")
  return [shlex.split(line) for line in joined.splitlines()]


@pytest.fixture
def folder(tmp_path, monkeypatch):
  """The current folder of the user: the module and its rows."""
  seqio = pytest.importorskip("seqio")
  source, *_ = blocks("your_own_task", "python")
  assert len(source.splitlines()) <= 20
  (tmp_path / "my_tasks.py").write_text(source)
  (tmp_path / "nli").mkdir()
  lines = ["premise\thypothesis\tlabel", *("\t".join(row) for row in ROWS)]
  for split in ("train", "validation"):
    (tmp_path / "nli" / f"{split}.tsv").write_text("\n".join(lines) + "\n")
  (tmp_path / "data").mkdir()
  monkeypatch.chdir(tmp_path)
  monkeypatch.setattr(sys, "path", list(sys.path))
  # In place of T5's: a vocabulary that is always there.
  vocabulary = ROOT / "tasks" / "miniature" / "vocabulary.model"
  monkeypatch.setenv("ZOO_VOCABULARY", str(vocabulary))
  for variable in ("ZOO_DATA_DIR", "ZOO_MODULES", "ZOO_SKIP_BAD_ROWS"):
    # Set first, so that what a command sets is taken back after the test.
    monkeypatch.setenv(variable, "")
  yield tmp_path
  gin.clear_config()
  sys.modules.pop("my_tasks", None)
  if "my_nli" in seqio.TaskRegistry.names():
    seqio.TaskRegistry.remove("my_nli")


@pytest.fixture
def few_examples():
  """Tasks of the miniature world have few examples."""
  with few.only_few():
    yield


@pytest.mark.slow
def test_the_guide_runs_as_it_stands(folder, capsys):
  outputs = {}
  for words in commands(guide("your_own_task")):
    assert words[0] == "zoo"
    words = [word.replace("=DATA", "=data") for word in words[1:]]
    code = cli.main(words + (QUICK if words[0] == "train" else []))
    printed = capsys.readouterr()
    assert code == 0, printed.out + printed.err
    outputs[words[0]] = printed.out
    gin.clear_config()
  premise, hypothesis, _ = ROWS[0]
  assert outputs["inspect"].splitlines()[0] == (
    f"1 inputs: nli premise: {premise} hypothesis: {hypothesis}"
  )
  result = json.loads((folder / "runs/my_nli/result.json").read_text())
  assert result["step"] == 2
  assert set(result["scores"]["my_nli"]) == {"accuracy"}
  assert outputs["train"].strip().endswith("runs/my_nli/result.json")
  assert '"my_nli"' in outputs["evaluate"]
  assert '"accuracy"' in outputs["evaluate"]


@pytest.mark.slow
def test_a_vocabulary_of_ones_own(folder, capsys):
  (source,) = blocks("vocabularies", "python")
  (folder / "my_corpus_task.py").write_text(source)
  (folder / "corpus").mkdir()
  (folder / "corpus/text.txt").write_text((ROOT / "README.md").read_text())
  printed = {}
  for words in commands(guide("vocabularies")):
    code = cli.main(words[1:])
    printed[words[1]] = capsys.readouterr()
    assert code == 0, printed[words[1]].err
  report = json.loads(printed["train-vocabulary"].out)
  assert report["size"] == 300
  stored = (folder / "my_vocabulary/report.json").read_text()
  assert stored == printed["train-vocabulary"].out
  assert "<extra_id_0>" in printed["inspect"].out
  sys.modules["seqio"].TaskRegistry.remove("my_corpus")


@pytest.mark.slow
def test_forms_of_rows(folder, capsys):
  seqio = pytest.importorskip("seqio")
  (source,) = blocks("forms", "python")
  (folder / "my_forms.py").write_text(source)
  words, *_ = commands(guide("forms"))
  assert cli.main(words[1:]) == 0
  (line,) = re.findall(r"```\n(form .*)\n```", guide("forms"))
  assert line in capsys.readouterr().out.splitlines()
  words = ["--module=my_forms", "--data_dir=data", "--json"]
  code = cli.main(["inspect", "task", "my_pairs:classes", *words])
  printed = capsys.readouterr()
  assert code == 0, printed.err
  (first, *_) = json.loads(printed.out)["examples"]
  texts = [first[name]["text"] for name in ("first", "second", "target")]
  assert texts == list(ROWS[0])
  for name in ("my_pairs", "my_pairs:classes"):
    seqio.TaskRegistry.remove(name)


@pytest.mark.slow
def test_embeddings(folder, capsys):
  """Vectors of pairs, then of a few labels, which scikit-learn reads."""
  seqio = pytest.importorskip("seqio")
  sources = blocks("embeddings", "python")
  (folder / "my_few.py").write_text(sources[2])
  (folder / "few").mkdir()
  rows = ["a fine day.\tgood", "a bad day.\tbad", "a fine boat.\tgood"]
  (folder / "few/train.tsv").write_text("\n".join(["text\tlabel", *rows]))
  quick = ["--gin.EMBED_DIM=8", "--gin.MLP_DIM=8", "--gin.HEAD_DIM=4"]
  quick += ["--gin.NUM_HEADS=2", "--gin.NUM_ENCODER_LAYERS=1"]
  quick += ["--gin.EVAL_MAX_EXAMPLES=200"]
  for words in commands(guide("embeddings")):
    words = [word.replace("=DATA", "=data") for word in words[1:]]
    code = cli.main(words + (quick if words[0] == "train" else []))
    printed = capsys.readouterr()
    assert code == 0, printed.out + printed.err
    if "--gin.TRAIN_STEPS=300" in words:
      first, *_, last = re.findall(r"spearman_corrcoef (\S+)", printed.out)
      assert float(last) > float(first) + 10
    gin.clear_config()
  assert (folder / "vectors.npz").is_file()
  found = {}
  exec(sources[0], found)
  assert found["vectors"].shape == (2, 8)
  exec(sources[3], found)
  assert len(found["answers"]) == 2
  seqio.TaskRegistry.remove("my_pairs_of_labels:embedding")


@pytest.mark.slow
def test_prompts_and_demonstrations(folder, capsys):
  (prompts,) = blocks("prompts", "yaml")
  (source,) = blocks("prompts", "python")
  (folder / "my_prompts.yaml").write_text(prompts)
  (folder / "my_prompted.py").write_text(source)
  names = ["prompted_my_nli_true", "my_nli_4_shot"]
  shown = []
  try:
    for name in names:
      words = ["--module=my_tasks", "--module=my_prompted", "--json"]
      words += ["--split=validation", "--data_dir=data"]
      code = cli.main(["inspect", "task", name, *words])
      printed = capsys.readouterr()
      assert code == 0, printed.err
      shown.append(json.loads(printed.out)["examples"][0]["inputs"]["text"])
  finally:
    seqio = sys.modules["seqio"]
    for name in names:
      seqio.TaskRegistry.remove(name)
    seqio.MixtureRegistry.remove("prompted_my_nli")
    sys.modules.pop("my_prompted", None)
  assert shown[0] == "anna saw a fish. Is it true that anna saw an animal."
  assert shown[1].endswith(f"\n\n{shown[0]}\nanswer: ")
  assert shown[1].count("\nanswer: ") == 5


@pytest.mark.slow
def test_mixtures(folder, capsys, few_examples):
  (source,) = blocks("mixtures", "python")
  with open(folder / "my_tasks.py", "a") as file:
    file.write(source)
  (words,) = [
    words for words in commands(guide("mixtures")) if words[1] == "inspect"
  ]
  try:
    code = cli.main([word.replace("=DATA", "=data") for word in words[1:]])
    printed = capsys.readouterr()
  finally:
    sys.modules["seqio"].MixtureRegistry.remove("my_mixture")
  assert code == 0, printed.err
  assert "my_nli" in printed.out
  assert "mini_sst2" in printed.out
  assert "mini_copa" not in printed.out


@pytest.mark.slow
def test_a_part_of_ones_own(folder, capsys, few_examples):
  part, *_ = blocks("parts", "python")
  run, *_ = blocks("parts", "gin")
  (folder / "my_parts.py").write_text(part)
  (folder / "my_run.gin").write_text(run)
  inspect, train, *_ = commands(guide("parts"))
  assert cli.main(inspect[1:]) == 0
  assert "SquaredReluMlp" in capsys.readouterr().out
  gin.clear_config()
  (folder / "without.gin").write_text(run.replace("import my_parts\n", ""))
  named = ["inspect", "model", "--gin_file=without.gin", "--module=my_parts"]
  assert cli.main(named) == 0
  assert "SquaredReluMlp" in capsys.readouterr().out
  gin.clear_config()
  lengths = "--gin.TASK_FEATURE_LENGTHS={'inputs': 48, 'targets': 16}"
  code = cli.main([*train[1:], *QUICK, lengths])
  assert code == 0, capsys.readouterr().err
  configuration = (folder / "runs/primer/config.gin").read_text()
  assert "import my_parts" in configuration
