"""UniLM that writes: trained on a text-to-text task, evaluated and asked."""

import json

import pytest

FILES = (
  *("architectures/unilm.gin", "optimizers/adamw.gin"),
  "runs/generation.gin",
)
SIZES = (
  *("VOCAB_SIZE=64", "DROPOUT_RATE=0.0", "MAX_POSITIONS=32"),
  *("UniLM.mask_id=61", "UnifiedFeatures.bos_id=60"),
  "TASK_FEATURE_LENGTHS={'inputs': 16, 'targets': 8}",
)
TEXTS = ["red car sees house", "blue boat likes", "green car"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
  return tmp_path_factory.mktemp("runs")


@pytest.fixture
def run(train, folders):
  folder = folders / "unilm"
  if not (folder / "result.json").exists():
    code, _, error = train(
      folder,
      *SIZES,
      *(
        "EMBED_DIM=32",
        "MLP_DIM=64",
        "TRAIN_STEPS=600",
        "CHECKPOINT_PERIOD=600",
        "EVAL_PERIOD=600",
        "LEARNING_RATE=0.005",
        "BATCH_SIZE=16",
      ),
      files=FILES,
    )
    assert code == 0, error
  return folder


def answers(zoo, run, *words):
  code, output, error = zoo(
    "infer", f"--checkpoint={run}", "--gin.BATCH_SIZE=8", "--json", *words
  )
  assert code == 0, error
  return [json.loads(line) for line in output.splitlines()]


@pytest.mark.slow
def test_it_learns_to_write_and_is_evaluated_as_in_training(run, zoo):
  result = json.loads((run / "result.json").read_text())
  assert result["scores"]["colours"]["accuracy"] > 40
  code, output, error = zoo(
    "evaluate", f"--checkpoint={run}", "--mixture=colours"
  )
  assert code == 0, error
  found = json.loads(output)
  assert found["scores"] == result["scores"]
  assert found["loss"] == pytest.approx(result["loss"])


@pytest.mark.slow
@pytest.mark.parametrize("beams", [1, 3])
def test_answers_have_the_likelihood_of_their_scores(run, zoo, beams):
  options = f"--gin.DecodingOptions.num_beams={beams}"
  made = answers(zoo, run, *TEXTS, options)
  assert made[0]["prediction"] == "red"
  pairs = [f"{line['inputs']}\t{line['prediction']}" for line in made]
  scored = answers(zoo, run, "--score", *pairs)
  for line, expected in zip(scored, made, strict=True):
    assert line["log_likelihood"] == pytest.approx(
      expected["log_likelihood"], rel=1e-3, abs=1e-4
    )


def test_batches_of_a_writer_are_refused_by_an_encoder(train, tmp_path):
  code, _, error = train(
    tmp_path / "run",
    *("CONVERTER=@UnifiedFeatures()", "VOCAB_SIZE=64"),
    files=("architectures/bert.gin",),
  )
  assert code == 2
  assert (
    "CONVERTER is @UnifiedFeatures(), whose batches the model EncoderOnly does "
    "not read; set it to @EncoderFeatures()" in error
  )
