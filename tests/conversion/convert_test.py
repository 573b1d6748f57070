"""`zoo convert`: nothing changes on the way, nothing half is left behind."""

import argparse
import contextlib
import errno
import json
import pathlib
import shutil

from flax import traverse_util
import jax.numpy as jnp
import numpy as np
import pytest
import tokenizers
from tokenizers import models
from tokenizers import processors

from tests import tiny_models
from tests import tiny_t5
from tests import tokenizer_directories
from transformer_zoo import config as zoo_config
from transformer_zoo.api import configurations
from transformer_zoo.checkpoints import converted_run
from transformer_zoo.checkpoints import tokenizer_files
from transformer_zoo.cli import main as cli
from transformer_zoo.conversion import target as conversion_target
from transformer_zoo.conversion.convert import convert
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import family_of
from transformer_zoo.interop.huggingface import writing
from transformer_zoo.interop.t5x import checkpoints as t5x_checkpoints
from transformer_zoo.modules import comparison
from transformer_zoo.tensors import lazy_tensors as tensors_lib
from transformer_zoo.tensors import orbax_checkpoints
from transformer_zoo.tensors import safetensors
from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.training import state
from transformer_zoo.training.checkpoints import reading as checkpoints
from transformer_zoo.training.checkpoints import run_checkpoints

VOCABULARY = pathlib.Path(__file__).parents[2] / "tasks/miniature"
T5X_MODEL = ["architectures/t5_1_1.gin"]
T5X_SIZES = [f"{name}={value}" for name, value in tiny_t5.TINY.items()]


def parameters(model) -> dict[str, np.ndarray]:
  return traverse_util.flatten_dict(
    tiny_models.random_parameters(model), sep="/"
  )


def tensors_of(arrays) -> dict[str, Tensor]:
  return {name: Tensor.of(array) for name, array in arrays.items()}


def write_directory(folder):
  """A Hugging Face directory of a tiny T5.1.1 with a vocabulary."""
  model = tiny_t5.build("t5_1_1")
  family = family_of({"model_type": "t5"})
  folder.mkdir()
  config = {**family.config(model), "eos_token_id": 1, "n_positions": 512}
  writing.write_directory(folder, family, config, tensors_of(parameters(model)))
  shutil.copy(VOCABULARY / "vocabulary.model", folder / "spiece.model")
  (folder / "tokenizer_config.json").write_text('{"model_max_length": 512}')


@pytest.mark.slow
def test_a_decoder_that_is_first_fed_something_else_than_padding(tmp_path, zoo):
  """MADLAD-400's: <s>, where padding is 1."""
  words = ["<pad>", "</s>", "<unk>", "a", "fine", "day"]
  tokenizer = tokenizers.Tokenizer(
    models.WordLevel({word: i for i, word in enumerate(words)}, "<unk>")
  )
  found = {}
  for start in (0, 7):
    theirs, run = tmp_path / f"theirs{start}", tmp_path / f"run{start}"
    write_directory(theirs)
    (theirs / "spiece.model").unlink()
    tokenizer.save(str(theirs / "tokenizer.json"))
    for name in ("config.json", "generation_config.json"):
      said = json.loads((theirs / name).read_text())
      said["decoder_start_token_id"] = start
      (theirs / name).write_text(json.dumps(said))
    convert(theirs, run, report=lambda line: None)
    convert(run, tmp_path / f"back{start}", report=lambda line: None)
    back = json.loads((tmp_path / f"back{start}" / "config.json").read_text())
    assert back["decoder_start_token_id"] == start
    for folder in (theirs, run):
      code, output, error = zoo(
        *("infer", f"--checkpoint={folder}", "--score", "a fine\tday"),
        "--gin.TASK_FEATURE_LENGTHS={'inputs': 16, 'targets': 8}",
      )
      assert code == 0, error
      found[folder.name] = json.loads(output)["log_likelihood"]
  assert found["theirs7"] == found["run7"] != found["theirs0"] == found["run0"]


@pytest.fixture(scope="module", name="place")
def convert_there_and_back(tmp_path_factory):
  """A directory, the run that it becomes, and the directory of that."""
  place = tmp_path_factory.mktemp("convert")
  write_directory(place / "theirs")
  convert(place / "theirs", place / "run", report=lambda line: None)
  convert(place / "run", place / "back", report=lambda line: None)
  return place


@pytest.mark.slow
def test_there_and_back_changes_no_byte(place):
  files = {path.name for path in (place / "theirs").iterdir()}
  assert files == {path.name for path in (place / "back").iterdir()}
  for name in files:
    first, again = (place / n / name for n in ("theirs", "back"))
    assert first.read_bytes() == again.read_bytes(), name


def test_the_run_restores_the_parameters(place):
  model = zoo_config.build("MODEL", [str(place / "run" / "config.gin")])
  assert not comparison.differences(model, tiny_t5.build("t5_1_1"))
  restored = checkpoints.restore_params(
    checkpoints.resolve(place / "run"), state.abstract_params(model)
  )
  flat = traverse_util.flatten_dict(restored, sep="/")
  expected = parameters(model)
  assert flat.keys() == expected.keys()
  for name, value in expected.items():
    np.testing.assert_array_equal(flat[name], value)


@pytest.mark.parametrize(
  ("kind", "files"),
  [
    ("infer", ["runs/infer.gin"]),
    ("evaluate", ["runs/evaluate.gin"]),
    ("train", ["runs/finetune.gin"]),
  ],
)
def test_the_configuration_serves_every_command(place, kind, files):
  zoo_config.load(
    [str(place / "run" / "config.gin"), *files],
    ["CHECKPOINT_PATH='a'", "MIXTURE_OR_TASK_NAME='b'"]
    if kind != "train"
    else ["MODEL_DIR='a'", "MIXTURE_OR_TASK_NAME='b'"],
    root=kind,
  )


def test_the_vocabulary_came_along(place):
  found = configurations.vocabulary(str(place / "run"))
  assert found == str(place / "run" / "huggingface")
  step = str(place / "run" / "checkpoints" / "0")
  assert configurations.vocabulary(step) == found


def test_narrow_numbers(place, tmp_path):
  convert(place / "run", tmp_path / "narrow", dtype="bfloat16")
  tensors = safetensors.read(tmp_path / "narrow" / "model.safetensors")
  assert {t.dtype.name for t in tensors.values()} == {"bfloat16"}
  config = json.loads((tmp_path / "narrow" / "config.json").read_text())
  assert config["dtype"] == "bfloat16"
  convert(tmp_path / "narrow", tmp_path / "run")
  leaves = orbax_checkpoints.open_checkpoint(
    checkpoints.resolve(tmp_path / "run")
  )
  assert {leaf.dtype.name for leaf in leaves.values()} == {"float32"}


def test_no_tensor_is_narrowed_as_a_whole(place, tmp_path, monkeypatch):
  monkeypatch.setattr(tensors_lib, "_PIECE_BYTES", 64)
  longest = []

  def pieces(array, dtype):
    assert array.dtype == np.float32
    for piece in original(array, dtype):
      longest.append(piece.nbytes)
      yield piece

  original = tensors_lib.pieces
  monkeypatch.setattr(tensors_lib, "pieces", pieces)
  convert(place / "run", tmp_path / "narrow", dtype="float16")
  tensors = safetensors.read(tmp_path / "narrow" / "model.safetensors")
  rows = [t.num_bytes // t.shape[0] for t in tensors.values()]
  assert 0 < max(longest) <= max(64, *rows)


def test_numbers_too_large_for_a_narrow_type(tmp_path):
  model = tiny_t5.build("t5_1_1")
  family = family_of({"model_type": "t5"})
  arrays = parameters(model)
  arrays["token_embedder/embedding"][3] = 1e6
  (tmp_path / "large").mkdir()
  writing.write_directory(
    tmp_path / "large", family, family.config(model), tensors_of(arrays)
  )
  convert(tmp_path / "large", tmp_path / "run")
  with pytest.raises(UserError) as error:
    convert(tmp_path / "run", tmp_path / "narrow", dtype="float16")
  assert str(error.value) == (
    "shared.weight has numbers that float16 cannot hold; choose bfloat16 or "
    "float32"
  )
  assert not (tmp_path / "narrow").exists()


@pytest.mark.slow
def test_t5x_there_and_back_with_the_optimizer(tmp_path):
  model = tiny_t5.build("t5_1_1")
  found = parameters(model)
  moments = {f"{name}/v": 2 * value for name, value in found.items()}
  t5x_checkpoints.write_checkpoint(
    tmp_path / "t5x", tensors_of(found), step=7, moments=tensors_of(moments)
  )
  convert(
    tmp_path / "t5x",
    tmp_path / "run",
    gin_files=T5X_MODEL,
    bindings=T5X_SIZES,
    vocabulary_path=str(VOCABULARY / "vocabulary.model"),
  )
  assert (tmp_path / "run" / "huggingface" / "spiece.model").is_file()
  convert(tmp_path / "run", tmp_path / "again", to="t5x")
  again = t5x_checkpoints.open_checkpoint(tmp_path / "again")
  assert again.step == 7
  for expected, tensors in (
    (found, again.parameters()),
    (moments, again.moments()),
  ):
    assert tensors.keys() == expected.keys()
    for name, value in expected.items():
      np.testing.assert_array_equal(tensors[name].read(), value)


def test_a_changed_model_is_not_described_by_the_original(tmp_path, place):
  """Its own configuration is written where the first one no longer holds."""
  shutil.copytree(place / "run", tmp_path / "run")
  file = tmp_path / "run" / "config.gin"
  file.write_text(file.read_text().replace("'gelu'", "'silu'"))
  convert(tmp_path / "run", tmp_path / "theirs")
  config = json.loads((tmp_path / "theirs" / "config.json").read_text())
  assert config["feed_forward_proj"] == "gated-silu"
  assert "n_positions" not in config


def test_what_no_class_computes_is_refused(tmp_path):
  found = parameters(tiny_t5.build("t5_1_1"))
  run = tmp_path / "run"
  converted_run.write_run(
    run,
    [*T5X_MODEL, "parts/positions/rotary.gin"],
    T5X_SIZES,
    {
      f"params/{name}": Tensor.of(value)
      for name, value in found.items()
      if "relpos_bias" not in name
    },
  )
  with pytest.raises(UserError) as error:
    convert(run, tmp_path / "theirs")
  text = str(error.value)
  assert text.startswith(
    "no class of `transformers` that is known here computes this model: "
  )
  assert "t5 models have a relative bias in their stacks" in text
  assert not (tmp_path / "theirs").exists()


def test_a_disk_without_room(place, tmp_path, monkeypatch):
  """What is needed is what is written: half of it where numbers are narrow."""
  whole = sum(
    tensor.num_bytes
    for tensor in converted_run.open_run(place / "run").parameters().values()
  )
  monkeypatch.setattr(
    shutil, "disk_usage", lambda path: argparse.Namespace(free=whole // 2)
  )
  with pytest.raises(UserError, match="GB are free there; choose another disk"):
    convert(place / "run", tmp_path / "theirs")
  assert not list(tmp_path.iterdir())
  convert(place / "run", tmp_path / "theirs", dtype="bfloat16")


class _Killed(BaseException):
  """What a signal would do."""


def test_what_ends_halfway_leaves_the_source_and_no_target(
  place, tmp_path, monkeypatch
):
  reads = iter(range(10**6))

  def read(path, checksums):
    def reading(tensor):
      def wrapped():
        if next(reads) == 20:
          raise _Killed
        return tensor.read()

      return Tensor(tensor.shape, tensor.dtype, wrapped)

    return {n: reading(t) for n, t in original(path, checksums).items()}

  original = orbax_checkpoints.open_checkpoint
  monkeypatch.setattr(orbax_checkpoints, "open_checkpoint", read)
  with pytest.raises(_Killed):
    convert(place / "run", tmp_path / "theirs")
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("what", ["folder", "file", "link"])
def test_a_target_that_appears_meanwhile_stays(tmp_path, what):
  target = tmp_path / "theirs"
  with (
    pytest.raises(UserError, match="is there already"),
    conversion_target.written_aside(target) as folder,
  ):
    folder.mkdir()
    (folder / "weights").touch()
    if what == "folder":
      target.mkdir()
      (target / "mine").touch()
    elif what == "file":
      target.touch()
    else:
      target.symlink_to(tmp_path / "nowhere")
  assert [*tmp_path.iterdir()] == [target]
  assert what != "folder" or (target / "mine").exists()


def test_two_conversions_to_one_target(place, tmp_path):
  """The second is refused, and the first ends."""
  target = tmp_path / "theirs"
  with conversion_target.written_aside(target) as folder:
    with pytest.raises(UserError, match="another conversion writes .*process"):
      convert(place / "run", target)
    folder.mkdir()
    (folder / "weights").touch()
  assert [path.name for path in tmp_path.iterdir()] == ["theirs"]
  assert [path.name for path in target.iterdir()] == ["weights"]


def test_a_conversion_where_nothing_can_be_locked(place, tmp_path, monkeypatch):
  def refuse(*_):
    raise OSError(errno.ENOLCK, "No locks available")

  monkeypatch.setattr(conversion_target.claims.fcntl, "flock", refuse)
  convert(place / "run", tmp_path / "theirs")
  assert [path.name for path in tmp_path.iterdir()] == ["theirs"]


def test_what_is_left_of_a_killed_conversion_goes(place, tmp_path):
  left = tmp_path / "theirs.partial/whole"
  left.mkdir(parents=True)
  (left / "half").touch()
  convert(place / "run", tmp_path / "theirs")
  assert [path.name for path in tmp_path.iterdir()] == ["theirs"]
  assert not (tmp_path / "theirs/half").exists()


def test_a_link_in_the_place_of_the_partial_folder(place, tmp_path):
  """Nothing that it points to is changed."""
  (tmp_path / "mine/whole").mkdir(parents=True)
  (tmp_path / "mine/whole/kept").touch()
  aside = tmp_path / "theirs.partial"
  for other in (tmp_path / "mine", tmp_path / "nowhere", None):
    aside.touch() if other is None else aside.symlink_to(other)
    with pytest.raises(UserError) as error:
      convert(place / "run", tmp_path / "theirs")
    assert str(error.value) == (
      f"'{tmp_path}/theirs' is written in '{aside}' first, which is a link or "
      "a file and not a folder; remove it, or name another target"
    )
    aside.unlink()
  assert (tmp_path / "mine/whole/kept").exists()
  assert not (tmp_path / "nowhere").exists()


def test_a_link_in_the_partial_folder(place, tmp_path):
  """The link is removed, and not what it points to."""
  (tmp_path / "mine").mkdir()
  (tmp_path / "mine/kept").touch()
  (tmp_path / "theirs.partial").mkdir()
  (tmp_path / "theirs.partial/whole").symlink_to(tmp_path / "mine")
  convert(place / "run", tmp_path / "theirs")
  assert [path.name for path in (tmp_path / "mine").iterdir()] == ["kept"]
  assert {path.name for path in tmp_path.iterdir()} == {"mine", "theirs"}


@pytest.mark.parametrize(
  ("source", "target", "more", "sentence"),
  [
    ("nowhere", "new", {}, "there is no checkpoint"),
    (".", "new", {}, "is no checkpoint that is known here"),
    (
      ".",
      "new",
      {"gin_files": ["architectures/t5_1_1.gin"]},
      "is no checkpoint that is known here",
    ),
    ("theirs", "run", {}, "is there already"),
    (
      "theirs",
      "new",
      {"base": "downloads/t5"},
      "theirs' is no directory of `peft` or `adapters`, which alone go over a "
      "base; leave it out, or name one with an adapter_config.json",
    ),
    ("theirs", "new", {"to": "huggingface"}, "is in the format 'huggingface'"),
    (
      "theirs",
      "new",
      {"dtype": "float32"},
      "--dtype is 'float32', which means nothing to a target in the format "
      "'zoo'; leave it out, or choose --to huggingface",
    ),
    (
      "run",
      "new",
      {"to": "t5x", "max_shard_bytes": 1000},
      "--max_shard_size is 1000, which means nothing to a target in the "
      "format 't5x'; leave it out, or choose --to huggingface",
    ),
    (
      "run",
      "new",
      {"scanned": True},
      "--scanned is True, which means nothing to a target in the format "
      "'huggingface'; leave it out, or choose --to t5x",
    ),
    (
      "run",
      "new",
      {"to": "t5x", "vocabulary_path": "bytes"},
      "--vocabulary is 'bytes', which means nothing to a target in the format "
      "'t5x'; leave it out, or choose --to huggingface or --to zoo",
    ),
  ],
)
def test_refusals(place, tmp_path, source, target, more, sentence):
  folder = tmp_path if source == "." else place / source
  target = place / target if target == "run" else tmp_path / target
  with pytest.raises(UserError) as error:
    convert(folder, target, **more)
  assert sentence in str(error.value)
  assert not list(tmp_path.iterdir())


def test_a_url_is_no_target(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  with pytest.raises(UserError) as error:
    convert("theirs", "gs://bucket/run")
  assert str(error.value) == (
    "'gs://bucket/run' is a URL, and conversions write folders of this "
    "machine; name one, and copy it there"
  )
  assert not list(tmp_path.iterdir())


def test_t5x_tells_no_architecture(tmp_path):
  found = parameters(tiny_t5.build("t5_1_1"))
  t5x_checkpoints.write_checkpoint(tmp_path / "t5x", tensors_of(found))
  with pytest.raises(UserError, match="does not name its architecture"):
    convert(tmp_path / "t5x", tmp_path / "run")
  wrong = ["MLP_DIM=50" if s.startswith("MLP_DIM") else s for s in T5X_SIZES]
  with pytest.raises(UserError, match="not of the configured model"):
    convert(
      tmp_path / "t5x", tmp_path / "run", gin_files=T5X_MODEL, bindings=wrong
    )


def test_gin_files_of_a_t5x_checkpoint_are_searched_for(tmp_path, capsys):
  found = parameters(tiny_t5.build("t5_1_1"))
  t5x_checkpoints.write_checkpoint(tmp_path / "t5x", tensors_of(found))
  (tmp_path / "mine").mkdir()
  content = "".join(f"include {name!r}\n" for name in T5X_MODEL)
  content += "\n".join(text.replace("=", " = ", 1) for text in T5X_SIZES)
  (tmp_path / "mine" / "tiny.gin").write_text(content)
  search = f"--gin_search_paths={tmp_path / 'mine'}"
  words = ["convert", str(tmp_path / "t5x"), str(tmp_path / "run")]
  assert cli.main([*words, "--gin_file=tiny.gin", search]) == 0
  read = converted_run.open_run(tmp_path / "run").parameters()
  assert read.keys() == found.keys()
  words = ["convert", str(tmp_path / "run"), str(tmp_path / "other")]
  assert cli.main([*words, search]) == 2
  assert "names its own model: leave out" in capsys.readouterr().err


def test_what_is_at_a_url_is_fetched(tmp_path, monkeypatch):
  found = parameters(tiny_t5.build("t5_1_1"))
  t5x_checkpoints.write_checkpoint(tmp_path / "there", tensors_of(found))
  monkeypatch.chdir(tmp_path)
  convert(
    f"file://{tmp_path}/there/checkpoint_0",
    "run",
    gin_files=T5X_MODEL,
    bindings=T5X_SIZES,
  )
  read = converted_run.open_run(tmp_path / "run").parameters()
  assert {name: t.shape for name, t in read.items()} == {
    name: array.shape for name, array in found.items()
  }


def test_a_checkpoint_that_a_run_saved(tmp_path):
  """Packed by Orbax, its layers scanned."""
  model = tiny_t5.build("t5_1_1", SCAN_LAYERS=True)
  looped = tiny_models.random_parameters(tiny_t5.build("t5_1_1"))
  saved = state.TrainState(jnp.int32(3), tiny_t5.stack_layers(looped), {})
  with contextlib.closing(
    run_checkpoints.Checkpoints(tmp_path / "run" / "checkpoints")
  ) as made:
    made.save(3, saved, {})
  zoo_config.load(T5X_MODEL, [*T5X_SIZES, "SCAN_LAYERS=True"], root="MODEL")
  (tmp_path / "run" / "config.gin").write_text(zoo_config.operative_config())
  assert not comparison.differences(zoo_config.value("MODEL"), model)
  convert(tmp_path / "run", tmp_path / "theirs")
  found = safetensors.read(tmp_path / "theirs" / "model.safetensors")
  np.testing.assert_array_equal(
    found["decoder.block.2.layer.2.DenseReluDense.wo.weight"].read(),
    looped["decoder"]["layers_2"]["mlp"]["wo"]["kernel"].T,
  )


def test_the_command(place, tmp_path, capsys):
  words = [str(place / "run"), str(tmp_path / "theirs")]
  assert cli.main(["convert", *words, "--max_shard_size", "20KB"]) == 0
  assert "54,432 parameters in 66 tensors" in capsys.readouterr().out
  assert (tmp_path / "theirs" / "model.safetensors.index.json").is_file()
  as_t5x = [words[0], str(tmp_path / "t5x"), "--to=t5x"]
  assert cli.main(["convert", *as_t5x]) == 0
  assert (tmp_path / "t5x" / "checkpoint_0").is_dir()
  capsys.readouterr()
  assert cli.main(["convert", *words, "--max_shard_size", "big"]) == 2
  assert capsys.readouterr().err == (
    "zoo: error: --max_shard_size is 'big'; write a number and KB, MB or GB, "
    "as in 5GB\n"
  )


def test_how_a_language_model_of_theirs_begins(tmp_path):
  """As their tokenizer does: GPT-2 with the prompt itself, Llama with BOS."""
  model, _ = tiny_models.build("gpt_2")
  (tmp_path / "config.json").write_text("{}")
  told = converted_run.defaults(model, tmp_path, "infer")
  assert "DecodingOptions.start_before_prompt=False" in told
  assert "DecodingOptions.skip_special_tokens=True" in told
  assert "CORRUPTION=None" not in told
  tokenizer = tokenizers.Tokenizer(models.WordLevel({"a": 0, "<s>": 1}, "a"))
  tokenizer.post_processor = processors.TemplateProcessing(
    single="<s> $A", special_tokens=[("<s>", 1)]
  )
  tokenizer.save(str(tmp_path / "tokenizer.json"))
  told = converted_run.defaults(model, tmp_path, "evaluate", "infer")
  assert {"LanguageModelFeatures.bos_id=1", "CORRUPTION=None"} <= set(told)
  assert not [line for line in told if "start_before_prompt" in line]


def test_what_a_tokenizer_puts_before_inputs_begins_them(tmp_path):
  """RoBERTa's, as CodeT5 and BART have it; T5's puts its end behind them."""
  model = tiny_t5.build("t5_1_1")
  ids = {"a": 0, "<s>": 1, "</s>": 2}
  tokenizer = tokenizers.Tokenizer(models.WordLevel(ids, "a"))
  path = tmp_path / "tokenizer.json"
  for template, begun in (("$A </s>", False), ("<s> $A </s>", True)):
    tokenizer.post_processor = processors.TemplateProcessing(
      single=template, special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    tokenizer.save(str(path))
    found = converted_run.defaults(model, tmp_path, "infer")
    assert ("EncoderDecoderFeatures.begin_id=1" in found) == begun


def test_inputs_of_mbart_end_with_their_language(tmp_path):
  """And begin without the <s> that architectures/bart.gin has."""
  model, _ = tiny_models.build("mbart")
  (tmp_path / "prepared").mkdir()
  tokenizer_directories.prepare(tmp_path / "prepared")
  folder = tmp_path / "theirs"
  config = {"model_type": "mbart"}
  tokenizer_directories.write(
    tmp_path / "prepared", folder, "MBartTokenizer", config=config
  )
  found = converted_run.defaults(model, folder, "infer")
  english = Vocabulary(folder).pieces().index("en_XX")
  assert f"EncoderDecoderFeatures.end_id={english}" in found
  assert "EncoderDecoderFeatures.begin_id=None" in found


def test_a_language_model_that_is_not_theirs_begins_with_padding(tmp_path):
  """A T5X checkpoint says nothing, and T5X feeds padding first."""
  model, _ = tiny_models.build("lm")
  told = converted_run.defaults(model, tmp_path, "infer")
  assert not [line for line in told if "start_before_prompt" in line]


@pytest.mark.parametrize(
  ("positions", "inputs", "targets"),
  [(1024, 512, 128), (512, 384, 128), (40, 20, 20)],
)
def test_usual_lengths_fit_the_positions(tmp_path, positions, inputs, targets):
  model, _ = tiny_models.build("gpt_1", MAX_POSITIONS=positions)
  told = converted_run.defaults(model, tmp_path, "infer")
  lengths = {"inputs": inputs, "targets": targets}
  assert f"TASK_FEATURE_LENGTHS={lengths}" in told


def test_pieces_that_are_not_read_are_found(tmp_path):
  shutil.copy(VOCABULARY / "vocabulary.model", tmp_path / "spiece.model")
  assert list(tokenizer_files.unread_pieces(tmp_path)) == []
  size = Vocabulary(tmp_path).size
  added = {"<extra_id_0>": size - 1, "<caption>": size, "<box>": size + 1}
  (tmp_path / "added_tokens.json").write_text(json.dumps(added))
  (told,) = tokenizer_files.unread_pieces(tmp_path)
  assert told.startswith("2 pieces (<caption>, <box>) of ")


def test_a_directory_may_name_no_class_of_its_tokenizer(tmp_path):
  (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": null}')
  assert tokenizer_files.start_id(tmp_path) is None


@pytest.mark.parametrize(
  ("path", "files", "kind"),
  [
    (VOCABULARY / "vocabulary.model", {"spiece.model"}, "T5Tokenizer"),
    ("bytes", set(), "ByT5Tokenizer"),
  ],
)
def test_a_vocabulary_of_ours_becomes_files_of_theirs(
  tmp_path, path, files, kind
):
  vocabulary = Vocabulary(path)
  tokenizer_files.write(vocabulary, tmp_path)
  config = json.loads((tmp_path / "tokenizer_config.json").read_text())
  assert config["tokenizer_class"] == kind
  found = {file.name for file in tmp_path.iterdir()}
  assert found == {*files, "tokenizer_config.json"}
  # They are a vocabulary again.
  again = Vocabulary(tmp_path)
  text = "a fine day <extra_id_0>"
  assert again.size == vocabulary.size
  assert again.encode(text) == vocabulary.encode(text)
