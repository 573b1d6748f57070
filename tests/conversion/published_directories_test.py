"""Hugging Face directories as they are published: files that say odd things."""

import json
import pathlib
import shutil

from flax import traverse_util
import pytest

from tests import tiny_models
from tests import tiny_t5
from tests import unpadded_model
from transformer_zoo.checkpoints import checkpoint_sources
from transformer_zoo.checkpoints import converted_run
from transformer_zoo.checkpoints import generation_config
from transformer_zoo.conversion.convert import convert
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.interop.huggingface import family_of
from transformer_zoo.interop.huggingface import writing
from transformer_zoo.runs import inputs
from transformer_zoo.tensors.lazy_tensors import Tensor

MINIATURE = pathlib.Path(__file__).parents[2] / "tasks/miniature"


def write_t5(folder, tokenizer=None, model=None, **config):
  """A tiny T5.1.1 beside a SentencePiece model."""
  t5 = tiny_t5.build("t5_1_1")
  parameters = traverse_util.flatten_dict(
    tiny_models.random_parameters(t5), sep="/"
  )
  folder.mkdir()
  family = family_of({"model_type": "t5"})
  writing.write_directory(
    folder,
    family,
    {**family.config(t5), "eos_token_id": 1, **config},
    {name: Tensor.of(array) for name, array in parameters.items()},
  )
  shutil.copy(model or MINIATURE / "vocabulary.model", folder / "spiece.model")
  stated = {"tokenizer_class": "T5Tokenizer", **(tokenizer or {})}
  (folder / "tokenizer_config.json").write_text(json.dumps(stated))
  return folder


@pytest.fixture(scope="module", name="without_padding")
def train_a_model_without_padding(tmp_path_factory):
  return unpadded_model.train(tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize(
  "stated", [{"pad_token": "<s>"}, {}], ids=["stated", "of_the_model"]
)
def test_padding_that_the_vocabulary_has_no_piece_for(
  stated, without_padding, tmp_path
):
  """MADLAD-400 pads with <s>; its EOS has to be seen."""
  folder = write_t5(
    tmp_path / "theirs",
    {"extra_ids": 0, **stated},
    without_padding,
    pad_token_id=1,
    decoder_start_token_id=0,
    eos_token_id=2,
  )
  vocabulary = Vocabulary(folder)
  assert (vocabulary.pad_id, vocabulary.eos_id) == (1, 2)
  model = checkpoint_sources.open_source(folder).make_model()
  inputs.check_vocabulary(model, vocabulary, repr(str(folder)))


def test_decoding_that_config_json_says_is_said_again(tmp_path):
  """A generation_config.json beside it would take its place."""
  said = {"num_beams": 4, "max_length": 60, "length_penalty": 2.0}
  folder = write_t5(tmp_path / "theirs", **said)
  (folder / "generation_config.json").unlink()
  convert(folder, tmp_path / "run", report=lambda line: None)
  convert(tmp_path / "run", tmp_path / "back", report=lambda line: None)
  names = [path.name for path in (tmp_path / "back").iterdir()]
  assert "generation_config.json" not in names
  options = generation_config.options(tmp_path / "back", eos_id=1)
  assert (options["num_beams"], options["alpha"]) == (4, 2.0)
  assert generation_config.longest(tmp_path / "back") == 59


def write_run(folder, kind, architecture, **sizes):
  """A run of a tiny model with random parameters and no files of theirs."""
  model, _ = tiny_models.build(architecture, HEAD_DIM=6, MLP_DIM=96, **sizes)
  arrays = traverse_util.flatten_dict(
    tiny_models.random_parameters(model), sep="/"
  )
  family = family_of({"model_type": kind})
  found = family.architecture(family.config(model))
  converted_run.write_run(
    folder,
    found.gin_files,
    found.as_overrides(),
    {f"params/{name}": Tensor.of(array) for name, array in arrays.items()},
  )
  return model


@pytest.mark.parametrize("first", [None, 7])
@pytest.mark.parametrize(
  ("architecture", "converter", "kind", "said"),
  [
    ("t5_1_1", "EncoderDecoder", "t5", "decoder_start_token_id"),
    ("llama", "LanguageModel", "llama", "bos_token_id"),
  ],
)
def test_what_a_decoder_here_was_first_fed_is_said(
  architecture, converter, kind, said, first, tmp_path
):
  """A run without files of theirs, as a trained one is."""
  model = write_run(tmp_path / "run", kind, architecture)
  with open(tmp_path / "run" / "config.gin", "a") as file:
    file.write(f"{converter}Features.bos_id = {first}\n")
  convert(tmp_path / "run", tmp_path / "theirs", report=lambda line: None)
  for name in ("config.json", "generation_config.json"):
    content = json.loads((tmp_path / "theirs" / name).read_text())
    assert content[said] == (model.pad_id if first is None else first)


def test_how_prompts_of_a_language_model_are_read_is_told(tmp_path):
  """T5's class, which its vocabulary has, would end them."""
  write_run(tmp_path / "run", "llama", "llama", VOCAB_SIZE=1700)
  path = str(MINIATURE / "vocabulary.model")
  told = []
  for source, target, vocabulary in (
    ("run", "theirs", path),
    ("run", "again", path),
    ("again", "of_again", None),
  ):
    to = "zoo" if target == "again" else "huggingface"
    more = {"vocabulary_size": 1701} if to == "zoo" else {}
    convert(
      tmp_path / source,
      tmp_path / target,
      to=to,
      vocabulary_path=vocabulary,
      report=told.append,
      **more,
    )
  sentence = (
    "its T5Tokenizer reads prompts in another way than this model was trained "
    "on: call it with add_special_tokens=False and put id 0 before them"
  )
  assert [line for line in told if "Tokenizer" in line] == [
    f"{tmp_path / name}: {sentence}" for name in ("theirs", "of_again")
  ]


@pytest.mark.parametrize(
  ("name", "content"),
  [
    ("spiece.model", b"\n\xff is no model"),
    ("tokenizer.json", b"{"),
    ("tokenizer_config.json", b"{"),
  ],
)
def test_good_weights_beside_a_vocabulary_that_cannot_be_read(
  name, content, tmp_path, capsys
):
  folder = write_t5(tmp_path / "theirs")
  (folder / name).write_bytes(content)
  convert(folder, tmp_path / "run", report=lambda line: None)
  error = capsys.readouterr().err
  assert f"passed over: the vocabulary in {folder}: " in error
  convert(tmp_path / "run", tmp_path / "back", report=lambda line: None)
  assert (tmp_path / "back" / name).read_bytes() == content


def test_notes_name_what_a_user_has(tmp_path, capsys):
  """And not the folder that a target is written into."""
  folder = write_t5(
    tmp_path / "theirs", num_beams=4, bad_words_ids=[[3, 4]], max_time=3.0
  )
  (folder / "generation_config.json").unlink()
  (folder / "added_tokens.json").write_text('{"<box>": 9000}')
  convert(folder, tmp_path / "run", report=lambda line: None)
  lines = capsys.readouterr().err.splitlines()
  assert len(lines) == 4
  assert all(str(folder) in line for line in lines), lines
  again = tmp_path / "again"
  convert(tmp_path / "run", again, to="zoo", vocabulary_size=1700)
  for line in capsys.readouterr().err.splitlines():
    assert str(tmp_path / "run") in line
