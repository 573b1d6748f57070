"""A run starts from checkpoints of every format; what does not fit is told."""

import dataclasses
import functools
import json
import shlex
import shutil

from flax import traverse_util
import jax
import numpy as np
import pytest

from tests import tiny_t5
from transformer_zoo import config
from transformer_zoo.conversion import exported_directory
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import UserError
from transformer_zoo.interop.t5x import checkpoints as t5x_checkpoints
from transformer_zoo.runs.loading import restoration
from transformer_zoo.runs.loading.initial_checkpoint import InitialCheckpoint
from transformer_zoo.tensors import orbax_checkpoints
from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.training import state as state_lib
from transformer_zoo.training.sharding import partitioning as partitioning_lib
from transformer_zoo.training.sharding.partitioning import Partitioning

# The model of tests/runs/conftest.py; all sizes divide over two devices.
SIZES = {
  "EMBED_DIM": 16,
  "MLP_DIM": 32,
  "NUM_HEADS": 2,
  "HEAD_DIM": 8,
  "NUM_ENCODER_LAYERS": 1,
  "NUM_DECODER_LAYERS": 1,
  "VOCAB_SIZE": 64,
}
FORMATS = ("run", "scanned_run", "huggingface", "sharded", "t5x", "scalable")
build = functools.partial(tiny_t5.build, "t5_1_1", **SIZES)


@pytest.fixture(scope="module")
def params() -> dict:
  return tiny_t5.random_parameters(build())


def tensors_of(tree, prefix="") -> dict[str, Tensor]:
  flat = traverse_util.flatten_dict(tree, sep="/")
  return {prefix + name: Tensor.of(array) for name, array in flat.items()}


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory, params):
  """A folder with the same parameters in every format."""
  folder = tmp_path_factory.mktemp("checkpoints")
  tensors = tensors_of(params)
  for name, tree in (
    ("run", params),
    ("scanned_run", tiny_t5.stack_layers(params)),
  ):
    step = folder / name / "checkpoints" / "7"
    step.parent.mkdir(parents=True)
    orbax_checkpoints.write(step, tensors_of(tree, "params/"))
  for name, bytes_of_shard in (("huggingface", 10**9), ("sharded", 10**4)):
    (folder / name).mkdir()
    exported_directory.write(
      folder / name, build(), tensors, max_shard_bytes=bytes_of_shard
    )
  for name, scanned in (("t5x", False), ("scalable", True)):
    t5x_checkpoints.write_checkpoint(
      folder / name, tensors, step=7, scanned=scanned
    )
  return folder


@dataclasses.dataclass(frozen=True)
class Ids:
  """A vocabulary of which its size alone is asked."""

  size: int = 0


def restored(checkpoint, model, *, fresh=True, used=0, **rules):
  """Parameters of a model as a run would start with them, and the report."""
  partitioning = Partitioning(num_partitions=2)
  mesh = partitioning.mesh()
  boxed = state_lib.abstract_variables(model)
  shapes = state_lib.abstract_params(model)
  shardings = partitioning.shardings(mesh, boxed, shapes)
  found = restoration.open_initial(
    InitialCheckpoint(str(checkpoint), **rules), model, boxed, [Ids(used)]
  )
  values = jax.tree.map(
    lambda s, where: jax.device_put(np.full(s.shape, 9.0, s.dtype), where),
    shapes,
    shardings,
  )
  placed = found.place(
    partitioning_lib.abstract(shapes, shardings), values if fresh else None
  )
  for array, where in zip(
    *map(jax.tree.leaves, (placed, shardings)), strict=True
  ):
    assert array.sharding.is_equivalent_to(where, array.ndim)
  return jax.tree.map(np.asarray, placed), list(found.report())


def refusal(checkpoint, model, used=0, **rules) -> str:
  with pytest.raises(UserError) as caught:
    restoration.open_initial(
      InitialCheckpoint(str(checkpoint), **rules),
      model,
      state_lib.abstract_variables(model),
      [Ids(used)],
    )
  return str(caught.value)


def test_what_the_decoder_was_first_fed(checkpoints, tmp_path):
  """An id in the files of Hugging Face that is not padding's."""
  shutil.copytree(checkpoints / "huggingface", tmp_path / "theirs")
  path = tmp_path / "theirs/config.json"
  said = json.loads(path.read_text()) | {"decoder_start_token_id": 7}
  path.write_text(json.dumps(said))
  (tmp_path / "theirs/generation_config.json").unlink()
  boxed = state_lib.abstract_variables(build())
  initial = InitialCheckpoint(str(tmp_path / "theirs"))
  restoration.open_initial(initial, build(), boxed, [Ids()], start_id=7)
  with pytest.raises(UserError) as caught:
    restoration.open_initial(initial, build(), boxed, [Ids()], start_id=0)
  assert str(caught.value) == (
    f"the decoder of the Hugging Face directory {str(tmp_path / 'theirs')!r} "
    "was first fed id 7, and would be fed 0 here; set "
    "EncoderDecoderFeatures.bos_id=7"
  )


def assert_equal(placed, expected):
  jax.tree.map(np.testing.assert_array_equal, placed, expected)


@pytest.mark.parametrize("scan", [False, True], ids=["looped", "scanned"])
@pytest.mark.parametrize("name", FORMATS)
def test_the_same_parameters_from_every_format(checkpoints, params, name, scan):
  placed, report = restored(checkpoints / name, build(SCAN_LAYERS=scan))
  assert_equal(placed, tiny_t5.stack_layers(params) if scan else params)
  assert report[0].startswith("initial parameters: 29 of 29 (8,432 numbers) ")
  assert len(report) == 1


@pytest.mark.parametrize("name", FORMATS)
def test_another_size_is_refused_for_every_format(checkpoints, name):
  text = refusal(checkpoints / name, build(MLP_DIM=48))
  assert text.startswith("the parameters of the ")
  assert str(checkpoints / name) in text
  assert "encoder/layers_0/mlp/wo/kernel (32, 16) instead of (48, 16)" in text


def test_the_gin_files_of_a_directory_are_told(checkpoints):
  text = refusal(checkpoints / "huggingface", build(MLP_DIM=48))
  assert (
    "\nits own model is --gin_file=architectures/t5_1_1.gin "
    "--gin_file=parts/softmax/untied.gin --gin.VOCAB_SIZE=64 "
  ) in text
  assert "--gin.MLP_DIM=32 " in text
  # A shell takes the line as it is.
  words = shlex.split(text.partition("its own model is ")[2])
  assert all(word.startswith("--gin") for word in words)
  assert "--gin.GatedMlp.activation='gelu'" in words


@pytest.fixture(scope="module")
def run(checkpoints, tmp_path_factory):
  """A run with the configuration of the model that it has saved."""
  folder = tmp_path_factory.mktemp("configured") / "run"
  shutil.copytree(checkpoints / "run", folder)
  bindings = [f"{name}={value!r}" for name, value in SIZES.items()]
  config.load(["architectures/t5_1_1.gin"], bindings, root="MODEL")
  (folder / "config.gin").write_text(config.operative_config())
  return folder


class TestOtherMathematics:
  """Equal names and shapes."""

  other = staticmethod(lambda: build(**{"GatedMlp.activation": "silu"}))
  fields = (
    "  decoder.transformer.layer_stack.layer.mlp.activation: 'silu' instead of "
    "'gelu'\n"
    "  encoder.layer_stack.layer.mlp.activation: 'silu' instead of 'gelu'\n"
  )

  def test_refused_with_the_fields(self, checkpoints, run):
    for path in (checkpoints / "huggingface", run):
      text = refusal(path, self.other())
      assert text.startswith("the model computes something else than the ")
      assert self.fields in text

  def test_allowed_field_by_field(self, checkpoints, run, params):
    whole = tuple(
      f"{side}.layer_stack.layer.mlp.activation"
      for side in ("decoder.transformer", "encoder")
    )
    for fields in (("activation",), whole):
      placed, _ = restored(run, self.other(), other_fields=fields)
      assert_equal(placed, params)
    text = refusal(run, self.other(), other_fields=whole[:1])
    assert whole[0] not in text and whole[1] in text

  def test_dropout_and_the_like_are_the_runs_own(self, run):
    model = build(DROPOUT_RATE=0.3, REMAT="full", DTYPE="bfloat16")
    restored(run, model)

  def test_a_run_whose_configuration_cannot_be_read(
    self, run, tmp_path, capsys
  ):
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run" / "config.gin").write_text("MODEL = @Forgotten()\n")
    restored(tmp_path / "run", self.other())
    assert (
      "describes no model that can be built here" in capsys.readouterr().err
    )


def test_another_vocabulary_is_told(checkpoints, prepared_dir, tmp_path):
  path = prepared_dir / "vocabularies" / "tiny.model"
  shutil.copytree(checkpoints / "huggingface", tmp_path / "with_vocabulary")
  shutil.copy(path, tmp_path / "with_vocabulary" / "spiece.model")
  checkpoint = InitialCheckpoint(str(tmp_path / "with_vocabulary"))
  boxed = state_lib.abstract_variables(build())

  def report(vocabulary):
    return list(
      restoration.open_initial(
        checkpoint, build(), boxed, [vocabulary]
      ).report()
    )

  assert len(report(Vocabulary(path, extra_ids=10))) == 1
  assert report(Vocabulary("bytes"))[1] == (
    f"  note: its vocabulary {checkpoint.path!r} has other ids than 'bytes'"
  )


class TestPartial:
  def test_missing_parameters_stay_fresh_where_a_rule_says_so(
    self, checkpoints, params
  ):
    model = build(NUM_DECODER_LAYERS=2)
    text = refusal(checkpoints / "t5x", model)
    assert "missing (14):\n  decoder/layers_1/" in text
    placed, report = restored(
      checkpoints / "t5x", model, assignments=((r"decoder/layers_1/.*", None),)
    )
    assert report[0].startswith("initial parameters: 29 of 43 ")
    assert report[1] == (
      "  fresh: decoder/layers_1/encoder_decoder_attention/key/kernel"
    )
    added = placed["decoder"].pop("layers_1")
    assert_equal(placed, params)
    assert all(np.all(leaf == 9.0) for leaf in jax.tree.leaves(added))

  @pytest.mark.parametrize("name", ["t5x", "scanned_run"])
  def test_a_layer_from_another_one(self, checkpoints, params, name):
    placed, _ = restored(
      checkpoints / name,
      build(NUM_DECODER_LAYERS=2, SCAN_LAYERS=True),
      assignments=((r"decoder/layers_1/(.*)", r"decoder/layers_0/\1"),),
    )
    for leaf, read in zip(
      jax.tree.leaves(placed["decoder"]["layers"]),
      jax.tree.leaves(params["decoder"]["layers_0"]),
      strict=True,
    ):
      np.testing.assert_array_equal(leaf, np.stack([read, read]))

  def test_what_nothing_reads(self, checkpoints, params):
    model = build(NUM_ENCODER_LAYERS=0)
    assert "\nextra (9):\n  encoder/layers_0/" in refusal(
      checkpoints / "t5x", model
    )
    expected = {**params, "encoder": dict(params["encoder"])}
    del expected["encoder"]["layers_0"]
    for rules in (
      {"ignore_unused": True},
      {"assignments": ((r"encoder/layers_0/.*", None),)},
    ):
      placed, report = restored(checkpoints / "t5x", model, **rules)
      assert_equal(placed, expected)
      assert report[1] == "  not used: encoder/layers_0/attention/key/kernel"


class TestResizing:
  allowed = {"resize_vocabulary": True}

  def test_refused_by_default(self, checkpoints):
    text = refusal(checkpoints / "huggingface", build(VOCAB_SIZE=72))
    assert (
      "token_embedder/embedding (64, 16) instead of (72, 16); allow it by "
      "InitialCheckpoint.resize_vocabulary = True\n"
    ) in text

  @pytest.mark.parametrize("name", ["huggingface", "run", "t5x"])
  def test_more_rows_are_fresh(self, checkpoints, params, name):
    placed, report = restored(
      checkpoints / name, build(VOCAB_SIZE=72), **self.allowed
    )
    table = placed["token_embedder"]["embedding"]
    np.testing.assert_array_equal(
      table[:64], params["token_embedder"]["embedding"]
    )
    assert np.all(table[64:] == 9.0)
    kernel = placed["decoder"]["logits_dense"]["kernel"]
    np.testing.assert_array_equal(
      kernel[:, :64], params["decoder"]["logits_dense"]["kernel"]
    )
    assert np.all(kernel[:, 64:] == 9.0)
    assert report[1:] == [
      "  resized: decoder/logits_dense/kernel (16, 72) from (16, 64)",
      "  resized: token_embedder/embedding (72, 16) from (64, 16)",
    ]

  def test_unused_rows_are_cut(self, checkpoints, params):
    model = build(VOCAB_SIZE=40)
    placed, _ = restored(
      checkpoints / "t5x", model, fresh=False, used=38, **self.allowed
    )
    np.testing.assert_array_equal(
      placed["token_embedder"]["embedding"],
      params["token_embedder"]["embedding"][:40],
    )
    text = refusal(checkpoints / "t5x", model, used=41, **self.allowed)
    assert "; the first 41 are in use and cannot be cut\n" in text

  @pytest.mark.parametrize("kind", ["directory", "converted", "trained"])
  def test_rows_of_the_checkpoints_own_vocabulary_are_not_cut(
    self, checkpoints, run, prepared_dir, gin_file, tmp_path, kind
  ):
    vocabulary = prepared_dir / "vocabularies" / "tiny.model"  # of 128 ids
    folder = tmp_path / kind
    source = checkpoints / "huggingface" if kind == "directory" else run
    shutil.copytree(source, folder)
    if kind == "directory":
      shutil.copy(vocabulary, folder / "spiece.model")
    elif kind == "converted":
      (folder / "huggingface").mkdir()
      shutil.copy(vocabulary, folder / "huggingface" / "spiece.model")
    else:
      configuration = f"include {str(gin_file)!r}\nMODEL_DIR = 'there'\n"
      (folder / "config.gin").write_text(configuration)
    in_use = 38 if kind == "trained" else 128
    text = refusal(folder, build(VOCAB_SIZE=36), used=30, **self.allowed)
    assert f"the first {in_use} are in use and cannot be cut\n" in text

  @pytest.mark.slow
  def test_learned_positions(self, tmp_path):
    positions = functools.partial(
      _with_positions, "parts/positions/learned.gin"
    )
    params = tiny_t5.random_parameters(positions(12))
    t5x = tensors_of(params, "params/")
    step = tmp_path / "checkpoints" / "1"
    step.parent.mkdir(parents=True)
    orbax_checkpoints.write(step, t5x)
    assert "allow it by InitialCheckpoint.resize_positions = True" in refusal(
      step, positions(16)
    )
    for longest in (8, 16):
      placed, _ = restored(step, positions(longest), resize_positions=True)
      table = placed["encoder"]["position_embedder"]["pos_embedding"]
      read = params["encoder"]["position_embedder"]["pos_embedding"]
      np.testing.assert_array_equal(table[:12], read[:longest])
      assert np.all(table[12:] == 9.0)


def _with_positions(part, longest):
  bindings = {**SIZES, "MAX_POSITIONS": longest}
  return config.build(
    "MODEL",
    ["architectures/t5_1_1.gin", part],
    [f"{name}={value!r}" for name, value in bindings.items()],
  )


class TestRuns:
  """`zoo train` itself."""

  short = ("TRAIN_STEPS=2", "LOG_PERIOD=1")
  task = "MIXTURE_OR_TASK_NAME='no_validation'"  # nothing is evaluated

  @pytest.mark.slow
  def test_formats_start_with_the_same_loss_and_are_read_once(
    self, train, checkpoints, tmp_path
  ):
    losses = set()
    for name in ("huggingface", "t5x"):
      shutil.copytree(checkpoints / name, tmp_path / name)
      overrides = (
        f"INITIAL_CHECKPOINT_PATH={str(tmp_path / name)!r}",
        *self.short,
        self.task,
      )
      code, output, error = train(tmp_path / "run" / name, *overrides)
      assert code == 0, error
      assert "initial parameters: 29 of 29 (8,432 numbers) " in output
      first = (tmp_path / "run" / name / "metrics.jsonl").read_text()
      losses.add(json.loads(first.splitlines()[0])["train/loss"])
    assert len(losses) == 1
    # Stopped before the end, it needs no initial checkpoint.
    (tmp_path / "run" / name / "result.json").unlink()
    shutil.rmtree(tmp_path / name)
    code, output, error = train(tmp_path / "run" / name, *overrides)
    assert code == 0, error
    assert "initial parameters" not in output

  def test_nothing_is_written_when_it_is_refused(
    self, train, checkpoints, tmp_path
  ):
    code, _, error = train(
      tmp_path / "run",
      f"INITIAL_CHECKPOINT_PATH={str(checkpoints / 't5x')!r}",
      "VOCAB_SIZE=72",
    )
    assert code == 2
    assert "(64, 16) instead of (72, 16)" in error
    assert not any(p.is_file() for p in (tmp_path / "run").rglob("*"))


class TestInference:
  """What a directory is asked needs no configuration."""

  @pytest.fixture
  def infer(self, zoo, checkpoints, prepared_dir):
    def call(name, *words):
      return zoo(
        *("infer", "red car sees boat", "--json"),
        f"--checkpoint={checkpoints / name}",
        f"--vocabulary={prepared_dir / 'vocabularies' / 'tiny.model'}",
        "--gin.infer.extra_ids=10",
        *words,
      )

    return call

  @pytest.mark.slow
  def test_a_directory_answers_as_a_run_does(self, infer, gin_file):
    lengths = "--gin.TASK_FEATURE_LENGTHS={'inputs': 16, 'targets': 8}"
    configured = (f"--gin_file={gin_file}",)
    code, expected, error = infer("scanned_run", *configured, lengths)
    assert code == 0, error
    for name, words in (("huggingface", ()), ("t5x", configured)):
      code, output, error = infer(name, *words, lengths)
      assert code == 0, error
      assert output == expected

  def test_another_model_is_refused(self, infer, gin_file):
    code, _, error = infer(
      "huggingface",
      *(f"--gin_file={gin_file}", "--gin_file=runs/infer.gin"),
      "--gin.RMSNorm.epsilon=1e-5",
    )
    assert code == 2
    assert ".norm.epsilon: 1e-05 instead of 1e-06\n" in error
