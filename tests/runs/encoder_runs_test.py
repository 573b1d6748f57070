"""Runs of encoders: trained, evaluated, asked, described for other heads."""

import json
import re

import jax
from jax import export
import numpy as np
import pytest
from safetensors.numpy import load_file

from tests import prepared_forms
import transformer_zoo
from transformer_zoo import config
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.modules import comparison

SIZES = {
  "EMBED_DIM": 16,
  "MLP_DIM": 32,
  "NUM_HEADS": 2,
  "HEAD_DIM": 8,
  "NUM_ENCODER_LAYERS": 1,
  "VOCAB_SIZE": 64,
  "MAX_POSITIONS": 32,
}
RUN = {
  "EncoderOnly.pad_id": 0,
  "MIXTURE_OR_TASK_NAME": "colours",
  "TASK_FEATURE_LENGTHS": {"inputs": 16},
  "NUM_CLASSES": 3,
  "TRAIN_STEPS": 3,
  "BATCH_SIZE": 8,
  "CHECKPOINT_PERIOD": 3,
  "EVAL_PERIOD": 3,
}
ROBERTA = "architectures/roberta.gin"


def overrides(**more):
  bindings = {**SIZES, **RUN, **more}
  return [f"--gin.{name}={value!r}" for name, value in bindings.items()]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
  return tmp_path_factory.mktemp("encoder")


@pytest.fixture
def run(zoo, prepared_dir, place):
  """The folder of a RoBERTa that has learned classes for some steps."""
  if (place / "run" / "result.json").exists():
    return place / "run"
  prepared = place / "prepared"
  prepared.mkdir()
  prepared_forms.write_classes(prepared_dir / "vocabularies", prepared)
  files = [ROBERTA, "runs/finetune.gin", "heads/classes.gin"]
  code, output, error = zoo(
    "train",
    *(f"--gin_file={file}" for file in files),
    *overrides(MODEL_DIR=str(place / "run"), PREPARED_DIR=str(prepared)),
  )
  assert code == 0, error
  assert re.search(
    r"^attention of \d+ to \d+ tokens: ReferenceAttention\(\), ",
    output,
    re.MULTILINE,
  )
  return place / "run"


def test_a_run_is_evaluated_and_asked(zoo, run):
  result = json.loads((run / "result.json").read_text())
  trained = result["scores"]["colours"]["accuracy"]
  code, output, error = zoo("inspect", "batch", run, 1)
  assert code == 0, error
  assert re.search(r"(red|green|blue) \w+ sees \[SEP\] \1", output), output
  code, _, error = zoo("evaluate", f"--checkpoint={run}", "--mixture=colours")
  assert code == 0, error
  (file,) = (run / "evaluation").glob("**/colours.jsonl")
  lines = file.read_text().splitlines()
  answers = [json.loads(line) for line in lines]
  right = [a["prediction"] == a["targets"] for a in answers]
  assert 100 * sum(right) / len(right) == pytest.approx(trained)
  texts = ["\t".join([a["inputs"], a["targets"]]) for a in answers]
  code, output, error = zoo("infer", f"--checkpoint={run}", "--json", *texts)
  assert code == 0, error
  asked = [json.loads(line) for line in output.splitlines()]
  assert [a["prediction"] for a in asked] == [a["prediction"] for a in answers]
  assert [*asked[0]["probabilities"]] == list(prepared_forms.CLASSES)


@pytest.mark.slow
def test_it_is_exported_and_answers_as_zoo_infer_does(zoo, run, tmp_path):
  """The manifest names the classes, and what stands around texts."""
  folder = tmp_path / "exported"
  said = []
  model = transformer_zoo.load(run)
  model.export(folder, platforms=["cpu"], report=said.append)
  assert said[-1].startswith(f"{folder}: logits for cpu, ")
  manifest = json.loads((folder / "manifest.json").read_text())
  vocabulary = Vocabulary(folder / "vocabulary")
  around = manifest["around"]["inputs"]
  first, second = map(vocabulary.encode, ("green car sees", "green"))
  ids = [*around["begin"], *first, *around["between"], *second, *around["end"]]
  program = export.deserialize((folder / "logits.stablehlo").read_bytes())
  (logits_K,) = program.call(
    load_file(folder / "weights.safetensors"),
    {"encoder_input_tokens": np.array([ids], np.int32)},
  )["logits"][0]
  text = "green car sees\tgreen"
  code, output, error = zoo("infer", f"--checkpoint={run}", "--json", text)
  assert code == 0, error
  (answer,) = map(json.loads, output.splitlines())
  shares = dict(
    zip(manifest["classes"], jax.nn.softmax(logits_K).tolist(), strict=True)
  )
  assert shares == pytest.approx(answer["probabilities"], abs=1e-5)


def test_its_configuration_describes_all_heads(run):
  """A file of heads/ after it chooses the head that it chooses alone."""
  written = str(run / "config.gin")
  sizes = [f"{name}={value!r}" for name, value in SIZES.items()]
  sizes.append("EncoderOnly.pad_id=0")
  heads = [
    "tokens",
    "classes",
    "number",
    "choice",
    "spans",
    "span_beam",
    "tags",
  ]
  for head in heads:
    file = f"heads/{head}.gin"
    classes = ["NUM_CLASSES=3"] if head in ("classes", "tags") else []
    alone = config.build("MODEL", [ROBERTA, file], [*sizes, *classes])
    after = config.build("MODEL", [written, file], classes)
    assert not comparison.differences(after, alone), head


def test_the_threshold_of_no_answer_is_bound_after_it(run):
  config.load(
    [str(run / "config.gin"), "runs/evaluate.gin", "heads/spans.gin"],
    ["SpanScorer.null_threshold=0.5", "CHECKPOINT_PATH='run'"],
    root="evaluate",
  )
  scorer = config.value("SCORER")
  assert scorer(None).null_threshold == 0.5
  config.load([str(run / "config.gin"), "runs/evaluate.gin"],
              ["CHECKPOINT_PATH='run'"], root="evaluate")  # fmt: skip
  assert config.value("SCORER") is None
