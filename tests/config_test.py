"""gin: what loads, what is refused and in which words."""

from collections.abc import Callable
import dataclasses

from flax import linen as nn
import gin
import pytest

from transformer_zoo import config
from transformer_zoo.config import registry
from transformer_zoo.effects import Place
from transformer_zoo.effects import Result
from transformer_zoo.effects import Speed
from transformer_zoo.errors import UserError


@gin.register(module="fake")
class FakeLinear(nn.Module):
  features: int = 8
  use_bias: bool = False
  axes: tuple[int, ...] = (-1,)


@gin.register(module="fake")
class FakeLayer(nn.Module):
  num_heads: int
  attention: nn.Module = FakeLinear()
  mlp: nn.Module | None = None
  activation: Callable = nn.relu
  rate: float = 0.0


@gin.register(module="fake")
@dataclasses.dataclass(frozen=True)
class FakeModel:
  encoder: nn.Module
  decoder: nn.Module | None = None
  name: str = "model"


@gin.register(module="fake")
@dataclasses.dataclass(frozen=True)
class FakeLayout:
  devices: int = 1
  folder: Result[str | None] = None
  trace: Place[str | None] = None


@gin.register(module="fake")
def fake_gelu(x):
  return x


@gin.register(module="fake")
def fake_schedule(peak: float = 1.0) -> Callable:
  return lambda step: peak


@gin.register(module="fake")
def fake_train(
  model: FakeModel,
  total_steps: int,
  schedule: Callable = lambda step: 1.0,
  lengths: dict[str, int] | None = None,
  folder: Place[str] = "runs",
  layout: Speed[FakeLayout | None] = None,
):
  return model, total_steps, schedule(0), lengths, folder


@gin.register(module="fake")
def fake_refuse(reason: str = "no"):
  raise UserError(reason)


@gin.register("fake_twin", module="one")
def twin_one(x=1):
  return x


@gin.register("fake_twin", module="two")
def twin_two(x=1):
  return x


@gin.register(module="fake")
def fake_count(texts, by: int = 1):
  return len(texts) * by


@gin.register(module="fake")
def fake_infer(beams: int = 1):
  return beams


BASE = """
TRAIN_STEPS = %gin.REQUIRED
HEADS = 2
MODEL_DIR = 'runs/a'
MODEL = @FakeModel()
fake_train:
  model = %MODEL
  total_steps = %TRAIN_STEPS
  folder = %MODEL_DIR
FakeModel.encoder = @encoder/FakeLayer()
FakeModel.decoder = @decoder/FakeLayer()
FakeLayer.num_heads = %HEADS
FakeLayer.attention = @FakeLinear()
encoder/FakeLinear.features = 16
"""


@pytest.fixture(autouse=True)
def fakes_only(monkeypatch, tmp_path):
  monkeypatch.setattr(registry, "ROOMS", ())
  monkeypatch.setattr(config, "ROOTS", ("fake_train", "fake_infer"))
  monkeypatch.chdir(tmp_path)
  (tmp_path / "base.gin").write_text(BASE)
  yield
  gin.clear_config()


def load(text="", *overrides, steps=True, root="fake_train", **keywords):
  with open("run.gin", "w") as file:
    file.write("include 'base.gin'\n" + text)
  given = (["TRAIN_STEPS=5"] if steps else []) + list(overrides)
  config.load(["run.gin"], given, root=root, **keywords)


def refusal(*arguments, **keywords) -> str:
  with pytest.raises(UserError) as caught:
    load(*arguments, **keywords)
  sentence = str(caught.value)
  assert "\n" not in sentence
  return sentence


class TestLoad:
  def test_calls_the_root_with_what_is_bound(self):
    load("fake_train.lengths = {'inputs': 8}")
    model, steps, rate, lengths, folder = config.call("fake_train")
    assert (steps, rate, lengths, folder) == (5, 1.0, {"inputs": 8}, "runs/a")
    assert model.encoder.attention.features == 16
    assert model.decoder.attention.features == 8

  def test_an_override_wins_over_files_and_a_file_over_its_includes(self):
    load("HEADS = 3")
    assert config.call("fake_train")[0].encoder.num_heads == 3
    load("HEADS = 3", "encoder/FakeLayer.num_heads=4")
    assert config.call("fake_train")[0].encoder.num_heads == 4

  def test_replaces_what_was_loaded_before(self):
    load("HEADS = 3")
    load()
    assert config.call("fake_train")[0].encoder.num_heads == 2

  def test_given_folders_come_first(self, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "base.gin").write_text(BASE.replace("= 2", "= 7"))
    load(search_paths=["mine"])
    assert config.call("fake_train")[0].encoder.num_heads == 7

  def test_value_builds_a_macro(self):
    load(steps=False, root="MODEL")
    assert isinstance(config.value("MODEL"), FakeModel)

  def test_another_configuration_is_built_beside_the_loaded_one(self):
    load("HEADS = 3", "TRAIN_STEPS=7")
    before = config.operative_config()
    other = config.build("MODEL", ["base.gin"], ["HEADS=5"])
    assert other.encoder.num_heads == 5
    with pytest.raises(UserError, match="HEDS"):
      config.build("MODEL", ["base.gin"], ["HEDS=5"])
    assert config.operative_config() == before
    model, steps, *_ = config.call("fake_train")
    assert (model.encoder.num_heads, steps) == (3, 7)

  def test_defaults_are_for_what_nothing_else_binds(self):
    load("", defaults=["HEADS=7", "FakeLayer.rate=0.25", "FakeLinear.axes=()"])
    encoder = config.call("fake_train")[0].encoder
    assert (encoder.num_heads, encoder.rate) == (2, 0.25)

  def test_a_default_may_be_used_by_nothing(self):
    load("", defaults=["WHATEVER=7", "fake_infer.beams=2"])
    load("", "HEADS=3", defaults=["HEADS=7"])

  def test_a_macro_is_built_with_overrides_that_it_does_not_read(self):
    overrides = ["HEADS=3", "WHATEVER=7"]
    found = config.build("MODEL", ["base.gin"], overrides, allow_unused=True)
    assert found.decoder.num_heads == 3
    with pytest.raises(UserError, match="WHATEVER"):
      config.build("MODEL", ["base.gin"], overrides)

  def test_what_files_bind_and_where(self, tmp_path):
    (tmp_path / "run.gin").write_text("include 'base.gin'\nHEADS = 3\n")
    found = config.bound(["run.gin"])
    assert found["HEADS"] == "run.gin:2"
    assert found["encoder/FakeLinear.features"] == "base.gin:14"
    assert "WHATEVER" not in found
    (tmp_path / "wrap.gin").write_text(
      "MODEL = @FakeLayer()\nFakeLayer.attention = %previous/MODEL\n"
    )
    assert config.bound(["wrap.gin"]).keys() == {"FakeLayer.attention"}
    assert config.bound(["base.gin", "wrap.gin"])["MODEL"].startswith("base")

  def test_a_swapped_part_leaves_no_unused_binding(self):
    load("FakeLayer.attention = @FakeLayer()\nFakeLayer.rate = 0.1")

  def test_a_file_may_configure_another_kind_of_run(self):
    load("fake_infer.beams = 4")

  def test_a_bare_word_is_a_string_with_a_note(self, capsys):
    load("", "MODEL_DIR=/tmp/x")
    assert config.call("fake_train")[4] == "/tmp/x"
    note = capsys.readouterr().err
    assert note == (
      "zoo: note: took /tmp/x as a string; gin wants "
      "--gin.MODEL_DIR=\"'/tmp/x'\"\n"
    )


class TestRefusals:
  def test_unknown_configurable(self):
    assert refusal("FakeLinea.features = 3").startswith(
      "run.gin:2: no configurable is called 'FakeLinea'; did you mean "
      "'FakeLinear', "
    )

  def test_unknown_reference(self):
    assert refusal("FakeModel.encoder = @FakeLayr()").startswith(
      "run.gin:2: no configurable is called 'FakeLayr'; did you mean "
      "'FakeLayer'"
    )

  def test_a_name_that_means_several(self):
    assert refusal("fake_twin.x = 3") == (
      "run.gin:2: 'fake_twin' may mean one.fake_twin or two.fake_twin"
    )
    assert "Ambiguous selector 'fake_twin'" in refusal(
      "fake_train.schedule = @fake_twin"
    )

  def test_unknown_parameter(self):
    assert refusal("FakeLinear.featurs = 3") == (
      "run.gin:2: FakeLinear has no parameter 'featurs'; did you mean "
      "'features'?"
    )

  def test_flax_fields_are_no_parameters(self):
    assert "no parameter 'name'" in refusal("FakeLinear.name = 'x'")
    load("FakeModel.name = 'x'")

  def test_unknown_macro_in_a_file(self):
    assert refusal("fake_train.total_steps = %TRAIN_STEP") == (
      "run.gin:2: fake_train.total_steps reads the macro 'TRAIN_STEP', which "
      "nothing defines: set it with --gin.TRAIN_STEP=...; did you mean "
      "'TRAIN_STEPS'?"
    )

  def test_unknown_macro_on_the_command_line(self):
    assert refusal("", "TRAIN_STEP=3") == (
      "--gin.TRAIN_STEP: the macro 'TRAIN_STEP' is used by nothing that "
      "'fake_train' reads; did you mean 'TRAIN_STEPS'?"
    )

  def test_a_binding_that_nothing_uses(self):
    assert refusal("fake_schedule.peak = 0.1").startswith(
      "run.gin:2: the binding 'fake_schedule.peak' is used by nothing that "
      "'fake_train' reads"
    )

  def test_a_scope_that_nothing_uses(self):
    assert refusal("encodr/FakeLinear.features = 3") == (
      "run.gin:2: the binding 'encodr/FakeLinear.features' is used by nothing "
      "that 'fake_train' reads; did you mean 'encoder/FakeLinear.features'?"
    )

  def test_an_override_for_another_kind_of_run(self):
    assert "'fake_infer.beams' is used by nothing" in refusal(
      "", "fake_infer.beams=4"
    )

  def test_a_model_is_looked_at_with_the_overrides_of_a_run(self):
    load("", "TRAIN_STEPS=3", "HEADS=4", root="MODEL")
    assert refusal("", "HEAD=4", root="MODEL") == (
      "--gin.HEAD: the macro 'HEAD' is used by nothing that 'MODEL' reads; did "
      "you mean 'HEADS'?"
    )

  def test_no_model(self):
    assert refusal(root="MODELL") == (
      "the command reads the macro 'MODELL', which nothing defines: set it "
      "with --gin.MODELL=...; did you mean 'MODEL', 'MODEL_DIR'?"
    )

  def test_missing_include(self):
    sentence = refusal("include 'parts/rope.gin'")
    assert sentence.startswith(
      "run.gin:2 includes 'parts/rope.gin', which is in none of the folders ., "
    )

  def test_include_of_another_kind_of_file(self):
    """No line of a file that is no gin file is shown to anybody."""
    assert refusal("include '/etc/hostname'") == (
      "run.gin:2 includes '/etc/hostname', which is no gin file: the names of "
      "gin files end in .gin"
    )

  def test_missing_file(self):
    with pytest.raises(UserError, match="--gin_file names 'no.gin', which is"):
      config.load(["no.gin"])

  def test_include_of_itself(self):
    assert refusal("include 'run.gin'") == (
      "run.gin:2 includes 'run.gin', which includes it in turn"
    )

  def test_syntax_error(self):
    assert refusal("HEADS 3").startswith("run.gin:2: ")
    assert refusal("include base") == (
      "run.gin:2: A bare word stands where a value is expected; quote a "
      "string, in the line 'include base'"
    )
    assert refusal("HEADS = (3").endswith("is opened and never closed")
    assert refusal("HEADS = " + "[" * 2000 + "]" * 2000) == (
      "run.gin: brackets are nested too deeply; no value is that deep"
    )

  @pytest.mark.parametrize(
    "value", ["'a\\0b'", "['a', ('b', 'c\\0')]", "{'a': {'\\0': 1}}"]
  )
  def test_nul_characters(self, value):
    sentence = "a text has a NUL character, which no path and no name holds"
    assert refusal(f"HEADS = {value}").startswith(f"run.gin:2: {sentence}")
    assert refusal("", f"HEADS={value}").startswith(f"--gin.HEADS: {sentence}")

  def test_missing_module(self):
    assert refusal("import no_such_module").startswith(
      "run.gin:2: cannot import 'no_such_module'"
    )

  def test_dynamic_registration(self):
    assert "dynamic registration is not supported" in refusal(
      "from __gin__ import dynamic_registration"
    )

  def test_required_macro(self):
    assert refusal(steps=False) == (
      "TRAIN_STEPS is required (base.gin:2): set it with --gin.TRAIN_STEPS=..."
    )

  def test_required_parameter(self):
    with pytest.raises(UserError) as caught:
      config.load([], ["fake_train.total_steps=3"], root="fake_train")
    assert str(caught.value) == (
      "fake_train.model is required: set it with --gin.fake_train.model=..."
    )

  def test_what_the_caller_gives_is_not_required(self):
    config.load([], ["fake_count.by=2"], root="fake_count", given=["texts"])
    assert config.call("fake_count", texts=["a", "b"]) == 4

  def test_override_without_value(self):
    assert refusal("", "HEADS") == (
      "--gin.HEADS is no binding: write --gin.NAME=VALUE"
    )

  def test_override_that_does_not_parse(self):
    assert refusal("", "HEADS=@Fake(").startswith(
      "--gin.HEADS has the value @Fake(, which gin cannot read; a string is "
      "quoted twice"
    )

  def test_macros_in_a_circle(self):
    assert refusal("HEADS = %MORE\nMORE = %HEADS") == (
      "macros refer to each other in a circle"
    )

  def test_a_call_keeps_the_sentence(self):
    config.load([], ["fake_refuse.reason='bad mesh'"], root="fake_refuse")
    with pytest.raises(UserError) as caught:
      config.call("fake_refuse")
    assert str(caught.value) == "bad mesh"


@pytest.mark.parametrize(
  "text, expected",
  [
    ("FakeLayer.num_heads = '2'", "must be int and is '2', a str"),
    ("FakeLayer.num_heads = 2.0", "must be int and is 2.0, a float"),
    ("FakeLayer.num_heads = True", "must be int and is True, a bool"),
    ("FakeLayer.num_heads = None", "must be int and is None"),
    ("FakeLayer.rate = 'x'", "must be float and is 'x', a str"),
    ("FakeLinear.use_bias = 1", "must be bool and is 1, an int"),
    ("FakeLinear.axes = [1]", "must be tuple[int, ...] and is [1], a list"),
    ("FakeLinear.axes = ('a',)", "must be tuple[int, ...] and is ('a',)"),
    (
      "FakeLayer.activation = 'gelu'",
      "must be a function (@name) and is 'gelu', a str",
    ),
    (
      "FakeLayer.activation = @FakeLinear()",
      "must be a function (@name) and is @FakeLinear()",
    ),
    (
      "FakeLayer.mlp = 3",
      "must be a Module (@name()) or None and is 3, an int",
    ),
    (
      "FakeLayer.mlp = @FakeLinear",
      "must be a Module (@name()) or None and is @FakeLinear",
    ),
    (
      "FakeLayer.mlp = @FakeModel()",
      "must be a Module (@name()) or None and is @FakeModel()",
    ),
    ("FakeLayer.num_heads = @FakeLinear()", "must be int and is @FakeLinear()"),
    ("fake_train.lengths = {'a': 'b'}", "must be dict[str, int] or None"),
    ("fake_train.folder = 3", "must be str and is 3, an int"),
  ],
)
def test_a_value_of_the_wrong_type(text, expected):
  sentence = refusal(text)
  assert sentence.startswith(f"run.gin:2: {text.split(' ')[0]} {expected}")


def test_a_wrong_type_through_a_macro():
  assert refusal("HEADS = '2'") == (
    "run.gin:2: FakeLayer.num_heads must be int and is '2', a str through the "
    "macro 'HEADS'"
  )


@pytest.mark.parametrize(
  "text",
  [
    "FakeLayer.rate = 1",
    "FakeLayer.mlp = None",
    "FakeLayer.mlp = @FakeLinear()",
    "FakeLayer.activation = @fake_gelu",
    "fake_train.schedule = @fake_schedule()",
    "fake_train.schedule = @fake_schedule()\nfake_schedule.peak = 2",
    "FakeLinear.axes = (1, 2)",
    "fake_train.lengths = {'a': %HEADS}",
  ],
)
def test_a_value_of_the_right_type(text):
  load(text)
  config.call("fake_train")


class TestOperativeConfig:
  def test_holds_what_is_reached_and_loads_again(self, tmp_path):
    load("fake_infer.beams = 4\nFakeLinear.axes = (1,)")
    text = config.operative_config()
    assert "beams" not in text
    assert "TRAIN_STEPS = 5\n" in text
    assert "\nFakeModel.encoder = @encoder/FakeLayer()\n" in text
    assert "# encoder/FakeLayer.rate = 0.0\n" in text
    (tmp_path / "config.gin").write_text(text)
    before = config.config_hash(), config.call("fake_train")[0]
    config.load(["config.gin"], root="fake_train")
    assert config.operative_config() == text
    assert (config.config_hash(), config.call("fake_train")[0]) == before

  def test_keeps_the_imports_of_a_users_own_parts(self, tmp_path):
    load("import json.tool")
    text = config.operative_config()
    assert text.startswith("import json.tool\n\n")
    (tmp_path / "config.gin").write_text(text)
    config.load(["config.gin"], root="fake_train")
    assert config.operative_config() == text

  def test_the_hash_ignores_places(self):
    load()
    before = config.config_hash()
    load("", "MODEL_DIR='elsewhere'")
    assert config.config_hash() == before
    load("", "HEADS=4")
    assert config.config_hash() != before

  def test_difference_names_what_differs(self):
    load("FakeLinear.axes = (1,)")
    old = config.operative_config()
    load("", "HEADS=4", "MODEL_DIR='elsewhere'")
    assert config.difference(old, config.operative_config()) == (
      "FakeLinear.axes was (1,) and is unset, HEADS was 2 and is 4"
    )
    assert config.difference(old, old) == ""

  def test_an_unmarked_parameter_affects_what_leads_to_it(self):
    old = (
      "DEVICES = 1\nHEADS = 2\n\nFakeLayout.devices = %DEVICES\n"
      "fake_train.layout = @FakeLayout()\n"
    )
    new = (
      "DEVICES = 4\nHEADS = 3\n\nFakeLayout.devices = %DEVICES\n"
      "fake_train.layout = @FakeLayout()\n"
    )
    assert config.difference(old, new, layout=False) == "HEADS was 2 and is 3"
    assert config.difference(old, new, layout=True) == "DEVICES was 1 and is 4"
    assert config.difference(old, new) == (
      "DEVICES was 1 and is 4, HEADS was 2 and is 3"
    )

  def test_a_mark_of_its_own_counts(self):
    layout = "fake_train.layout = @FakeLayout()\n"
    new = layout + "FakeLayout.folder = 'there'\nFakeLayout.trace = '1:2'\n"
    assert config.difference(layout, new, layout=True) == ""
    assert config.difference(layout, new) == (
      "FakeLayout.folder was unset and is 'there'"
    )

  def test_the_strongest_reader_of_a_macro_counts(self):
    readers = "fake_train.folder = %NAME\nFakeModel.name = %NAME\n"
    old, new = f"NAME = 'a'\n{readers}", f"NAME = 'b'\n{readers}"
    assert config.difference(old, new) == "NAME was 'a' and is 'b'"
    place = "fake_train.folder = %NAME\n"
    assert (
      config.difference(f"NAME = 'a'\n{place}", f"NAME = 'b'\n{place}") == ""
    )

  def test_a_default_that_is_bound_does_not_differ(self):
    old = "FakeModel.name = 'model'\n\n# FakeLinear.features = 8\n"
    new = (
      "WIDTH = 8\n\nFakeLinear.features = %WIDTH\nFakeModel.name = 'model'\n"
    )
    assert config.difference(old, new) == ""
    assert config.difference(old, new.replace("8", "9")) == (
      "FakeLinear.features was unset and is %WIDTH"
    )

  def test_the_bindings_of_some_parameters(self):
    load("FakeLayout.devices = 3\nfake_train.layout = @FakeLayout()")
    text = config.text_of("fake_train", ["layout", "folder"])
    assert "FakeLayout.devices = 3" in text and "FakeModel" not in text
    assert "fake_train.folder" not in text.partition("# Defaults")[0]
