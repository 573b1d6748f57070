"""Lines that runs log about their input before they start."""

import dataclasses
import types

import pytest

from tests import few_examples
from tests import tiny_models
from tests.corruption import vocabulary as vocabularies
from transformer_zoo import corruption
from transformer_zoo.corruption import Denoising
from transformer_zoo.corruption import Iid
from transformer_zoo.corruption import MaskedLanguageModel
from transformer_zoo.corruption import SpanCorruption
from transformer_zoo.data.features import converters
from transformer_zoo.errors import UserError
from transformer_zoo.runs import inputs

VOCABULARY = vocabularies.t5(100, 32100)
# Raffel et al. 2020, table 6: a third of the targets is cut.
PUBLISHED = {"inputs": 512, "targets": 103}


def _task(name, objective):
  return types.SimpleNamespace(
    name=name,
    kind="tokens",
    corruption=corruption.to_spec(objective),
    vocabulary=VOCABULARY,
  )


def test_cut_targets_are_told():
  tasks = [
    _task("tenth", Denoising(Iid(0.1))),
    types.SimpleNamespace(name="supervised", kind="examples"),
    _task("spans", SpanCorruption(0.1)),
  ]
  (line,) = inputs.describe_cuts(tasks, PUBLISHED, None)
  told, rest = line.split("%")
  assert told.startswith("train of tenth: about 3")
  assert 30 < float(told.split()[-1]) < 40
  assert rest == (
    " of the examples are longer than {'inputs': 512, 'targets': 103} and lose "
    "their end"
  )


def test_a_corruption_of_the_run_counts():
  tasks = [_task("tenth", Denoising(Iid(0.1)))]
  assert not inputs.describe_cuts(tasks, PUBLISHED, SpanCorruption(0.1))
  assert not inputs.describe_cuts(tasks, PUBLISHED, MaskedLanguageModel())


def test_padding_of_another_vocabulary_is_refused():
  model, _ = tiny_models.build("t5_1_1", VOCAB_SIZE=300)
  vocabulary = types.SimpleNamespace(size=300, pad_id=1, eos_id=2)
  with pytest.raises(
    UserError,
    match="'x' pads with id 1 but the model takes 0 for padding; set "
    "EncoderDecoder.pad_id to 1",
  ):
    inputs.check_vocabulary(model, vocabulary, "task 'x'")
  inputs.check_vocabulary(model.clone(pad_id=1), vocabulary, "task 'x'")


def test_no_encoder_is_told_to_pad_with_the_end():
  model, _ = tiny_models.build("t5_1_1", VOCAB_SIZE=300)
  vocabulary = types.SimpleNamespace(size=300, pad_id=2, eos_id=2)
  with pytest.raises(UserError) as error:
    inputs.check_vocabulary(model.clone(pad_id=1), vocabulary, "task 'x'")
  assert str(error.value) == (
    "the vocabulary of task 'x' pads with id 2 but the model takes 1 for "
    "padding; that is its EOS, which an encoder would not see: name the piece "
    "of id 1 as pad_token in a tokenizer_config.json beside its files"
  )
  model, _ = tiny_models.build("lm", VOCAB_SIZE=300)
  with pytest.raises(UserError, match="set DecoderOnly.pad_id to 2$"):
    inputs.check_vocabulary(model.clone(pad_id=1), vocabulary, "task 'x'")


def test_a_language_model_tells_what_inputs_it_leaves_out(capsys):
  model, alone = tiny_models.build("lm")
  task = types.SimpleNamespace(
    name="sst2",
    scoring=object(),
    features=("inputs", "targets"),
    form=None,
    vocabulary=types.SimpleNamespace(size=8, pad_id=0, eos_id=1),
  )
  mixture = types.SimpleNamespace(tasks=[task])
  inputs.check_mixture(model, mixture, alone)
  assert capsys.readouterr().out == (
    "train of sst2: its inputs are left out, as CONVERTER has it; CONVERTER = "
    "@PrefixLanguageModelFeatures() learns its targets after them\n"
  )
  inputs.check_mixture(model, mixture)  # In evaluation they are read.
  inputs.check_mixture(model, mixture, converters.PrefixLanguageModel())
  task.scoring = None  # Text.
  inputs.check_mixture(model, mixture, alone)
  assert not capsys.readouterr().out


@pytest.mark.slow
def test_a_form_is_read_under_the_name_of_its_task(tmp_path):
  """Scores, averages and submissions are those of the text-to-text task."""
  pytest.importorskip("seqio")
  with few_examples.only_few():
    named = [
      inputs.prepared(name, str(tmp_path), form="classes", report=print)
      for name in ("mini_mrpc", "mini_mrpc:classes")
    ]
    words = inputs.prepared("mini_mrpc", str(tmp_path), report=print)
  for mixture in named:
    assert mixture.name == "mini_mrpc"
    assert [task.name for task in mixture.tasks] == ["mini_mrpc"]
    assert mixture.tasks[0].form["form"] == "classes"
  assert inputs.identity(named[0]) == inputs.identity(named[1])
  assert inputs.identity(words) != inputs.identity(named[0])
  assert "form" not in inputs.identity(words)["mini_mrpc"]


def test_some_examples_are_prepared_where_the_split_is_not(
  tmp_path, monkeypatch
):
  """In a folder of their own: the whole split is not taken to be there."""

  def load(name, folder):
    if folder != str(tmp_path / "whole"):
      raise UserError("nothing is prepared")
    task = types.SimpleNamespace(splits={"train": None, "validation": None})
    return types.SimpleNamespace(tasks=[task])

  monkeypatch.setattr(inputs.manifest, "load", load)
  monkeypatch.setattr(inputs, "_prepared", lambda *given: given)

  def prepared(folder, split, **options):
    _, folder, _, _, first, _ = inputs.prepared(
      "task", str(folder), required_splits=[split], **options
    )
    return folder, first

  whole, empty = tmp_path / "whole", tmp_path / "empty"
  assert prepared(empty, "test") == (str(empty), None)
  assert prepared(empty, "test", first=4) == (str(empty / "first_4"), 4)
  assert prepared(whole, "test", first=4) == (str(whole / "first_4"), 4)
  assert prepared(whole, "validation", first=4) == (str(whole), None)


@pytest.mark.parametrize(
  ("rows", "kinds", "types"), [(1, False, 2), (2, True, 6)]
)
def test_more_types_of_tokens_than_rows_are_refused(rows, kinds, types):
  model, converter = tiny_models.build(
    "bert", bindings=(f"TokenTypeEmbed.num_types={rows}",)
  )
  converter = dataclasses.replace(converter, attention_kinds=kinds)
  with pytest.raises(UserError) as error:
    inputs.check_converter(model, converter)
  assert str(error.value) == (
    f"the converter lays out {types} types of tokens but TokenTypeEmbed has "
    f"{rows} rows; set TokenTypeEmbed.num_types to {types}, or "
    "EncoderFeatures.token_types to False"
  )
  inputs.check_converter(
    model, dataclasses.replace(converter, token_types=False)
  )


@pytest.mark.parametrize("kind", ["classes", "tags"])
def test_a_head_with_another_number_of_classes_is_refused(kind):
  names = ["O", "B-PER", "I-PER"]
  task = types.SimpleNamespace(
    name="x",
    scoring=None,
    form={"form": kind, kind: names},
    vocabulary=types.SimpleNamespace(size=300, pad_id=0, eos_id=2),
  )
  mixture = types.SimpleNamespace(tasks=[task])
  model = types.SimpleNamespace(
    token_embedder=types.SimpleNamespace(num_embeddings=300),
    pad_id=0,
    offers=types.SimpleNamespace(
      heads={kind: types.SimpleNamespace(num_classes=2)}
    ),
  )
  with pytest.raises(UserError) as error:
    inputs.check_mixture(model, mixture)
  assert str(error.value) == (
    f"task 'x' has the 3 {kind} O, B-PER, I-PER but the head {kind!r} of the "
    "model has 2; set NUM_CLASSES to 3"
  )
  model.offers.heads[kind].num_classes = 3
  inputs.check_mixture(model, mixture)
  model.offers.heads = {"tokens": None}  # an objective refuses it
  inputs.check_mixture(model, mixture)


def test_ids_of_unilm_are_those_of_the_vocabulary():
  model, converter = tiny_models.build("unilm", VOCAB_SIZE=300)
  unified = converters.Unified(bos_id=101)
  vocabulary = types.SimpleNamespace(
    size=300, pad_id=0, eos_id=1, extra_ids=20, mask_id=299, cls_id=None
  )
  task = types.SimpleNamespace(
    name="x",
    scoring=None,
    features=("inputs", "targets"),
    form=None,
    vocabulary=vocabulary,
  )
  mixture = types.SimpleNamespace(tasks=[task])
  with pytest.raises(UserError, match="bos_id is 101, which is no .CLS.*None"):
    inputs.check_mixture(model, mixture, unified)
  written = converters.Unified()
  with pytest.raises(UserError, match="mask_id is 103, which is no .*to 299"):
    inputs.check_mixture(model, mixture, written)
  inputs.check_mixture(
    model, mixture, converter
  )  # Of text that is not written.
  model = model.clone(mask_id=299)
  for first in (None, 280):
    inputs.check_mixture(model, mixture, converters.Unified(bos_id=first))
  vocabulary.cls_id = 101
  inputs.check_mixture(model, mixture, unified)
