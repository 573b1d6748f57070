"""Facts edited in models of three shapes, and what else the edits change."""

import dataclasses

from flax import traverse_util
import numpy as np
import pytest

from tests import tiny_models
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.editing import interventions
from transformer_zoo.editing import mend
from transformer_zoo.editing import programs
from transformer_zoo.editing import scores
from transformer_zoo.editing.facts import Fact
from transformer_zoo.errors import UserError
from transformer_zoo.forecast import cost
from transformer_zoo.runs.analysis import costs
from transformer_zoo.runs.analysis import edit_scores
from transformer_zoo.runs.analysis.edit_scores import Edits
from transformer_zoo.runs.analysis.edit_scores import FineTuning
from transformer_zoo.runs.analysis.edit_scores import Memit
from transformer_zoo.runs.analysis.edit_scores import MendEditors
from transformer_zoo.runs.analysis.edit_scores import Rome
from transformer_zoo.runs.loading.loaded_checkpoint import LoadedCheckpoint

SHAPES = ("gpt_2", "t5_1_0", "bert")
# What is learned and scored is read from `Asked`, whatever the shape.
ONE_FAST = [
  SHAPES[0],
  *(pytest.param(shape, marks=pytest.mark.slow) for shape in SHAPES[1:]),
]
PEOPLE = ("ann", "bob", "eve", "joe")
FACTS = [
  Fact(
    prompt,
    name,
    target="c",
    true_target="ab"[number % 2],
    paraphrases=(f"it is {name}:",),
  )
  for number, name in enumerate(PEOPLE)
  for prompt in ("{} has", "{} is")
]

TEXTS = [f"{fact.question} {fact.true_target} . so it is" for fact in FACTS]


class Bytes(Vocabulary):
  """Bytes, of which one stands for the mask."""

  mask_id = 300


def opened(architecture):
  positions = {} if architecture == "t5_1_0" else {"MAX_POSITIONS": 32}
  model, _ = tiny_models.build(architecture, VOCAB_SIZE=384, **positions)
  model = interventions.looped(model)
  params = tiny_models.random_parameters(model)
  return LoadedCheckpoint(architecture, 7, model, params, Bytes("bytes"), 0)


@pytest.mark.slow
@pytest.mark.parametrize("shape", ONE_FAST)
def test_scores_are_those_of_the_edited_parameters(shape):
  found = opened(shape)
  method = FineTuning(blocks=1, learning_rate=0.02, steps=60)
  edits = Edits(FACTS, method, held_out=2, at_once=(1, 2))
  made = edits.scores(found)
  before = dataclasses.replace(edits, method=None).scores(found)
  assert before["cost"]["bytes"] == before["cost"]["flops_an_edit_1"] == 0
  assert made["cost"]["learning_flops"] == 0
  for size in ("1", "2"):
    margins = [m["scores"][size]["efficacy_margin"] for m in (before, made)]
    assert margins[0] < margins[1]
  # By hand: edit after edit, and what the others say then.
  asked = edit_scores.Asked(found, found.params)
  edit = method.editor(asked, FACTS[:-2], 0)
  kept, spared = [], []
  for fact in FACTS[-2:]:
    after = dataclasses.replace(asked, params=edit(found.params, [fact]))
    for other in FACTS:
      if other.prompt == fact.prompt and other is not fact:
        texts, said = [other.question] * 2, [other.true_target, "c"]
        _, (right, new) = scores.likelihoods(after, texts, said)
        kept.append(right)
        spared.append(not new)
  found_scores = made["scores"]["1"]
  assert found_scores["others_kept"] == pytest.approx(100 * np.mean(kept))
  assert found_scores["others_spared"] == pytest.approx(100 * np.mean(spared))
  paths = mend.last_projections(found.model, 1)
  flat = traverse_util.flatten_dict(found.params, sep="/")
  assert made["cost"]["bytes"] == sum(flat[f"{p}/kernel"].nbytes for p in paths)


def test_what_is_edited_together_is_not_to_stay(monkeypatch):
  """An editor that does what is asked, and nothing else, loses nothing."""

  facts = [
    dataclasses.replace(
      fact,
      neighbours=tuple(
        other.question
        for other in FACTS
        if other.prompt == fact.prompt
        and other.true_target == fact.true_target
        and other != fact
      ),
      essence=tuple(
        (other.question, other.true_target)
        for other in FACTS
        if other.subject == fact.subject and other != fact
      ),
    )
    for fact in FACTS
  ]

  class Obedient:
    def editor(self, asked, learned, seed):
      return lambda params, some: {
        "edited": np.array([1.0 if fact in some else 0.0 for fact in facts])
      }

  def likelihoods(after, texts, targets):
    answers = {
      fact.question: fact.target if edited else fact.true_target
      for fact, edited in zip(facts, after.params["edited"], strict=True)
    }
    pairs = zip(texts, targets, strict=True)
    right = np.array([answers.get(text) == said for text, said in pairs])
    return right - 1.0, right

  monkeypatch.setattr(scores, "likelihoods", likelihoods)
  found = dataclasses.replace(
    opened("gpt_2"), params={"edited": np.zeros(len(facts))}
  )
  edits = Edits(facts, Obedient(), held_out=6, at_once=(1, 2, 3))
  stays = ("neighbourhood", "essence_answered", "others_kept", "others_spared")
  for size, made in edits.scores(found)["scores"].items():
    kept = {name: made[name] for name in stays if name in made}
    assert kept == dict.fromkeys(kept, 100), size
    assert made["efficacy_answered"] == 100
    assert {"neighbourhood", "others_kept", "others_spared"} <= set(kept)


def test_a_question_that_nobody_else_is_asked_has_no_others():
  facts = [*FACTS, Fact("{} had", "joe", target="c", true_target="a")]
  edits = Edits(facts, held_out=1, at_once=(1,))
  found = edits.scores(opened("gpt_2"))["scores"]["1"]
  assert "efficacy" in found
  assert not {"others_kept", "others_spared"} & set(found)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_editors_learn_on_other_facts_alone(shape, monkeypatch):
  found = opened(shape)
  seen = []
  rows = edit_scores.Asked.rows

  def watched(self, texts, targets):
    seen.extend(texts)
    return rows(self, texts, targets)

  monkeypatch.setattr(edit_scores.Asked, "rows", watched)
  asked = edit_scores.Asked(found, found.params)
  edit = MendEditors(blocks=1, rank=4, steps=8).editor(asked, FACTS[:-2], 0)
  assert seen and not any("joe" in text for text in seen)
  with programs.recorded_calls() as calls:
    params = edit(found.params, FACTS[-2:])
  # One call: a pass, the gradient of its last block, and the editors' networks.
  (call,) = calls
  params_, batch = call.arguments[-2:]
  forward = cost.count(
    lambda *arguments: interventions.apply(found.model, *arguments)[0],
    params_,
    batch,
  )
  assert 3 * forward.flops > costs.flops(calls) > forward.flops
  paths = {f"{p}/kernel" for p in mend.last_projections(found.model, 1)}
  old = traverse_util.flatten_dict(found.params, sep="/")
  new = traverse_util.flatten_dict(params, sep="/")
  assert paths == {k for k in old if not np.array_equal(old[k], new[k])}


@pytest.mark.slow
@pytest.mark.parametrize(
  "method",
  [
    Rome(TEXTS, ridge=1e-2),
    Memit(TEXTS, layers=(0,), moment_weight=0.1, ridge=1e-2),
  ],
)
def test_romes_write_into_their_layer(method):
  found = opened("gpt_2")
  edits = Edits(FACTS, method, held_out=1, at_once=(1,))
  made = edits.scores(found)
  none = dataclasses.replace(edits, method=None).scores(found)
  margins = [each["scores"]["1"]["efficacy_margin"] for each in (made, none)]
  assert margins[0] > margins[1]
  leaf = found.params["decoder"]["layers_0"]["mlp"]["wo"]["kernel"]
  assert made["cost"]["bytes"] == leaf.nbytes
  assert made["cost"]["flops_an_edit_1"] > made["cost"]["learning_flops"] > 0


@pytest.mark.slow
def test_facts_without_true_objects_have_accuracies_and_texts():
  found = opened("gpt_2")
  fact = Fact(
    "{} has",
    "ann",
    "cab",
    paraphrases=("it is ann:",),
    elsewhere=(("bob has", "a"),),
    generations=("ann",),
  )
  edits = Edits([fact, fact], held_out=1, at_once=(1,))
  made = edits.scores(found)
  scored = made["scores"]["1"]
  assert "known" not in made["cost"]
  assert set(scored) == {
    *("efficacy_accuracy", "paraphrase_accuracy", "neighbourhood_accuracy"),
    "fluency",
  }
  asked = edit_scores.Asked(found, found.params)
  rows = asked.rows([fact.question], [fact.target])
  logits, _ = interventions.apply(found.model, found.params, rows.batch)
  right = logits.argmax(-1) == rows.batch["decoder_target_tokens"]
  assert scored["efficacy_accuracy"] == pytest.approx(
    100 * right[rows.weights_BL > 0].mean()
  )


@pytest.mark.slow
def test_rome_reads_texts_to_keep_if_their_factor_is_not_zero():
  """tests/editing/rome_test.py shows what such texts do."""
  found = opened("gpt_2")
  asked = edit_scores.Asked(found, found.params)
  keeping = dataclasses.replace(FACTS[-1], kept=("joe has",))

  def kernel(fact, **fields):
    method = Rome(TEXTS, ridge=1e-2, steps=5, **fields)
    params = method.editor(asked, FACTS[:-2], 0)(found.params, [fact])
    return params["decoder"]["layers_0"]["mlp"]["wo"]["kernel"]

  published = kernel(FACTS[-1])
  np.testing.assert_array_equal(kernel(keeping), published)
  kept = kernel(keeping, kept_factor=1.0)
  assert np.abs(kept - published).max() > 1e-2


@pytest.mark.parametrize(
  ("make", "sentence"),
  [
    (
      lambda: Edits(FACTS, held_out=8),
      "Edits.held_out is 8; of 8 facts at least one is edited and one learned "
      "from",
    ),
    (
      lambda: Edits(FACTS, held_out=2, at_once=(3,)),
      "Edits.at_once has 3; it must be between 1 and held_out, 2",
    ),
    (
      lambda: Edits(FACTS, Rome(TEXTS), held_out=2, at_once=(1,)).scores(
        opened("t5_1_0")
      ),
      "ROME edits what a decoder says of a subject that it has read, and here "
      "the encoder of EncoderDecoder reads it; choose FineTuning or "
      "MendEditors",
    ),
  ],
)
def test_refusals(make, sentence):
  with pytest.raises(UserError) as error:
    make()
  assert str(error.value) == sentence
