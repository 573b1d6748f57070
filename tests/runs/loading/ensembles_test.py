"""Checkpoints that answer together, and their models."""

import pathlib
import types

import pytest

from tests import tiny_models
from transformer_zoo.checkpoints import checkpoint_sources
from transformer_zoo.checkpoints.checkpoint_sources import Source
from transformer_zoo.errors import UserError
from transformer_zoo.runs.loading import ensembles

A, B, C = map(pathlib.Path, "abc")
T5, _ = tiny_models.build("t5_1_1")
WIDER, _ = tiny_models.build("t5_1_1", MLP_DIM=72)
RELU, _ = tiny_models.build("t5_1_1", "feed_forward/reglu.gin")


def vocabulary(path, *ids):
  return types.SimpleNamespace(path=path, encode=lambda text: [*ids])


@pytest.fixture
def of(monkeypatch):
  """Returns a function: model, models and vocabularies of checkpoints."""

  def make(model, models, vocabularies=(None,) * 3, starts=(None,) * 3):
    sources = {
      path: Source(
        path,
        f"the checkpoint {str(path)!r}",
        {},
        make_model=lambda own=own: own,
        find_vocabulary=lambda found=found: found,
        of_a_run=True,
        find_start_id=lambda start=start: start,
      )
      for path, own, found, start in zip(
        (A, B, C), models, vocabularies, starts, strict=False
      )
    }
    monkeypatch.setattr(checkpoint_sources, "open_source", sources.get)
    return ensembles.model_of(model, tuple(sources))

  return make


def test_one_checkpoint_is_no_ensemble():
  assert ensembles.model_of(T5, (A,)) is T5


def test_members_that_are_alike_are_computed_by_the_model_of_the_call(of):
  """So what a call changes, it changes in all of them."""
  changed = T5.clone(pad_id=3)
  found = of(changed, [T5, T5.clone(), None])
  assert found.members == (changed,) * 3


@pytest.mark.parametrize("other", [WIDER, RELU], ids=["size", "activation"])
def test_another_model_is_computed_by_its_own(of, other):
  assert of(T5, [T5, other, T5]).members == (T5, other, T5)


def test_one_vocabulary_in_two_files_is_one(of):
  found = of(T5, [T5] * 3, [vocabulary("x", 5, 6), None, vocabulary("y", 5, 6)])
  assert len(found.members) == 3


def refused(*arguments):
  with pytest.raises(UserError) as caught:
    arguments[0](*arguments[1:])
  return str(caught.value)


def test_other_vocabularies_are_refused(of):
  told = [None, vocabulary("x", 5, 6), vocabulary("y", 5, 7)]
  assert refused(of, T5, [T5] * 3, told) == (
    "the checkpoint 'c' has the vocabulary 'y' and the checkpoint 'b' 'x', "
    "whose ids are others; the members of an ensemble have one vocabulary"
  )
  larger, _ = tiny_models.build("t5_1_1", VOCAB_SIZE=64)
  assert refused(of, T5, [T5, larger]) == (
    "the checkpoint 'b' has logits of 64 tokens and not of 48, as the first; "
    "the members of an ensemble have one vocabulary"
  )


def test_other_first_ids_are_refused(of):
  assert refused(of, T5, [T5] * 3, [None] * 3, [2, 2, None]) == (
    "the decoder of the checkpoint 'c' was first fed id 0 and the decoder "
    "of the checkpoint 'a' id 2; the members of an ensemble read the same "
    "batches"
  )
  for same in ([2, 2, 2], [None, T5.pad_id, None]):
    assert len(of(T5, [T5] * 3, [None] * 3, same).members) == 3


def test_another_wiring_is_refused(of):
  language_model, _ = tiny_models.build("lm")
  assert refused(of, T5, [T5, language_model]) == (
    "the checkpoint 'b' is of a DecoderOnly and not of a EncoderDecoder, as "
    "the first; the members of an ensemble read the same batches"
  )


def test_other_heads_are_refused(of):
  two, three = (
    tiny_models.build("bert", "../heads/classes.gin", NUM_CLASSES=number)[0]
    for number in (2, 3)
  )
  assert refused(of, two, [two, three]) == (
    "the checkpoint 'b' has the heads classes of 3 and not classes of 2, as "
    "the first; the members of an ensemble answer alike"
  )


def test_a_checkpoint_that_is_named_twice_is_refused(monkeypatch):
  monkeypatch.setattr(checkpoint_sources, "locate", lambda path: A)
  assert refused(ensembles.locate, ["run", "run/checkpoints/4"]) == (
    "'a' is named twice; the members of an ensemble have to be different "
    "checkpoints"
  )
  assert refused(ensembles.locate, []) == "CHECKPOINT_PATH names no checkpoint"


def test_members_read_prompts_of_one_length(of):
  prompted = tiny_models.build("t5_1_1", "../peft/prompt.gin", PROMPT_LENGTH=5)[
    0
  ]
  assert of(prompted, [prompted, prompted]).members == (prompted,) * 2
  for models, read, first in (
    ([T5, prompted], 5, 0),
    ([prompted, T5], 0, 5),
  ):
    with pytest.raises(UserError) as error:
      of(models[0], models)
    assert str(error.value) == (
      f"the checkpoint 'b' reads {read} vectors of a prompt before a text and "
      f"not {first}, as the first; the members of an ensemble read the same "
      "rows"
    )
