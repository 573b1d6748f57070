"""A teacher and its student, both begun from one checkpoint."""

import re

import numpy as np
import pytest
import tokenizers
from tokenizers import models

from tests import tiny_models
from transformer_zoo.architectures.distilled import Distilled
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import UserError
from transformer_zoo.runs.loading import initial_checkpoint
from transformer_zoo.runs.loading import restoration
from transformer_zoo.training import state as state_lib


def opened(folder, **options):
  """A student of one layer, of GPT-2's shape, and what it begins with."""
  student, _ = tiny_models.build(
    "gpt_2", HEAD_DIM=6, MLP_DIM=96, NUM_DECODER_LAYERS=1
  )
  teacher = initial_checkpoint.teacher_of(str(folder))
  model = Distilled(student, teacher)
  rules = initial_checkpoint.layers_of_teacher(student, teacher, **options)
  start = initial_checkpoint.InitialCheckpoint(str(folder), renamed=rules)
  boxed = state_lib.abstract_variables(model)
  return restoration.open_initial(start, model, boxed, [Vocabulary("bytes")])


@pytest.mark.parametrize(
  ("options", "layer"),
  [({}, 1), ({"layers": (0,)}, 0), ({"fresh": True}, None)],
)
def test_a_directory_teaches(tmp_path, options, layer):
  parameters = tiny_models.write_gpt_2(tmp_path / "teacher")
  found = opened(tmp_path / "teacher", **options).assignment.tensors
  of_teacher = {n for n in found if n.startswith("teacher/")}
  assert {n.removeprefix("teacher/") for n in of_teacher} == set(parameters)
  for name, tensor in found.items():
    theirs = name.removeprefix("teacher/")
    if name not in of_teacher:
      theirs = re.sub("layers_0", f"layers_{layer}", name)
    if layer is None and name not in of_teacher:
      assert tensor is None
    else:
      np.testing.assert_array_equal(tensor.read(), parameters[theirs])


def test_a_teacher_of_another_vocabulary_is_refused(tmp_path):
  folder = tmp_path / "teacher"
  tiny_models.write_gpt_2(folder)
  pieces = {"<e>": 0, **{f"w{i}": i for i in range(1, 48)}}
  tokenizers.Tokenizer(models.WordLevel(pieces, "<e>")).save(
    str(folder / "tokenizer.json")
  )
  (folder / "tokenizer_config.json").write_text('{"eos_token": "<e>"}')
  with pytest.raises(UserError) as raised:
    opened(folder)
  assert str(raised.value) == (
    f"the Hugging Face directory {str(folder)!r} cannot teach: its vocabulary "
    f"{str(folder)!r} has other ids than 'bytes'; train on a task of its "
    "vocabulary"
  )


def test_layers_that_the_teacher_has_not_are_refused():
  student, teacher = (
    tiny_models.build("t5_1_1", NUM_ENCODER_LAYERS=n, NUM_DECODER_LAYERS=n)[0]
    for n in (1, 2)
  )
  with pytest.raises(
    UserError, match=r"layers is \(2,\); it takes 1 numbers f"
  ):
    initial_checkpoint.layers_of_teacher(student, teacher, layers=(2,))
  rules = initial_checkpoint.layers_of_teacher(student, teacher)
  assert dict(rules) == {
    r"teacher/(.*)": r"\1",
    r"encoder/layers_0/(.*)": r"encoder/layers_1/\1",
    r"decoder/layers_0/(.*)": r"decoder/layers_1/\1",
  }
