"""`zoo train` takes the model of the checkpoint that it starts from."""

from flax import traverse_util
import pytest

from tests import prepared_forms
from tests import tiny_models
from transformer_zoo import config
from transformer_zoo.api import configurations
from transformer_zoo.cli import common
from transformer_zoo.cli import main as cli
from transformer_zoo.conversion import exported_directory
from transformer_zoo.runs import inputs
from transformer_zoo.tensors.lazy_tensors import Tensor

SIZES = (
  "EMBED_DIM=12", "MLP_DIM=16", "NUM_HEADS=3", "HEAD_DIM=4",
  "VOCAB_SIZE=48", "DROPOUT_RATE=0.3",
)  # fmt: skip
ENCODER = (*SIZES, "NUM_ENCODER_LAYERS=2", "MAX_POSITIONS=11")
OWN = ("MIXTURE_OR_TASK_NAME='colours'", "MODEL_DIR='run'")


def directory_of(folder, *files, sizes) -> str:
  """Writes random parameters of a model as a Hugging Face directory."""
  model = config.build("MODEL", files, sizes)
  path = folder / "directory"
  path.mkdir()
  drawn = traverse_util.flatten_dict(
    tiny_models.random_parameters(model), sep="/"
  )
  tensors = {name: Tensor.of(array) for name, array in drawn.items()}
  exported_directory.write(path, model, tensors)
  return str(path)


def loaded(path, *files, overrides=()):
  """The configuration of a run that names no model."""
  words = ["train", *(f"--gin_file={name}" for name in files)]
  arguments = cli.build_parser(words).parse_args(words)
  arguments.overrides = [*OWN, f"INITIAL_CHECKPOINT_PATH={path!r}", *overrides]
  given = common.of_user(arguments)
  with configurations.of_initial_checkpoint(given) as found:
    config.load(found.gin_files, arguments.overrides, defaults=found.defaults)


def test_the_model_is_the_checkpoints_and_heads_and_dropout_are_the_runs(
  tmp_path, capsys
):
  path = directory_of(
    tmp_path,
    "architectures/bert.gin",
    "heads/classes.gin",
    "parts/feed_forward/gelu_exact.gin",
    sizes=ENCODER,
  )
  loaded(path, "runs/bert_finetune.gin", overrides=["DROPOUT_RATE=0.2"])
  model = config.value("MODEL")
  assert model.encoder.layer_stack.num_layers == 2
  assert model.encoder.layer_stack.layer.dropout.rate == 0.2
  assert [*model.offers.heads] == ["classes"]
  assert config.value("CONVERTER").form == "classes"
  assert f"the model is taken from {path!r}" in capsys.readouterr().err


def test_a_decoder_begins_as_its_directory_says(tmp_path):
  path = directory_of(
    tmp_path,
    "architectures/bart.gin",
    sizes=(
      *SIZES, "NUM_ENCODER_LAYERS=1", "NUM_DECODER_LAYERS=1",
      "MAX_POSITIONS=16",
    ),
  )  # fmt: skip
  loaded(path, "runs/finetune.gin")
  assert config.value("NUM_DECODER_LAYERS") == 1
  assert config.value("CONVERTER").bos_id == 2


def test_a_model_of_the_users_files_stays(tmp_path):
  path = directory_of(tmp_path, "architectures/bert.gin", sizes=ENCODER)
  loaded(
    path,
    "architectures/bert.gin",
    "sizes/bert_small.gin",
    "runs/bert_finetune.gin",
  )
  assert config.value("MODEL").encoder.layer_stack.num_layers == 4


@pytest.fixture
def of_colours(tmp_path, prepared_dir):
  """A run over prepared rows of three colours, whose file says two classes."""
  folder = tmp_path / "prepared"
  folder.mkdir()
  prepared_forms.write_classes(prepared_dir / "vocabularies", folder)
  config.load(
    [
      "architectures/bert.gin",
      "sizes/bert_small.gin",
      "runs/bert_finetune.gin",
    ],
    [*OWN, f"PREPARED_DIR={str(folder)!r}"],
  )
  return folder


def test_a_head_has_the_classes_of_its_task(of_colours, capsys):
  assert configurations.classes_of_the_task([]) == ["NUM_CLASSES=3"]
  assert capsys.readouterr().err == "NUM_CLASSES=3: red, green, blue\n"
  assert configurations.classes_of_the_task(["NUM_CLASSES=2"]) == []
  assert inputs.class_names("colours", str(of_colours), None) == ()
