"""Output of the subcommands."""

import json
import os
import re
import subprocess
import sys

import pytest

from tests import few_examples as few
from transformer_zoo.cli import console
from transformer_zoo.cli import main as cli

SMALL = [
  "inspect",
  "model",
  "--gin_file=architectures/t5_1_1.gin",
  "--gin_file=sizes/t5_1_1_small.gin",
]


def printed(capsys, *words) -> str:
  assert cli.main(words) == 0, capsys.readouterr().err
  return capsys.readouterr().out


def test_list_architectures(capsys):
  rows = json.loads(printed(capsys, "list", "architectures", "--json"))
  names = {row["name"]: row for row in rows}
  assert names["t5_1_1"]["gin_file"] == "architectures/t5_1_1.gin"
  assert names["t5_1_1"]["summary"].startswith("T5 v1.1")
  assert re.search(
    r"^t5_1_1 +T5 v1\.1", printed(capsys, "list", "architectures"), re.M
  )


@pytest.mark.parametrize("kind", ["architectures", "suites"])
def test_a_summary_is_a_whole_sentence(capsys, kind):
  for row in json.loads(printed(capsys, "list", kind, "--json")):
    assert re.fullmatch(r"\S.*\.", row["summary"]), row
    assert row["summary"].count("(") == row["summary"].count(")"), row


def test_list_tasks_and_mixtures(capsys):
  pytest.importorskip("seqio")
  assert "mini_sst2" in printed(capsys, "list", "tasks")
  rows = json.loads(printed(capsys, "list", "mixtures", "--json"))
  assert "miniature" in [row["name"] for row in rows]


@pytest.mark.slow
def test_inspect_task(capsys):
  pytest.importorskip("seqio")
  words = ["inspect", "task", "mini_sst2", "-n", "2", "--examples", "50"]
  words += ["--length", "inputs=1,targets=64"]
  found = json.loads(printed(capsys, *words, "--json"))
  assert found["measured"] == 50
  first = found["examples"][0]
  assert first["inputs"]["text"].startswith("mini_sst2 sentence: ")
  assert first["targets"]["ids"][-1] == 1
  assert found["features"]["inputs"]["truncated"] == 1.0
  assert found["features"]["targets"]["truncated"] == 0.0
  quantiles = list(found["features"]["inputs"]["quantiles"].values())
  assert quantiles == sorted(quantiles)
  text = printed(capsys, *words)
  assert "1 inputs: mini_sst2 sentence: " in text
  assert "100.0% are truncated" in text


@pytest.fixture
def few_examples():
  """Tasks of the miniature world have few examples."""
  with few.only_few():
    yield


@pytest.mark.slow
def test_what_is_prepared_is_told(capsys, tmp_path, few_examples):
  prepared = ["--prepared_dir", str(tmp_path)]
  assert cli.main(["prepare", "--mixture", "mini_copa", *prepared]) == 0
  told = capsys.readouterr().out.splitlines()
  number = r"\d[\d,]* examples, \d[\d,]* tokens, 1 shard, \d+\.\d MB"
  # Last, since a bad row of a small split is then found first.
  *_, last = (line for line in told if line.startswith("prepared "))
  assert re.fullmatch(rf"prepared mini_copa train: {number} in \S+ s", last)
  train = told[told.index("mini_copa (rate 1):") + 1]
  assert re.fullmatch(f"  train: {number}", train)
  words = ["inspect", "task", "mini_copa", "-n", "1", "--examples", "9"]
  assert cli.main([*words, *prepared]) == 0
  assert f"prepared {train.strip()}" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mini_mrpc", "mini_mrpc:classes"])
def test_inspect_task_shows_the_forms(name, capsys):
  pytest.importorskip("seqio")
  words = ["inspect", "task", name, "-n", "1", "--examples", "9"]
  found = json.loads(printed(capsys, *words, "--json"))
  classes = ["not_equivalent", "equivalent"]
  form = {"form": "classes", "classes": classes}
  assert found["forms"] == [{"task": "mini_mrpc:classes", **form}]
  (line,) = (
    line
    for line in printed(capsys, *words).splitlines()
    if line.startswith("form ")
  )
  assert line == (
    "form classes: mini_mrpc:classes (not_equivalent, equivalent)"
  )
  if name == "mini_mrpc":
    assert found["form"] is None
    return
  assert found["form"] == form
  first, second = (
    found["examples"][0][feature]["text"] for feature in ("first", "second")
  )
  text = printed(capsys, *words)
  assert f"1 first: {first}\n" in text
  assert f"1 second: {second}\n" in text
  assert "1 target: not_equivalent\n" in text


def test_flags_of_beam_need_a_runner(capsys, tmp_path):
  words = ["prepare", "--mixture", "mini_copa", "--prepared_dir", str(tmp_path)]
  assert cli.main([*words, "--direct_num_workers=2"]) == 2
  assert capsys.readouterr().err == (
    "zoo: error: '--direct_num_workers=2' is no argument of `zoo prepare`; "
    "flags for Beam need --beam_runner.\n"
  )


def test_inspect_task_refuses(capsys):
  pytest.importorskip("seqio")
  for words, sentence in (
    (["mini_sst"], "no task is named 'mini_sst'; did you mean 'mini_sst2'"),
    (["mini_sst2", "--split=dev"], "task 'mini_sst2' has no split 'dev'"),
    (
      ["mini_sst2", "--length=input=3"],
      "--length names 'input', which is no feature of task 'mini_sst2'; did "
      "you mean 'inputs'?",
    ),
  ):
    assert cli.main(["inspect", "task", *words]) == 2
    assert capsys.readouterr().err.startswith(f"zoo: error: {sentence}")


@pytest.mark.slow
def test_inspect_model(capsys):
  found = json.loads(printed(capsys, *SMALL, "--json"))
  # Table of recorded sizes: T5.1.1 small has 76,961,152 parameters.
  assert found["total_parameters"] == 76_961_152
  assert found["flops_per_token"] > 0
  text = printed(capsys, *SMALL)
  assert "76,961,152" in text and "EncoderDecoder(" in text


@pytest.mark.slow
def test_inspect_model_imports_no_tensorflow():
  script = (
    "import sys\nfrom transformer_zoo.cli import main\n"
    f"code = main.main({SMALL!r})\n"
    "assert code == 0 and not {'tensorflow', 'seqio'} & set(sys.modules)"
  )
  subprocess.run([sys.executable, "-c", script], check=True)


def test_inspect_model_refuses_an_unknown_macro(capsys):
  assert cli.main([*SMALL, "--gin.NUM_HEAD=3"]) == 2
  assert capsys.readouterr().err.startswith(
    "zoo: error: --gin.NUM_HEAD: the macro 'NUM_HEAD' is used by nothing that "
    "'MODEL' reads; did you mean 'NUM_HEADS'"
  )


def test_doctor(capsys, monkeypatch, tmp_path):
  data, here, of_tfds = (tmp_path / name for name in ("data", "here", "sets"))
  for place, inside in ((data, "tfds"), (here, "corpus"), (of_tfds, "glue")):
    (place / inside).mkdir(parents=True)
  monkeypatch.setenv("ZOO_DATA_DIR", str(data))
  monkeypatch.setenv("TFDS_DATA_DIR", str(of_tfds))
  monkeypatch.chdir(here)
  found = json.loads(printed(capsys, "doctor", "--json"))
  assert found["jax"] != "not installed"
  assert found["devices"].startswith("8 x ")
  folders = {n: found[n] for n in found if n.startswith("data in ")}
  assert folders == {
    f"data in {data}": "tfds",
    f"data in {here}": "corpus",
    f"data in {of_tfds}": "glue",
  }
  assert "GiB" in printed(capsys, "doctor")


def test_doctor_tells_whether_huge_pages_are_asked_for(capsys, monkeypatch):
  def told():
    return json.loads(printed(capsys, "doctor", "--json"))["huge pages"]

  monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
  assert told() == "asked for"
  monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=0")
  assert told() == "not asked for: GLIBC_TUNABLES=glibc.malloc.hugetlb=0"
  monkeypatch.delenv("GLIBC_TUNABLES")
  monkeypatch.setattr(console, "reason_not_to_ask", lambda: "")
  assert told() == "asked for by the command `zoo`, not by this process"


@pytest.mark.slow
def test_inspect_mixture(capsys, tmp_path, few_examples):
  pytest.importorskip("seqio")
  words = ["inspect", "mixture", "miniature", "--prepared_dir", str(tmp_path)]
  words += ["--steps", "350", "--batch_size", "32"]
  found = json.loads(printed(capsys, *words, "--json"))
  assert [task["name"] for task in found["tasks"]][0] == "mini_cola"
  assert sum(task["share"] for task in found["tasks"]) == pytest.approx(1)
  assert all(task["epochs"] > 0 for task in found["tasks"])
  text = printed(capsys, *words, "--length", "inputs=72,targets=16")
  assert "packed to inputs 72, targets 16 with " in text
  by_size = json.loads(printed(capsys, *words, "--json", "--maximum", "100"))
  assert {task["rate"] for task in by_size["tasks"]} == {100.0}


def test_inspect_mixture_refuses(capsys, tmp_path, monkeypatch):
  pytest.importorskip("seqio")
  monkeypatch.setenv("ZOO_DATA_DIR", "")
  monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
  for name, sentence in (
    ("minature", "no mixture is named 'minature'; did you mean 'miniature'"),
    (
      "miniature_super_glue:choices",
      "Task 'mini_copa' has no form 'choices'; it has 'classes'.",
    ),
    (
      "glue_real_small",
      "Mixture 'glue_real_small' has members that cannot be read: "
      "glue_cola_v002, glue_mrpc_v002, glue_rte_v002, glue_sst2_v002, "
      "glue_stsb_v002. glue_cola_v002: The TFDS dataset 'glue/cola:2.0.0' is",
    ),
  ):
    words = ["inspect", "mixture", name, "--prepared_dir", str(tmp_path)]
    assert cli.main(words) == 2
    assert capsys.readouterr().err.startswith(f"zoo: error: {sentence}")


@pytest.mark.parametrize(
  "line, words",
  [
    ("zoo inspect m", ["mixture", "model"]),
    ("zoo train --gin_file schedules/lin", ["schedules/linear.gin"]),
    ("zoo ablate quicks", ["quickstart"]),
    ("zoo ablate quickstart --suite miniature_1", ["miniature_16x"]),
  ],
)
def test_the_shell_completes_words(tmp_path, line, words):
  answer = tmp_path / "answer"
  subprocess.run(
    [sys.executable, "-c", "from transformer_zoo.cli import main; main.main()"],
    env={
      **os.environ,
      "_ARGCOMPLETE": "1",
      "_ARGCOMPLETE_IFS": "\n",
      "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
      "COMP_LINE": line,
      "COMP_POINT": str(len(line)),
    },
    check=True,
  )
  assert answer.read_text().split() == words
