"""Bad input: one sentence, exit code 2, nothing compiled, nothing claimed."""

import shutil
import types

import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.runs import settings


@pytest.fixture
def refused(train, tmp_path, monkeypatch):
  """Returns a function that trains and returns the sentence it refuses with."""

  def no_compilation(*arguments):
    raise AssertionError("a run with bad input came to its first step")

  monkeypatch.setattr("transformer_zoo.training.loop.train", no_compilation)

  def call(*overrides, **keywords) -> str:
    code, _, error = train(tmp_path / "run", *overrides, **keywords)
    assert code == 2, error
    assert error.startswith("zoo: error: ") and error.count("\n") == 1
    # The mended command may use the folder.
    assert not (tmp_path / "run" / "config.gin").exists()
    return error.removeprefix("zoo: error: ").strip()

  return call


@pytest.fixture
def copied(prepared_dir, tmp_path):
  """A copy of the prepared data, to be damaged."""
  return shutil.copytree(prepared_dir, tmp_path / "prepared")


@pytest.mark.parametrize(
  "override, sentence",
  [
    (
      "TRAIN_STEP=3",
      "--gin.TRAIN_STEP: the macro 'TRAIN_STEP' is used by nothing that "
      "'train' reads; did you mean 'TRAIN_STEPS'",
    ),
    (
      "Dropout.rat=0.1",
      "--gin.Dropout.rat: Dropout has no parameter 'rat'; did you mean 'rate'",
    ),
    (
      "Dropuot.rate=0.1",
      "--gin.Dropuot.rate: no configurable is called 'Dropuot'; did you mean "
      "'Dropout'",
    ),
    (
      "Mlp.d_ff=64",
      "--gin.Mlp.d_ff: the binding 'Mlp.d_ff' is used by nothing that 'train' "
      "reads",
    ),
    ("MODEL_DIR=''", "MODEL_DIR is '', which names no folder"),
    ("PREPARED_DIR=''", "PREPARED_DIR is '', which names no folder"),
    (
      "PREPARED_DIR='~/prepared'",
      "PREPARED_DIR='~/prepared' begins with ~, which a shell alone reads; "
      "write the whole path",
    ),
    (
      "INITIAL_CHECKPOINT_PATH=''",
      "INITIAL_CHECKPOINT_PATH is '', which names no checkpoint",
    ),
    ("Checkpointing.folder=''", "Checkpointing.folder is '', which names no"),
    (
      "Checkpointing.metric='validation/colours/acuracy'",
      "Checkpointing.metric='validation/colours/acuracy' is not among what is "
      "evaluated; did you mean 'validation/colours/accuracy'",
    ),
    ("RANDOM_SEED=4294967296", "RANDOM_SEED=4294967296 must be from 0 to 4294"),
    ("RANDOM_SEED=-1", "RANDOM_SEED=-1 must be from 0 to 4294967295"),
    ("NUM_HEADS=0", "--gin.NUM_HEADS: NUM_HEADS=0 must be at least 1"),
    ("VOCAB_SIZE=0", "--gin.VOCAB_SIZE: VOCAB_SIZE=0 must be at least 1"),
    (
      "NUM_DECODER_LAYERS=-1",
      "--gin.NUM_DECODER_LAYERS: NUM_DECODER_LAYERS=-1 must be at least 0",
    ),
    (
      "TASK_FEATURE_LENGTHS={'inputs': 16}",
      "TASK_FEATURE_LENGTHS={'inputs': 16} has to give 'targets' 1 token or",
    ),
    (
      "TASK_FEATURE_LENGTHS={'inputs': 16, 'targets': 8, 'extra': 3}",
      "TASK_FEATURE_LENGTHS={'inputs': 16, 'targets': 8, 'extra': 3} has "
      "'extra', which no model reads; it has 'inputs', 'targets'",
    ),
    (
      "train.rates=@ExamplesProportional",
      "rates is ExamplesProportional, not an object of it; write "
      "@ExamplesProportional() with its parentheses",
    ),
    (
      "WRITERS=['wandb']",
      "WRITERS has the text 'wandb'; it lists objects, as [@WeightsAndBiases(",
    ),
    (
      "adafactor.decay_exponent='0.8'",
      "--gin.adafactor.decay_exponent: adafactor.decay_exponent must be float "
      "and is '0.8', a str",
    ),
    (
      "adafactor.clip_norm=-1.0",
      "adafactor.clip_norm=-1.0 has to be a finite number above 0; None clips",
    ),
    (
      "LEARNING_RATE=1e400",
      "learning_rate=inf has to be a finite number of 0 or more",
    ),
    (
      "LEARNING_RATE=-1.0",
      "learning_rate=-1.0 has to be a finite number of 0 or more",
    ),
    (
      "PROFILE='10:13'",
      "--profile is '10:13'; the steps of this run are 1 to 12, and the first "
      "comes before the last",
    ),
    (
      "ON_SPIKE='skipp'",
      "--gin.ON_SPIKE: Anomalies.on_spike must be 'ignore' or 'note' or 'skip' "
      "or 'stop' and is 'skipp', a str through the macro 'ON_SPIKE'",
    ),
    (
      "TRAIN_STEPS='many'",
      "--gin.TRAIN_STEPS: train.train_steps must be int and is 'many', a str "
      "through the macro 'TRAIN_STEPS'",
    ),
    ("TRAIN_STEPS=0", "TRAIN_STEPS=0 must be at least 1"),
    (
      "EVAL_PERIOD=3",
      "EVAL_PERIOD=3 is not a multiple of CHECKPOINT_PERIOD=2: an evaluated "
      "step must have a checkpoint; choose a multiple",
    ),
    ("DROPOUT_RATE=2.0", "dropout rate 2.0 is not in [0, 1)"),
    (
      "GatedMlp.activation='gleu'",
      "unknown activation 'gleu'; allowed: relu, squared_relu, gelu, ",
    ),
    (
      "REMAT='some'",
      "unknown remat policy 'some'; allowed: none, minimal, offload, full",
    ),
    (
      "VOCAB_SIZE=32",
      "the vocabulary of task 'colours' has 38 ids but the embedding has 32 "
      "rows; set VOCAB_SIZE to at least 38, or let ZOO_VOCABULARY name a "
      "smaller one if the task has T5's",
    ),
    (
      "NUM_PARTITIONS=3",
      "fsdp=1 and num_partitions=3 do not divide 8 devices; meshes that do, as "
      "data x fsdp x num_partitions: 8x1x1, 4x2x1, 2x4x1, 1x8x1, 4x1x2,",
    ),
    (
      "NUM_PARTITIONS=4",
      "axis 'heads' of decoder/relpos_bias/rel_embedding, of size 2, does not "
      "divide over 4 devices along model; choose a mesh of 8 devices that "
      "divides, as data x fsdp x num_partitions: 8x1x1, 4x2x1, 2x4x1, 1x8x1, "
      "4x1x2, 2x2x2, 1x4x2",
    ),
    (
      "BATCH_SIZE=12",
      "BATCH_SIZE=12 does not divide over 8 devices along data and fsdp; "
      "choose a multiple of 8 or a mesh of 8 devices that divides, as data x "
      "fsdp x num_partitions: 4x1x2, 2x2x2, 1x4x2",
    ),
    (
      "Partitioning.rules=(('mlp', 'modl'),)",
      "partitioning rule for 'mlp' names mesh axis 'modl'; allowed: 'data', "
      "'fsdp', 'model', several of them or None",
    ),
    (
      "Partitioning.rules=(('mpl', 'model'),)",
      "unknown logical axis 'mpl'; allowed: batch, lookup, length, embed",
    ),
    (
      "MIXTURE_OR_TASK_NAME='colour'",
      "Nothing named 'colour' is prepared in ",
    ),
    (
      "MIXTURE_OR_TASK_NAME='no_training'",
      "Task 'no_training' has no split 'train'; allowed: 'validation'",
    ),
    (
      "INITIAL_CHECKPOINT_PATH='/no/such'",
      "there is no checkpoint '/no/such'",
    ),
  ],
)
def test_one_sentence(refused, override, sentence):
  assert refused(override).startswith(sentence)


def test_unknown_task_is_given_the_nearest_names(refused):
  assert refused("MIXTURE_OR_TASK_NAME='colour'").endswith(
    "did you mean 'colours'?"
  )


def test_missing_include(refused, tmp_path):
  path = tmp_path / "mine.gin"
  path.write_text("include 'sizes/t5_1_1_smal.gin'\n")
  assert refused(files=[path]).startswith(
    f"{path}:1 includes 'sizes/t5_1_1_smal.gin', which is in none of the "
  )


@pytest.mark.parametrize("split", ["train", "validation"])
def test_unreadable_data_is_named(refused, copied, split):
  path = copied / "colours" / f"{split}-00000-of-00001.array_record"
  override = f"PREPARED_DIR={str(copied)!r}"
  path.write_bytes(b"")
  assert refused(override).startswith(
    f"The prepared file {str(path)!r} is damaged from byte 0 on: it has 0 "
  )
  path.unlink()
  assert refused(override).startswith(
    f"The prepared file {str(path)!r} cannot be read (No such file"
  )


def test_evaluation_of_a_split_that_is_not_there(
  zoo, train, tmp_path, gin_file
):
  folder = tmp_path / "run"
  # A checkpoint's folder is all that is looked at before the data.
  (folder / "checkpoints" / "2" / "state").mkdir(parents=True)
  code, _, error = zoo(
    "evaluate",
    f"--checkpoint={folder}",
    "--mixture=colours",
    f"--gin_file={gin_file}",
    "--gin_file=runs/evaluate.gin",
    "--gin.evaluate.split='test'",
  )
  assert code == 2
  assert error == (
    "zoo: error: Task 'colours' has no split 'test'; allowed: 'train', "
    "'validation'\n"
  )


@pytest.mark.parametrize(
  "override, sentence",
  [
    (
      "DecodingOptions.start_before_prompt=False",
      "start_before_prompt=False: the decoder of an encoder-decoder has to be "
      "fed a start token; leave the option out",
    ),
    *(
      (
        f"DecodingOptions.{name}=(5, {id_})",
        f"{name} has the id {id_}, but the model has tokens from 0 to 127; "
        "choose among these",
      )
      for name, id_ in (
        ("forced_prefix", 128),
        ("forbidden_ids", -1),
        ("end_ids", 900),
      )
    ),
    (
      "CONVERTER=@LanguageModelFeatures()",
      "CONVERTER is @LanguageModelFeatures(), whose batches the model "
      "EncoderDecoder does not read; set it to @EncoderDecoderFeatures(), and "
      "CORRUPTION to an objective whose examples that lays out",
    ),
  ],
)
@pytest.mark.parametrize(
  "command",
  [
    ("evaluate", "--mixture=unscored"),
    ("infer", "red\tred", "--score"),
  ],
)
def test_options_that_the_model_has_not(
  zoo, prepared_dir, tmp_path, gin_file, command, override, sentence
):
  """Scores alone are asked for, and nothing is read of the checkpoint."""
  folder = tmp_path / "run"
  (folder / "checkpoints" / "2" / "state").mkdir(parents=True)
  vocabulary = prepared_dir / "vocabularies" / "tiny.model"
  name, *words = command
  if name == "infer":
    words.append(f"--vocabulary={vocabulary}")
  code, _, error = zoo(
    name,
    *words,
    f"--checkpoint={folder}",
    f"--gin_file={gin_file}",
    f"--gin_file=runs/{name}.gin",
    "--gin.VOCAB_SIZE=128",
    f"--gin.{override}",
  )
  assert (code, error) == (2, f"zoo: error: {sentence}\n")


def test_inference_with_a_vocabulary_that_is_too_large(
  zoo, prepared_dir, tmp_path, gin_file
):
  folder = tmp_path / "run"
  (folder / "checkpoints" / "2" / "state").mkdir(parents=True)
  vocabulary = prepared_dir / "vocabularies" / "tiny.model"
  (tmp_path / "lines").write_text("red car\n")
  code, _, error = zoo(
    "infer",
    tmp_path / "lines",
    f"--checkpoint={folder}",
    f"--vocabulary={vocabulary}",
    f"--gin_file={gin_file}",
    "--gin_file=runs/infer.gin",
  )
  assert code == 2
  assert error == (
    f"zoo: error: the vocabulary of {str(vocabulary)!r} has 128 ids but the "
    "embedding has 64 rows; set VOCAB_SIZE to at least 128; a checkpoint gets "
    "further rows by `zoo convert --vocabulary_size 128`\n"
  )


@pytest.mark.parametrize(
  ("model_dir", "sentence"),
  [
    ("", "MODEL_DIR is '', which names no folder"),
    (
      "~/run",
      "MODEL_DIR='~/run' begins with ~, which a shell alone reads; write the "
      "whole path",
    ),
  ],
)
def test_folders_that_are_none(model_dir, sentence):
  run = types.SimpleNamespace(
    storage=settings.Storage(model_dir=model_dir),
    data=settings.Data(mixture_or_task_name="colours"),
  )
  with pytest.raises(UserError) as error:
    settings.Run.check_folders(run)
  assert str(error.value) == sentence


def test_a_folder_that_is_a_file(train, tmp_path):
  (tmp_path / "run").write_text("mine")
  code, _, error = train(tmp_path / "run")
  assert code == 2
  assert "is no folder; name another folder" in error
  assert error.count("\n") == 1
  assert (tmp_path / "run").read_text() == "mine"


@pytest.mark.slow
@pytest.mark.parametrize(
  "overrides, sentence",
  [
    (
      ["BATCH_SIZE=1000000000"],
      "a step on BATCH_SIZE=1000000000 rows needs ",
    ),
    (
      ["EMBED_DIM=65536", "MLP_DIM=262144"],
      "parameters and optimizer state need ",
    ),
  ],
)
def test_sizes_that_no_device_holds(refused, tmp_path, overrides, sentence):
  prepared = tmp_path / "nothing_is_prepared"
  error = refused(*overrides, f"PREPARED_DIR='{prepared}'")
  assert error.startswith(sentence) and " on each device, which has " in error
  assert not prepared.exists()
