"""`zoo convert` with other numbers of tokens and positions."""

import json
import pathlib
import shutil

from flax import traverse_util
import numpy as np
import pytest

from tests import tiny_models
from tests import tiny_t5
from tests.golden import families
from transformer_zoo.cli import main as cli
from transformer_zoo.conversion import convert as convert_lib
from transformer_zoo.conversion import sources
from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import family_of
from transformer_zoo.interop.huggingface import writing
from transformer_zoo.interop.t5x import checkpoints
from transformer_zoo.tensors import safetensors
from transformer_zoo.tensors.lazy_tensors import Tensor

VOCABULARY = pathlib.Path(__file__).parents[2] / "tasks/miniature"
TABLE, KERNEL = "shared.weight", "lm_head.weight"


def write_directory(folder, kind, **more):
  """A Hugging Face directory of a tiny model with random weights."""
  config = {**families.CONFIGS[kind], **more}
  family = family_of(config)
  tensors = {
    name: Tensor.of(array)
    for name, array in traverse_util.flatten_dict(
      tiny_models.random_parameters(families.build(config)), sep="/"
    ).items()
  }
  folder.mkdir()
  writing.write_json(folder / "config.json", {**config, "dtype": "float32"})
  writing.write_directory(folder, family, config, tensors)
  return config


def convert(source, target, **options):
  """Converts; returns what was reported."""
  told = []
  convert_lib.convert(source, target, report=told.append, **options)
  return told


def tensors_of(folder):
  found = safetensors.read(folder / "model.safetensors")
  return {name: tensor.read() for name, tensor in found.items()}


def test_what_was_added_goes_again(tmp_path):
  config = write_directory(tmp_path / "theirs", "gpt_2", summary_type="mean")
  tokens, positions = config["vocab_size"], config["n_positions"]
  told = convert(
    tmp_path / "theirs",
    tmp_path / "run",
    vocabulary_size=tokens + 7,
    positions=positions + 3,
  )
  width = config["n_embd"]
  assert set(told[:-1]) == {
    f"resized: token_embedder/embedding ({tokens + 7}, {width}) from "
    f"({tokens}, {width})",
    "resized: decoder/position_embedder/pos_embedding "
    f"({positions + 3}, {width}) from ({positions}, {width})",
  }
  convert(
    tmp_path / "run",
    tmp_path / "back",
    vocabulary_size=tokens,
    positions=positions,
  )
  for name in ("config.json", "model.safetensors"):
    first, again = (tmp_path / n / name for n in ("theirs", "back"))
    assert first.read_bytes() == again.read_bytes(), name


@pytest.fixture(scope="module", name="untied")
def write_untied(tmp_path_factory):
  """T5.1.1 with 41 tokens, grown to 48 without a change of format."""
  place = tmp_path_factory.mktemp("untied")
  write_directory(place / "theirs", "t5_1_1", n_positions=512)
  convert(
    place / "theirs", place / "grown", to="huggingface", vocabulary_size=48
  )
  return place


@pytest.mark.slow
def test_new_rows_are_the_mean_and_others_stay(untied):
  before, after = (tensors_of(untied / name) for name in ("theirs", "grown"))
  number = len(before[TABLE])
  assert number < 48
  for name, array in before.items():
    grown = after[name]
    np.testing.assert_array_equal(grown[: len(array)], array)
    if name in (TABLE, KERNEL):
      assert grown.shape == (48, array.shape[1])
      new = np.broadcast_to(array.mean(0), grown[number:].shape)
      np.testing.assert_allclose(grown[number:], new, rtol=1e-5, atol=1e-7)
    else:
      assert grown.shape == array.shape


@pytest.mark.parametrize("kind", ["gpt_1", "gpt_2"])
def test_new_tokens_of_gpt_are_the_mean_and_others_stay(kind, tmp_path):
  """The softmax is the table, and positions stay as many."""
  config = write_directory(tmp_path / "theirs", kind)
  number = config["vocab_size"]
  convert(
    *(tmp_path / "theirs", tmp_path / "grown"),
    to="huggingface",
    vocabulary_size=number + 3,
  )
  before, after = (tensors_of(tmp_path / n) for n in ("theirs", "grown"))
  assert before.keys() == after.keys()
  tables = {
    n for n, a in before.items() if a.shape[0] == number and a.ndim == 2
  }
  resized = {n for n, a in before.items() if after[n].shape != a.shape}
  assert resized and resized <= tables
  for name, array in before.items():
    np.testing.assert_array_equal(after[name][: len(array)], array)
  for name in resized:
    new = after[name][number:]
    assert len(new) == 3
    mean = np.broadcast_to(before[name].mean(0), new.shape)
    np.testing.assert_allclose(new, mean, rtol=1e-5, atol=1e-7)
  described = json.loads((tmp_path / "grown" / "config.json").read_text())
  assert described["vocab_size"] == number + 3


def test_the_configuration_differs_by_the_number_alone(untied):
  before, after = (
    json.loads((untied / name / "config.json").read_text())
    for name in ("theirs", "grown")
  )
  assert after == {**before, "vocab_size": 48}


@pytest.mark.slow
def test_a_shared_vocabulary_has_one_size(tmp_path):
  """OPUS-MT's says it twice in newer files."""
  size = families.CONFIGS["marian"]["vocab_size"]
  write_directory(tmp_path / "theirs", "marian", decoder_vocab_size=size)
  convert(
    tmp_path / "theirs",
    tmp_path / "grown",
    to="huggingface",
    vocabulary_size=99,
  )
  said = json.loads((tmp_path / "grown" / "config.json").read_text())
  assert (said["vocab_size"], said["decoder_vocab_size"]) == (99, 99)
  convert(tmp_path / "grown", tmp_path / "run")


@pytest.mark.slow
def test_a_run_becomes_another_run(untied, tmp_path):
  convert(untied / "theirs", tmp_path / "run")
  convert(tmp_path / "run", tmp_path / "more", to="zoo", vocabulary_size=48)
  convert(tmp_path / "more", tmp_path / "theirs")
  for name, array in tensors_of(untied / "grown").items():
    np.testing.assert_array_equal(tensors_of(tmp_path / "theirs")[name], array)


def test_a_run_keeps_its_settings(untied, tmp_path):
  convert(untied / "theirs", tmp_path / "run")
  configuration = tmp_path / "run/config.gin"
  before = configuration.read_text()
  assert "BATCH_SIZE = 8\n" in before
  configuration.write_text(
    before.replace("BATCH_SIZE = 8\n", "BATCH_SIZE = 3\n")
    + "DecodingOptions.num_beams = 5\n"
  )
  convert(tmp_path / "run", tmp_path / "more", to="zoo", vocabulary_size=48)
  after = (tmp_path / "more/config.gin").read_text()
  for line in ("BATCH_SIZE = 3\n", "DecodingOptions.num_beams = 5\n"):
    assert line in after


def test_moments_of_other_tables_are_left(tmp_path):
  arrays = traverse_util.flatten_dict(
    tiny_models.random_parameters(tiny_t5.build("t5_1_1")), sep="/"
  )
  tensors = {name: Tensor.of(array) for name, array in arrays.items()}
  moments = {f"{name}/v": tensor for name, tensor in tensors.items()}
  checkpoints.write_checkpoint(tmp_path / "t5x", tensors, moments=moments)
  told = convert(
    tmp_path / "t5x",
    tmp_path / "again",
    to="t5x",
    gin_files=["architectures/t5_1_1.gin"],
    bindings=[f"{name}={value}" for name, value in tiny_t5.TINY.items()],
    vocabulary_size=100,
  )
  assert "without the optimizer's state, which is of the former tables" in told
  found = checkpoints.open_checkpoint(tmp_path / "again")
  assert not found.has_optimizer_state
  table = found.parameters()["token_embedder/embedding"].read()
  np.testing.assert_array_equal(
    table[: tiny_t5.TINY["VOCAB_SIZE"]], arrays["token_embedder/embedding"]
  )
  assert len(table) == 100


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_the_mean_of_many_is_exact(dtype):
  """Sums of 65,536 equal numbers overflow or stall in narrow types."""
  array = np.full((2, 65_536), 3, writing.DTYPES[dtype])
  grown = sources.resized(Tensor.of(array), (2, 65_540))
  assert grown.dtype == array.dtype
  np.testing.assert_array_equal(grown.read(), np.full((2, 65_540), 3))


def test_ids_in_use_are_not_cut(tmp_path):
  write_directory(tmp_path / "theirs", "t5_1_1", vocab_size=1_024)
  shutil.copy(
    VOCABULARY / "vocabulary.model", tmp_path / "theirs" / "spiece.model"
  )
  (tmp_path / "theirs" / "tokenizer_config.json").write_text("{}")
  with pytest.raises(UserError) as error:
    convert(tmp_path / "theirs", tmp_path / "run", vocabulary_size=500)
  assert str(error.value) == (
    f"--vocabulary_size is 500 and the vocabulary of "
    f"'{tmp_path / 'theirs'}' has 1664 ids; none of them can be cut off"
  )


def test_two_vocabularies_are_not_resized(tmp_path):
  write_directory(tmp_path / "theirs", "marian_two_vocabularies")
  with pytest.raises(UserError, match="for its inputs and one for its targets"):
    convert(tmp_path / "theirs", tmp_path / "run", vocabulary_size=99)


@pytest.mark.parametrize(
  ("options", "sentence"),
  [
    ({"positions": 9}, r"has no table of positions that can be resized"),
    ({"vocabulary_size": 0}, "0 rows of vocabulary; it takes at least 1"),
    (
      {"bindings": ["VOCAB_SIZE=48"]},
      r"names its own model: leave out VOCAB_SIZE=48 \(other numbers of rows",
    ),
  ],
)
def test_refusals(untied, tmp_path, options, sentence):
  with pytest.raises(UserError, match=sentence):
    convert(untied / "theirs", tmp_path / "run", **options)
  assert not (tmp_path / "run").exists()


def test_the_command(untied, tmp_path, capsys):
  words = [str(untied / "theirs"), str(tmp_path / "run")]
  assert cli.main(["convert", *words, "--vocabulary_size=48"]) == 0
  assert "resized: decoder/logits_dense/kernel" in capsys.readouterr().out


@pytest.mark.parametrize("shape", [(9, 4), (7, 6), (5, 3), (9, 3), (5, 6)])
@pytest.mark.parametrize("turned", [False, True])
def test_a_table_in_several_files_is_never_whole_twice(shape, turned):
  array = np.arange(28, dtype=np.float32).reshape(7, 4)
  array = np.asfortranarray(array) if turned else array
  one = sources.resized(Tensor.of(array), shape)
  expected = np.empty(shape, np.float32)
  expected[:7, :4] = array[: shape[0], : shape[1]]
  expected[7:] = expected[:7].mean(axis=0)
  expected[:, 4:] = expected[:, :4].mean(axis=1, keepdims=True)
  np.testing.assert_array_equal(one.read(), expected)
  if any(new > old for new, old in zip(shape, array.shape, strict=True)):

    def whole():
      raise AssertionError

    apart = Tensor(
      array.shape,
      array.dtype,
      whole,
      lambda: iter([array[:3], array[3:6], array[6:]]),
    )
    found = sources.resized(apart, shape)
    np.testing.assert_array_equal(found.read(), expected)
