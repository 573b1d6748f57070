"""Several tasks with a head each: whose examples move what, and how much."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from tests import few_examples
from tests import programs
from tests import tiny_models
import transformer_zoo as zoo
from transformer_zoo.cli import main as cli
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data.features import converters
from transformer_zoo.data.features import forms
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import UserError
from transformer_zoo.modules.heads import ClassLogits
from transformer_zoo.modules.linear import Linear
from transformer_zoo.objectives import encoder
from transformer_zoo.objectives import terms
from transformer_zoo.runs import inputs
from transformer_zoo.training import step as step_lib

BYTES = Vocabulary("bytes")
HEADS = {"colour": "classes", "size": "number", "next": "choices"}
LOSSES = {
  "colour": encoder.ClassLoss(),
  "size": encoder.NumberLoss(),
  "next": encoder.ChoiceLoss(),
}
CONVERTER = converters.Encoder(form="heads", heads=HEADS, predicted_share=1.0)
# The task of each row, and its label.
ROWS = [
  ("size", 2.5),
  ("colour", 1),
  ("next", 1),
  ("colour", 2),
  ("size", -1.0),
]
KEY = jax.random.key(0)


def batch_of(rows, converter=CONVERTER):
  """Rows in the form of their tasks, as `FormSource` makes them."""
  made = []
  for task, label in rows:
    number = ROWS.index((task, label))
    form = forms.of_task(
      {"form": HEADS[task], "most": 2}, BYTES, 24, separators=1
    )
    first = np.arange(5, 8 + number, dtype=np.int32)
    second = np.array([20, 21, 22 + number], np.int32)
    text = {"label": label, "second_lengths": [1, 2], "choices": ["a", "b"]}
    row, _ = form({"first": first, "second": second}, text, 0)
    row.setdefault("segment_lengths", np.array([len(row["inputs"])], np.int32))
    row["heads"] = np.full(
      len(row["inputs"]), sorted(HEADS).index(task), np.int32
    )
    made.append(row)
  examples = {name: Ragged.of([row[name] for row in made]) for name in made[0]}
  return converter(
    examples,
    np.arange(len(made)),
    num_rows=len(made) + 1,  # One is padding.
    lengths={"inputs": 24},
    packing=False,
    pad_id=BYTES.pad_id,
  )


@functools.cache
def model_and_params():
  head = functools.partial(
    ClassLogits, out=Linear(kernel_axes=("embed", None), use_bias=True)
  )
  model, _ = tiny_models.build("bert", VOCAB_SIZE=384)
  parts = {name: head(num_classes=n) for name, n in
           (("colour", 3), ("size", 1), ("next", 1))}  # fmt: skip
  model = tiny_models.shallow(
    model.clone(heads=model.heads.clone(parts=parts, auxiliary={}))
  )
  return model, tiny_models.random_parameters(model)


@functools.cache
def found():
  """What is asked of the objective, in one program."""
  model, params = model_and_params()
  objective = functools.partial(encoder.MultiTaskObjective(LOSSES), model)
  batch = batch_of(ROWS)
  gradients = functools.partial(step_lib.gradients_of, objective)

  def compute(params, batch, alone):
    return {
      "terms": objective(params, batch),
      "alone": {
        task: encoder.EncoderObjective([loss])(model, params, rows)
        for task, (loss, rows) in alone.items()
      },
      "whole": gradients(params, batch, KEY, num_microbatches=1),
      "parts": gradients(params, batch, KEY, num_microbatches=2),
      "of_size": jax.grad(
        lambda p: terms.loss(objective(p, batch_without_others, KEY))
      )(params),
    }

  batch_without_others = batch_of([row for row in ROWS if row[0] == "size"])
  model_of_one = {
    task: (
      encoder.MultiTaskObjective({task: loss})._by_head()[task],
      batch_of([row for row in ROWS if row[0] == task]),
    )
    for task, loss in LOSSES.items()
  }
  return programs.run(
    lambda params, batch: compute(params, batch, model_of_one), params, batch
  )


def test_each_example_counts_the_same_by_the_head_of_its_task():
  values = found()
  of_tasks = values["terms"]
  total = weight = 0.0
  for task in LOSSES:
    (alone,) = values["alone"][task].values()
    np.testing.assert_allclose(of_tasks[task].total, alone.total, rtol=1e-5)
    assert (
      of_tasks[task].weight
      == alone.weight
      == sum(name == task for name, _ in ROWS)
    )
    total, weight = total + alone.total, weight + alone.weight
  assert weight == len(ROWS)
  np.testing.assert_allclose(terms.loss(of_tasks), total / weight, rtol=1e-5)


def test_microbatches_change_nothing():
  values = found()
  mine, expected = map(jax.tree.leaves, (values["parts"], values["whole"]))
  # The gradient of a bias of keys is rounding: the scale is that of all.
  scale = max(np.abs(leaf).max() for leaf in expected)
  for leaf, right in zip(mine, expected, strict=True):
    np.testing.assert_allclose(leaf, right, rtol=2e-4, atol=1e-6 * scale)


def test_an_example_moves_the_head_of_its_task_alone():
  moved = {
    task: max(np.abs(leaf).max() for leaf in jax.tree.leaves(gradient))
    for task, gradient in found()["of_size"]["heads"].items()
  }
  assert moved.pop("size") > 0 and not any(moved.values())


@pytest.mark.parametrize(
  ("settings", "message"),
  [
    ({"heads": {"a": "verse"}}, "has the form 'verse' for 'a'"),
    ({"heads": {}}, "name the form of each task"),
    ({"form": "classes"}, "name the form of each task for 'heads', and none"),
  ],
)
def test_heads_and_their_forms_are_named_together(settings, message):
  with pytest.raises(UserError, match=message):
    converters.Encoder(**{"form": "heads", "heads": HEADS, **settings})


def test_heads_losses_and_forms_have_to_be_of_the_same_tasks():
  """Numbers of tasks follow from their names: none may be missing."""
  model, _ = model_and_params()
  inputs.check_converter(model, CONVERTER)
  encoder.MultiTaskObjective(LOSSES).check(model)
  with pytest.raises(UserError, match="the model has no head 'taste'"):
    encoder.MultiTaskObjective({"taste": encoder.ClassLoss()}).check(model)
  few = {task: LOSSES[task] for task in ("colour", "size")}
  with pytest.raises(UserError, match="has the head 'next', and MultiTaskObj"):
    encoder.MultiTaskObjective(few).check(model)
  with pytest.raises(UserError, match="has the heads colour, next, size, and"):
    inputs.check_converter(
      model, dataclasses.replace(CONVERTER, heads={"colour": "classes"})
    )


@pytest.mark.slow
def test_a_run_is_scored_and_asked_task_by_task(tmp_path, capsys):
  pytest.importorskip("seqio")
  run, prepared = str(tmp_path / "run"), str(tmp_path / "prepared")
  where = f"--gin.PREPARED_DIR={prepared!r}"
  steps = ("TRAIN_STEPS=4", "WARMUP_STEPS=1", "CHECKPOINT_PERIOD=4")
  sizes = ("EVAL_PERIOD=4", "NUM_ENCODER_LAYERS=1", "EMBED_DIM=32")
  with few_examples.only_few():
    words = ["train", "--gin_file=runs/miniature_mt_dnn.gin", where]
    words += [f"--gin.{each}" for each in (*steps, *sizes)]
    assert cli.main([*words, f"--gin.MODEL_DIR={run!r}"]) == 0
    text = capsys.readouterr().out
    for task in ("mini_cola", "mini_stsb", "mini_nli"):
      assert f"\n  {task} " in text
    words = ["evaluate", f"--checkpoint={run}", where]
    assert cli.main([*words, "--mixture=mini_stsb"]) == 0
    assert "mini_stsb" in capsys.readouterr().out
    words = ["infer", f"--checkpoint={run}", where, "a\tb"]
    assert cli.main(words) == 2
    assert "choose one: --gin.infer.task=" in capsys.readouterr().err
    assert cli.main([*words, "--gin.infer.task='mini_nli'"]) == 0
    assert "contradiction" in capsys.readouterr().out
  assert zoo.load(run).embed("a").shape == (32,)
