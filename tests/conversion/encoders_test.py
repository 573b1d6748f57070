"""Directories of encoders become runs, and runs directories."""

import json

from flax import traverse_util
import numpy as np
import pytest
import sentencepiece

from tests import tiny_models
from tests.golden import encoders
from tests.golden import families
from transformer_zoo import config as zoo_config
from transformer_zoo.cli import main as cli
from transformer_zoo.conversion import exported_directory
from transformer_zoo.conversion.convert import convert
from transformer_zoo.interop.huggingface import directory
from transformer_zoo.interop.huggingface import family_of
from transformer_zoo.interop.huggingface import writing
from transformer_zoo.modules import comparison
from transformer_zoo.tensors.lazy_tensors import Tensor

FILES = ("model.safetensors", "config.json")


def weights(model) -> dict[str, Tensor]:
  flat = traverse_util.flatten_dict(
    tiny_models.random_parameters(model), sep="/"
  )
  return {name: Tensor.of(array) for name, array in flat.items()}


def write(folder, config):
  folder.mkdir()
  return write_into(folder, config)


def write_into(folder, config):
  parameters = weights(families.build(config))
  writing.write_directory(
    folder, family_of(config), config, parameters, generation=None
  )
  return parameters


@pytest.mark.parametrize(
  "name",
  [
    *("bert_pre_training", "roberta_zero_types", "albert_groups"),
    *("electra_discriminator", "deberta_2_convolution"),
    *(
      pytest.param(name, marks=pytest.mark.slow)
      for name in (
        *("distilbert_classes", "mpnet_spans", "deberta_positions"),
        *("deberta_2_masked", "xlnet_classes", "modernbert_mean"),
        *("bart_spans", "mbart_classes"),
      )
    ),
  ],
)
def test_there_and_back_changes_no_byte(name, tmp_path):
  theirs, run, back = (tmp_path / part for part in ("theirs", "run", "back"))
  config = encoders.shallow(name)
  write(theirs, config)
  convert(theirs, run, report=lambda line: None)
  model = zoo_config.build("MODEL", [str(run / "config.gin")])
  expected = families.build(config)
  assert not comparison.differences(model, expected)
  convert(run, back, report=lambda line: None)
  assert {path.name for path in back.iterdir()} == {*FILES}
  for file in FILES:
    assert (back / file).read_bytes() == (theirs / file).read_bytes(), file


@pytest.mark.parametrize(
  ("tokenizer", "kind"),
  [("XLMRobertaTokenizer", "xlm-roberta"), (None, "roberta")],
)
def test_the_vocabulary_tells_xlm_roberta_from_roberta(
  tokenizer, kind, tmp_path
):
  """Of a run that was trained here, where no config.json lies beside it."""
  theirs, run, back = (tmp_path / part for part in ("theirs", "run", "back"))
  theirs.mkdir()
  prefix = theirs / "sentencepiece.bpe"
  sentencepiece.SentencePieceTrainer.Train(
    sentence_iterator=iter(["a fine day in the house"] * 20),
    model_prefix=str(prefix),
    vocab_size=30,
    hard_vocab_limit=False,
    minloglevel=2,
  )
  if tokenizer:
    stated = {"tokenizer_class": tokenizer}
    (theirs / "tokenizer_config.json").write_text(json.dumps(stated))
  config = {**encoders.CONFIGS["xlm_roberta_masked"], "model_type": kind}
  config["architectures"] = None
  write_into(theirs, config)
  convert(theirs, run, report=lambda line: None)
  (run / "huggingface" / "config.json").unlink()
  convert(run, back, report=lambda line: None)
  written = json.loads((back / "config.json").read_text())
  assert written["model_type"] == kind


def test_a_converted_roberta_reads_pairs_as_roberta(tmp_path):
  """<s> a </s></s> b </s>, one type of tokens, and the lengths that it has."""
  theirs, run = tmp_path / "theirs", tmp_path / "run"
  write(theirs, encoders.CONFIGS["roberta_classes"])
  convert(theirs, run, report=lambda line: None)
  files = [str(run / "config.gin")]
  converter = zoo_config.build("CONVERTER", files)
  assert (converter.separators, converter.form) == (2, "classes")
  lengths = zoo_config.build("TASK_FEATURE_LENGTHS", files)
  assert lengths == {"inputs": 27, "targets": 27}


@pytest.mark.parametrize(
  ("name", "changes", "has_types"),
  [
    ("bert", {}, True),
    ("bert", {"type_vocab_size": 1}, False),
    ("distilbert_tags", {}, False),
  ],
)
def test_a_converted_run_lays_out_the_types_that_it_has(
  name, changes, has_types, tmp_path
):
  theirs, run = tmp_path / "theirs", tmp_path / "run"
  write(theirs, {**encoders.CONFIGS[name], **changes})
  convert(theirs, run, report=lambda line: None)
  converter = zoo_config.build("CONVERTER", [str(run / "config.gin")])
  assert converter.token_types == has_types


def test_more_positions_and_tokens(tmp_path):
  theirs, back = tmp_path / "theirs", tmp_path / "back"
  before = write(theirs, encoders.CONFIGS["roberta_masked"])
  convert(
    theirs,
    back,
    to="huggingface",
    vocabulary_size=50,
    positions=40,
    report=lambda line: None,
  )
  config = json.loads((back / "config.json").read_text())
  assert (config["vocab_size"], config["max_position_embeddings"]) == (50, 42)
  found = directory.open_directory(back).parameters()
  table = "encoder/position_embedder/pos_embedding"
  np.testing.assert_array_equal(found[table].read()[:29], before[table].read())
  assert found["heads/tokens/logits_bias"].shape == (50,)


def test_a_pooler_that_no_head_reads_is_passed_over(tmp_path):
  theirs, run = tmp_path / "theirs", tmp_path / "run"
  write(theirs, {**encoders.CONFIGS["bert"]})
  config = encoders.CONFIGS["bert_tags"]
  parameters = weights(families.build(config))
  spare = {
    "pooler/dense/kernel": Tensor.of(np.ones((30, 30), np.float32)),
    "pooler/dense/bias": Tensor.of(np.ones(30, np.float32)),
  }
  (theirs / "config.json").unlink()
  writing.write_directory(
    theirs,
    family_of(config),
    {**config, "has_pooler": True},
    parameters | spare,
    generation=None,
  )
  said = []
  convert(theirs, run, report=said.append)
  assert said[0] == (
    "passed over: pooler/dense/bias, pooler/dense/kernel, which no head reads"
  )


@pytest.mark.parametrize(
  ("files", "name"),
  [
    (("bert", "heads/tokens_next_sentence"), "BertForPreTraining"),
    (("bert", "heads/number"), "BertForSequenceClassification"),
    (("bert", "heads/spans"), "BertForQuestionAnswering"),
    (("roberta", "heads/choice"), "RobertaForMultipleChoice"),
    (("roberta", "heads/tags"), "RobertaForTokenClassification"),
  ],
)
def test_models_of_the_gin_files_are_written(files, name, tmp_path):
  architecture, head = files
  bindings = {**tiny_models.TINY, "HEAD_DIM": 6}
  del bindings["NUM_DECODER_LAYERS"]
  model = zoo_config.build(
    "MODEL",
    [f"architectures/{architecture}.gin", f"{head}.gin"],
    [f"{key}={value!r}" for key, value in bindings.items()],
  )
  parameters = weights(model)
  exported_directory.write(tmp_path, model, parameters)
  found = directory.open_directory(tmp_path)
  assert found.config["architectures"] == [name]
  assert not (tmp_path / "generation_config.json").exists()
  assert not comparison.differences(model, families.build(found.config))
  for parameter, tensor in found.parameters().items():
    np.testing.assert_array_equal(
      tensor.read(), parameters[parameter].read(), err_msg=parameter
    )


PROJECTION = {
  "TextVectors.projection": "@projection/Pooler()",
  "TextVectors.normalize": True,
  "projection/Pooler.features": 5,
  "projection/Pooler.activation": "'linear'",
  "projection/Pooler.dense": "@projection/Linear()",
}


@pytest.mark.parametrize(
  ("architecture", "name", "bound"),
  [
    ("bert", "BertModel", PROJECTION),
    ("mpnet", "MPNetModel", {}),
    ("roberta", "RobertaModel", {}),
    ("modernbert", "ModernBertModel", {"NUM_ENCODER_LAYERS": 3}),
    ("t5_1_1", "T5EncoderModel", PROJECTION),
  ],
)
def test_vectors_of_the_gin_files_are_written(
  architecture, name, bound, tmp_path
):
  """As sentence-transformers reads them, with the parts of the head apart."""
  sizes = {**tiny_models.TINY, "HEAD_DIM": 6, "POOL": "'first'", **bound}
  files = [f"architectures/{architecture}.gin"]
  if architecture == "t5_1_1":
    files.append("parts/encoder_of_t5.gin")
  del sizes["NUM_DECODER_LAYERS"]
  model = zoo_config.build(
    "MODEL",
    [*files, "heads/embedding_temperature.gin"],
    [f"{key}={value}" for key, value in sizes.items()],
  )
  parameters = weights(model)
  exported_directory.write(tmp_path, model, parameters)
  found = directory.open_directory(tmp_path)
  assert found.config["architectures"] == [name]
  architecture = found.architecture
  again = zoo_config.build(
    "MODEL", architecture.gin_files, architecture.as_overrides()
  )
  assert again.heads.parts["embedding"].pool == "first"
  assert [*again.heads.parts] == ["embedding"]
  without = {
    name: tensor
    for name, tensor in parameters.items()
    if "temperature" not in name
  }
  assert without.keys() == found.parameters().keys()
  for parameter, tensor in found.parameters().items():
    np.testing.assert_array_equal(
      tensor.read(), without[parameter].read(), err_msg=parameter
    )
  alone = model.clone(heads=model.heads.clone(parts={}), pooler=None)
  bare = again.clone(heads=again.heads.clone(parts={}), pooler=None)
  assert not comparison.differences(alone, bare)


def test_xlnet_keeps_where_its_rows_have_cls(tmp_path):
  """Without the config.json that it came from, by the run's converter."""
  theirs, run, export = (tmp_path / n for n in ("theirs", "run", "export"))
  write(theirs, {**encoders.CONFIGS["xlnet_classes"], "summary_type": "last"})
  convert(theirs, run, report=lambda _: None)
  assert (
    "EncoderFeatures.cls_place = 'last'" in (run / "config.gin").read_text()
  )
  (run / "huggingface" / "config.json").unlink()
  convert(run, export, report=lambda _: None)
  found = json.loads((export / "config.json").read_text())
  assert found["summary_type"] == "last"


@pytest.mark.slow
def test_a_directory_is_fine_tuned_and_written(tmp_path, capsys):
  """Names of classes go along, and the directory scores as the run does."""
  theirs, run, export = (tmp_path / n for n in ("theirs", "run", "export"))
  config = {
    **encoders.CONFIGS["bert_masked"],
    "vocab_size": 1664,
    "max_position_embeddings": 128,
    "hidden_act": "gelu",
  }
  write(theirs, config)
  prepared = f"--gin.PREPARED_DIR='{tmp_path / 'prepared'}'"
  sizes = {
    "EMBED_DIM": 30,
    "MLP_DIM": 44,
    "NUM_HEADS": 5,
    "HEAD_DIM": 6,
    "NUM_ENCODER_LAYERS": 3,
    "MAX_POSITIONS": 128,
    "VOCAB_SIZE": 1664,
    "TokenTypeEmbed.num_types": 3,
    "LayerNorm.epsilon": 1e-3,
    "NUM_CLASSES": 3,
    "MIXTURE_OR_TASK_NAME": "mini_nli",
    "TASK_FEATURE_LENGTHS": {"inputs": 64, "targets": 64},
    "TRAIN_STEPS": 4,
    "BATCH_SIZE": 8,
    "MODEL_DIR": str(run),
    "INITIAL_CHECKPOINT_PATH": str(theirs),
  }
  files = (
    "architectures/bert",
    "parts/feed_forward/gelu_exact",
    "runs/finetune",
    "heads/classes",
  )
  words = [f"--gin_file={name}.gin" for name in files]
  words += [f"--gin.{name}={value!r}" for name, value in sizes.items()]
  assert cli.main(["train", *words, prepared]) == 0
  output = capsys.readouterr().out
  assert "\n  fresh: heads/classes\n  fresh: pooler\n" in output
  assert cli.main(["convert", str(run), str(export)]) == 0
  said = json.loads((export / "config.json").read_text())
  assert [*said["label2id"]] == ["contradiction", "entailment", "neutral"]
  assert said["id2label"]["0"] == "entailment"
  assert (export / "spiece.model").is_file()
  scores = []
  for checkpoint in (run, export):
    words = ["evaluate", f"--checkpoint={checkpoint}", "--mixture=mini_nli"]
    capsys.readouterr()
    assert cli.main([*words, prepared]) == 0
    found = json.loads(capsys.readouterr().out)
    scores.append((found["scores"], found["loss"]))
  assert scores[0] == scores[1]


@pytest.mark.parametrize(
  ("name", "architecture"),
  [("roberta_zero_types", "roberta"), ("distilbert_untied", "distilbert")],
)
def test_heads_are_chosen_after_the_configuration_of_a_conversion(
  name, architecture, tmp_path
):
  """With the poolers, dropout and initialization of the architecture."""
  theirs, run = tmp_path / "theirs", tmp_path / "run"
  write(theirs, encoders.CONFIGS[name])
  convert(theirs, run, report=lambda line: None)
  heads = []
  for file in (run / "config.gin", f"architectures/{architecture}.gin"):
    sizes = [f"{key}=12" for key in ("EMBED_DIM", "MLP_DIM", "HEAD_DIM")]
    sizes += ["NUM_HEADS=1", "NUM_ENCODER_LAYERS=1", "LayerNorm.epsilon=1e-5"]
    model = zoo_config.build("MODEL", [str(file), "heads/classes.gin"], sizes)
    heads.append(repr(model.heads.parts["classes"]))
  assert heads[0] == heads[1]
  assert "Pooler" in heads[0]
