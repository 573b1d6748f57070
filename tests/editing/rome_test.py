"""ROME's algebra, its refusals, and the files of edits."""

import dataclasses
import pathlib

from flax import linen as nn
import jax
import numpy as np
import pytest
from scipy import special

from tasks.miniature import facts as world
from tasks.miniature import false_facts
from tests import programs
from tests import tiny_models
from transformer_zoo.editing import edits
from transformer_zoo.editing import facts
from transformer_zoo.editing import interventions
from transformer_zoo.editing import rome
from transformer_zoo.editing import scores
from transformer_zoo.editing import tracing
from transformer_zoo.editing.facts import Fact
from transformer_zoo.errors import UserError

WORDS = world.Words()
FACT = Fact("{} lives in", "anna fox", "farnham", "ashby")
SETTINGS = rome.Settings(0, steps=40, learning_rate=0.1, weight_decay=0.0)


def memory_of(architecture, *parts, scan=False, **macros):
  model, _ = tiny_models.build(
    architecture,
    *parts,
    VOCAB_SIZE=WORDS.size,
    SCAN_LAYERS=scan,
    **macros,
  )
  params = tiny_models.random_parameters(interventions.looped(model))
  start_id = None if architecture == "gpt_2" else 0
  encoder_text = "is a" if model.offers.has_encoder else None
  reader = facts.Reader(WORDS, start_id, encoder_text)
  return rome.Memory(interventions.looped(model), params, reader)


def logits_of(model, params, batch):
  """Logits on the host, by one program a model and shape."""
  return np.asarray(programs.run(logits, model, params, batch))


def logits(model, params, batch):
  return interventions.apply(model, params, batch)[0]


@pytest.mark.parametrize(
  "architecture",
  [
    "gpt_2",
    pytest.param("gpt_j", marks=pytest.mark.slow),
    pytest.param("t5_1_1", marks=pytest.mark.slow),
  ],
)
def test_a_fact_is_written_and_the_projection_maps_the_key_to_the_value(
  architecture,
):
  memory = memory_of(architecture)
  before, _ = scores.likelihoods(memory, [FACT.question], [FACT.target])
  edit = rome.edit(memory, FACT, SETTINGS)
  changed = rome.Memory(memory.model, edit.apply(memory.params), memory.reader)
  after, _ = scores.likelihoods(changed, [FACT.question], [FACT.target])
  assert after[0] > before[0] + 0.3
  key = rome.keys(memory, [(FACT.prompt, FACT.subject)], 0)[0]
  found = rome.value(memory, FACT, SETTINGS)
  kernel = edits.kernel_of(memory.params, edit.path)
  # The value of one prompt is where the update begins: k W' = k W + delta.
  np.testing.assert_allclose(
    key @ (kernel + edit.delta_FD),
    key @ kernel + found.delta_D,
    rtol=1e-3,
    atol=1e-4,
  )


@pytest.mark.slow
def test_an_edit_behind_prefixes_is_the_mean_over_them():
  """The key is the mean of the subjects' keys, and the loss that of texts."""
  memory = memory_of("gpt_2")
  prefixes = ["", "ben elm is a. ", "eva plays. "]
  settings = dataclasses.replace(SETTINGS, steps=2)
  texts = [prefix + FACT.question for prefix in prefixes]
  rows = memory.reader.rows(texts)
  path = "decoder/layers_0/mlp/wo"
  _, read = interventions.apply(
    memory.model, memory.params, rows.batch, inputs_of=[path]
  )
  ends = [WORDS.encode(text).index(WORDS.encode("fox")[0]) for text in texts]
  assert len(set(ends)) == 3
  keys = np.asarray(read[path])[np.arange(3), ends]
  edit = rome.edit(memory, FACT, settings, prefixes=prefixes)
  mean = keys.astype(np.float64).mean(0)
  np.testing.assert_allclose(
    edit.left_FX[:, 0], mean / np.linalg.norm(mean), rtol=1e-4, atol=1e-6
  )
  likely, _ = scores.likelihoods(memory, texts, [FACT.target] * 3)
  assert edit.notes["losses"][0]["loss"] == pytest.approx(
    -likely.mean(), rel=1e-4
  )
  # The update is that of the prompt alone, which the first prefix leaves.
  found = rome.value(memory, FACT, settings, prefixes)
  kernel = edits.kernel_of(memory.params, edit.path)
  np.testing.assert_allclose(
    keys[0] @ (kernel + edit.delta_FD),
    keys[0] @ kernel + found.delta_D,
    rtol=1e-3,
    atol=1e-4,
  )


def test_an_edit_that_holds_a_pickle_is_refused(tmp_path):
  class Touched:
    """Pickled as a call, which makes a file where it is unpickled."""

    def __reduce__(self):
      return pathlib.Path.touch, (tmp_path / "touched",)

  hostile = np.empty(1, object)
  hostile[0] = Touched()
  np.savez(tmp_path / "edit.npz", description=np.array("{}"), left=hostile)
  with pytest.raises(UserError, match="is no edit"):
    edits.load(tmp_path / "edit.npz")
  assert not (tmp_path / "touched").exists()


def test_directions_are_the_keys_after_the_inverse_covariance():
  random = np.random.RandomState(0)
  sample = random.standard_normal((50, 6))
  moment = sample.T @ sample / 50
  key = random.standard_normal(6)
  expected = np.linalg.inv(moment) @ key
  np.testing.assert_allclose(
    rome.direction(key, moment),
    expected / np.linalg.norm(expected),
    rtol=1e-5,
  )


def test_moments_do_not_depend_on_batches():
  memory = memory_of("gpt_2")
  texts = world.sentences(world.world(8))[:10]
  one, count = rome.second_moment(memory, texts, 0, batch_size=4)
  other, same = rome.second_moment(memory, texts, 0, batch_size=10)
  assert count == same == sum(len(WORDS.encode(text)) for text in texts)
  np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["gpt_2", "t5_1_1"])
def test_prefixes_are_texts_of_the_model(architecture):
  memory = memory_of(architecture)
  found = rome.sample_prefixes(
    memory, jax.random.key(0), lengths=(2,), number=3
  )
  assert found[0] == "" and 1 < len(found) <= 4
  assert found == rome.sample_prefixes(
    memory, jax.random.key(0), lengths=(2,), number=3
  )
  texts = [text.removesuffix(". ") for text in found[1:]]
  texts = [text for text in texts if len(WORDS.encode(text)) == 2]
  assert texts
  for text in texts:
    first, second = WORDS.encode(text)
    rows = memory.reader.rows([text])
    logits = logits_of(memory.model, memory.params, rows.batch)
    assert second in np.argsort(logits[0, rows.last_B[0] - 1])[-5:]
    if memory.reader.start_id is not None:
      assert first in np.argsort(logits[0, 0])[-5:]


@pytest.mark.slow
def test_traces_name_the_start_and_no_other_token():
  class Spaced(world.Words):
    """Words, of which one is decoded as nothing."""

    def decode(self, ids):
      return super().decode(ids).replace("lives", "")

  for architecture, start in (("t5_1_1", ("(start)",)), ("gpt_2", ())):
    memory = memory_of(architecture)
    reader = dataclasses.replace(memory.reader, vocabulary=Spaced())
    memory = dataclasses.replace(memory, reader=reader)
    found = tracing.trace(memory, FACT, 0.1, samples=2)
    assert found.tokens == (*start, "anna", "fox", " ", "in")


@pytest.mark.slow
def test_what_follows_kept_texts_stays():
  """More with a larger factor; without such texts the factor is of nothing."""
  memory = memory_of("gpt_2")
  texts = ["anna fox likes to play the", "anna fox loved the"]
  kept = dataclasses.replace(FACT, kept=tuple(texts))
  batch = memory.reader.rows(texts)

  def following(params):
    logits = logits_of(memory.model, params, batch.batch)
    return special.log_softmax(logits[np.arange(2), batch.last_B], axis=-1)

  def disturbed(fact, factor):
    settings = dataclasses.replace(SETTINGS, kept_factor=factor)
    edit = rome.edit(memory, fact, settings)
    before, after = map(following, (memory.params, edit.apply(memory.params)))
    return float((np.exp(before) * (before - after)).sum(-1).mean())

  published = disturbed(FACT, 0.0)
  assert disturbed(FACT, 8.0) == disturbed(kept, 0.0) == published
  assert disturbed(kept, 8.0) < disturbed(kept, 1.0) < published


@pytest.mark.parametrize("scan", [False, True])
def test_an_edit_comes_off_bit_for_bit(tmp_path, scan):
  memory = memory_of("gpt_2")
  edit = rome.edit(memory, FACT, SETTINGS)
  edits.save(tmp_path / "edit.npz", [edit])
  (loaded,) = edits.load(tmp_path / "edit.npz")
  params = memory.params
  if scan:
    params = tiny_models.stack_layers(params)
  changed = loaded.apply(params)
  assert not np.array_equal(
    edits.kernel_of(changed, edit.path), edits.kernel_of(params, edit.path)
  )
  back = loaded.remove(changed)
  jax.tree.map(np.testing.assert_array_equal, back, params)
  with pytest.raises(UserError, match="is there already in this checkpoint$"):
    loaded.apply(changed)
  with pytest.raises(UserError, match="is not there in this checkpoint$"):
    loaded.remove(params)


def test_edits_come_off_in_the_reverse_of_their_order():
  memory = memory_of("gpt_2")
  first = rome.edit(memory, FACT, SETTINGS)
  once = first.apply(memory.params)
  second = rome.edit(
    rome.Memory(memory.model, once, memory.reader),
    Fact("{} speaks the language of", "ben elm", "latin"),
    SETTINGS,
  )
  twice = second.apply(once)
  with pytest.raises(UserError, match="^the edit is not the last one of this"):
    first.remove(twice)
  with pytest.raises(UserError, match="^the edit is not made for this"):
    second.apply(memory.params)
  back = first.remove(second.remove(twice))
  jax.tree.map(np.testing.assert_array_equal, back, memory.params)


def test_large_weights_come_off_too():
  """Whatever the sizes of weights and change, down to the last bit."""
  random = np.random.RandomState(0)
  kernel = (
    random.standard_normal((64, 48)) * 10.0 ** random.randint(-6, 4, (64, 48))
  ).astype(np.float32)
  left, right = random.standard_normal((64, 2)), random.standard_normal((2, 48))
  edit = edits.Edit.make("a/kernel", kernel, left, right)
  params = {"a": {"kernel": kernel}}
  back = edit.remove(edit.apply(params))
  np.testing.assert_array_equal(
    back["a"]["kernel"].view(np.uint32), kernel.view(np.uint32)
  )


@pytest.mark.parametrize(
  ("call", "sentence"),
  [
    (
      lambda: facts.of_words("anna fox lives in", "eva fir", "rome"),
      "the subject 'eva fir' stands nowhere in the prompt 'anna fox lives in'; "
      "name words that stand there once, or write {} in their place",
    ),
    (
      lambda: Fact("lives in", "anna fox", "rome"),
      "the prompt 'lives in' has no place for the subject 'anna fox'; write it "
      "once as {}",
    ),
    (
      lambda: Fact("{} lives in", "anna fox", "rome", kept=("eva plays",)),
      "the subject 'anna fox' stands nowhere in the prompt 'eva plays'; name "
      "words that stand there once, or write {} in their place",
    ),
    (
      lambda: Fact("{} lives in", "anna fox", " "),
      "the target of a fact is ' '; give it a text that is not empty",
    ),
    (
      lambda: memory_of("gpt_2").layer(7),
      "there is no layer 7; the decoder has layers 0 to 1",
    ),
    (
      lambda: rome.edit(memory_of("gpt_2"), FACT, rome.Settings(1)),
      "layer 1 is the last, so that nothing after the subject 'anna fox' reads "
      "what it says there; choose an earlier layer",
    ),
    (
      lambda: rome.Memory(tiny_models.build("bert")[0], {}, None),
      "ROME edits what a decoder says next, and EncoderOnly has none; zoo edit "
      "needs a language model or an encoder-decoder",
    ),
    (
      lambda: rome.direction(np.ones(3), np.ones((3, 3))),
      "the covariance of keys has rank 1 and the layer 3 features, so that "
      "nothing inverts it; give more text, or --ridge 1e-4",
    ),
    (
      lambda: rome.Settings(0, steps=0),
      "steps of an edit is 0; it must be at least 1",
    ),
    (
      lambda: edits.kernel_of(memory_of("gpt_2").params, "decoder/layers_9/x"),
      "the model has no decoder/layers_9/x; `zoo inspect model` lists its "
      "parameters",
    ),
    (
      lambda: edits.load("nowhere.npz"),
      "there is no edit 'nowhere.npz'; `zoo edit` writes one",
    ),
  ],
)
def test_refusals(call, sentence):
  with pytest.raises(UserError) as raised:
    call()
  assert str(raised.value) == sentence


def test_a_model_without_the_projection_is_refused():
  model, _ = tiny_models.build("gpt_2")
  stack = model.decoder.transformer.layer_stack
  stack = stack.clone(layer=stack.layer.clone(mlp=nn.Dense(24)))
  transformer = model.decoder.transformer.clone(layer_stack=stack)
  decoder = model.decoder.clone(transformer=transformer)
  with pytest.raises(
    UserError, match="^layer 0 has no projection mlp/wo, which ROME edits; "
  ):
    rome.Memory(model.clone(decoder=decoder), {}, None).layer(0)


def test_layers_that_share_a_network_are_refused():
  model, _ = tiny_models.build("lm", bindings=("Stack.shared=('mlp',)",))
  with pytest.raises(UserError, match="^the layers share their feed-forward"):
    rome.Memory(model, {}, None).layer(0)


@pytest.mark.slow
def test_scores_of_a_fact():
  memory = memory_of("gpt_2")
  told = world.world(24)
  fact = Fact(**false_facts.request(told[0], told))
  found = scores.score(memory, fact)
  assert {"efficacy", "paraphrase", "neighbourhood", "essence"} <= set(found)
  swapped = scores.score(
    memory,
    Fact(
      fact.prompt, fact.subject, fact.true_target, fact.target, fact.paraphrases
    ),
  )
  assert found["efficacy"] + swapped["efficacy"] == 100
  assert found["efficacy_margin"] == pytest.approx(-swapped["efficacy_margin"])
  three = {"efficacy": 100.0, "paraphrase": 50.0, "neighbourhood": 100.0}
  means = scores.mean([three])
  assert means["score"] == pytest.approx(75.0)
