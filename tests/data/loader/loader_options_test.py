"""Static masking, truncated corpora, warm-up, buckets, workers, converters."""

import collections
import itertools
import re

import numpy as np
import pytest

from transformer_zoo.corruption import Denoising
from transformer_zoo.corruption import Everything
from transformer_zoo.corruption import SpanCorruption
from transformer_zoo.corruption.masked_lm import MaskedLanguageModel
from transformer_zoo.data.features import converters
from transformer_zoo.data.loader import batches as batches_lib
from transformer_zoo.data.loader import loader
from transformer_zoo.data.loader import packing
from transformer_zoo.data.loader.batches import count_repeats
from transformer_zoo.data.storage.manifest import PreparedMixture
from transformer_zoo.errors import UserError

LENGTHS = {"inputs": 32, "targets": 16}
SHORT = {"inputs": 16, "targets": 8}
# Targets are the text itself.
COPY = Denoising(Everything(), "nothing", "keep")
RAW_LENGTH = SpanCorruption().raw_length(LENGTHS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  return tmp_path_factory.mktemp("prepared")


@pytest.fixture(scope="module")
def few(make_task_in, short_examples, folder):
  task = make_task_in(folder, "few", short_examples(50))
  return PreparedMixture("few", (task,), (1.0,))


@pytest.fixture(scope="module")
def text(make_task_in, stream, folder):
  task = make_task_in(folder, "text", stream(30), kind="tokens")
  return PreparedMixture("text", (task,), (1.0,))


def take(mixture, number, **arguments):
  """The first batches, without any that would be read ahead."""
  batches = open_batches(mixture, **arguments)
  return [batches[step] for step in range(number)]


def open_batches(mixture, **arguments):
  defaults = {
    "split": "train",
    "lengths": LENGTHS,
    "batch_size": 8,
    "seed": 3,
  }
  return loader.open_batches(mixture, **defaults | arguments)


def column(batches, key):
  return np.concatenate([batch[key] for batch in batches])


@pytest.mark.parametrize("copies, expected", [(None, 4), (1, 1), (2, 2)])
def test_static_masking_repeats_its_copies(make_task, copies, expected):
  tokens = np.arange(3, 3 + RAW_LENGTH, dtype=np.int32)
  task = make_task("one", [{"targets": tokens}], kind="tokens")
  one = PreparedMixture("one", (task,), (1.0,))
  batches = take(one, 4, batch_size=1, static_copies=copies)
  inputs = column(batches, "encoder_input_tokens")
  assert len(np.unique(inputs, axis=0)) == expected
  if copies:
    np.testing.assert_array_equal(inputs[:copies], inputs[copies : 2 * copies])


def test_static_masks_differ_between_texts_and_tasks(make_task):
  tokens = np.tile(np.arange(3, 3 + RAW_LENGTH, dtype=np.int32), 4)
  tasks = tuple(
    make_task(name, [{"targets": tokens}], kind="tokens") for name in "ab"
  )
  pair = PreparedMixture("pair", tasks, (1.0, 1.0))
  inputs = column(take(pair, 2, static_copies=1), "encoder_input_tokens")
  # Eight equal chunks, twice.
  _, counts = np.unique(inputs, axis=0, return_counts=True)
  assert counts.tolist() == [2] * 8


def test_static_copies_of_several_texts_all_differ(make_task):
  """No copy of a text has the mask of a copy of the next."""
  tokens = np.tile(np.arange(3, 3 + RAW_LENGTH, dtype=np.int32), 3)
  task = make_task("three", [{"targets": tokens}], kind="tokens")
  three = PreparedMixture("three", (task,), (1.0,))
  batches = take(three, 18, batch_size=1, static_copies=2)
  inputs = column(batches, "encoder_input_tokens")
  _, counts = np.unique(inputs, axis=0, return_counts=True)
  assert counts.tolist() == [3] * 6


def test_a_corpus_is_cut_to_its_first_tokens(text, stream):
  whole = np.concatenate([e["targets"] for e in stream(30)])
  lengths = {"inputs": 1, "targets": 21}
  kwargs = {"lengths": lengths, "corruption": COPY, "max_tokens": 105}
  chunks = column(take(text, 3, **kwargs), "decoder_target_tokens")[:, :20]
  expected = whole[:100].reshape(5, 20)
  np.testing.assert_array_equal(
    np.unique(chunks[:10], axis=0), np.unique(expected, axis=0)
  )
  batches = open_batches(text, **kwargs)
  found = count_repeats(batches, 15)["text"]
  assert (found.examples, found.epochs, found.counted) == (5, 24.0, True)
  assert str(found) == "5 examples an epoch, 24.00 epochs in this run"


def test_more_tokens_than_there_are_are_refused(text, few):
  total = text.tasks[0].split("train").num_tokens
  with pytest.raises(UserError, match=f"of task 'text' has {total} tokens"):
    open_batches(text, max_tokens=total + 1)
  with pytest.raises(UserError, match="'few' has no task of unlabelled text"):
    open_batches(few, max_tokens=10)
  with pytest.raises(UserError, match="max_tokens is 0; it must be 1 or more"):
    open_batches(text, max_tokens=0)


def test_longer_examples_are_left_out(make_task, short_examples):
  tasks = tuple(
    make_task(name, short_examples(40, seed)) for seed, name in enumerate("ab")
  )
  pair = PreparedMixture("pair", tasks, (1.0, 1.0))
  lengths = {"inputs": 7, "targets": 5}
  kept = {
    task.name: np.flatnonzero(
      (task.lengths("train") <= [lengths[f] for f in task.features]).all(axis=1)
    )
    for task in tasks
  }
  arguments = {
    "lengths": lengths,
    "packing": False,
    "whole_examples_only": True,
  }
  batches = open_batches(pair, **arguments)
  sizes = dict(zip("ab", batches.num_examples.tolist(), strict=True))
  assert sizes == {task: len(numbers) for task, numbers in kept.items()}
  assert 0 < min(sizes.values()) and max(sizes.values()) < 40
  for step in range(8):
    rows = batches[step]["encoder_input_tokens"]
    # Each ends in its own EOS: nothing was cut.
    assert ((rows == 1).sum(axis=1) == 1).all()
    for task, texts in batches.origin(step)["examples"].items():
      numbers = {
        number
        for text in texts.split()
        for first, _, last in [text.partition("-")]
        for number in range(int(first), int(last or first) + 1)
      }
      assert numbers <= set(kept[task].tolist())


@pytest.mark.parametrize("packing", [False, True])
def test_longer_examples_are_left_out_in_a_length_warm_up(
  make_task, short_examples, packing
):
  # Without an EOS behind what is cut.
  task = make_task("few", short_examples(50), eos_after_trim=False)
  batches = open_batches(
    PreparedMixture("few", (task,), (1.0,)),
    packing=packing,
    whole_examples_only=True,
    length_warmup={3: {"inputs": 7, "targets": 5}},
  )
  for step in range(6):
    for side, name in (("encoder", "input"), ("decoder", "target")):
      rows = batches[step][f"{side}_{name}_tokens"]
      segments = batches[step].get(f"{side}_segment_ids", rows > 0)
      assert (rows == 1).sum() == segments.max(axis=1).sum()
  assert batches.num_examples.tolist() == [50]


def test_leaving_out_everything_or_text_is_refused(text, few):
  short = {"inputs": 2, "targets": 2}
  with pytest.raises(UserError, match="every example of 'few' is longer than"):
    open_batches(few, whole_examples_only=True, lengths=short)
  with pytest.raises(UserError, match="of 'text' follows from the lengths"):
    open_batches(text, whole_examples_only=True)


@pytest.mark.parametrize(
  "arguments",
  [
    {},
    {"packing": False},
    {"batch_size_warmup": {7: 2, 11: 6}},
    {"length_warmup": {9: SHORT}, "batch_size_warmup": {7: 2}},
    {
      "packing": False,
      "length_buckets": ({"inputs": 8, "targets": 8, "batch_size": 16},),
    },
  ],
)
def test_epochs_are_those_of_the_examples_in_the_batches(few, text, arguments):
  tasks = few.tasks + text.tasks
  mixture = PreparedMixture("both", tasks, (3.0, 1.0))
  batches = open_batches(mixture, **arguments)
  assert batches.examples_before(0).tolist() == [0, 0]
  steps = 23
  found = count_repeats(batches, steps, exact=True)
  seen = collections.Counter()
  # The text has no id 3 + 0 with 3 + i behind it more often than by chance;
  # its rows are told by their sentinels.
  sentinels = tasks[1].vocabulary.sentinel_ids
  for step in range(steps):
    batch = batches[step]
    rows = batch["encoder_input_tokens"]
    of_text = np.isin(rows, sentinels).any(axis=1)
    seen["text"] += int(of_text.sum())
    segments = batch.get("encoder_segment_ids", np.ones_like(rows))
    seen["few"] += int(segments.max(axis=1)[~of_text].sum())
  for task, size in zip(tasks, batches.num_examples, strict=True):
    assert found[task.name].epochs * size == pytest.approx(seen[task.name])


def test_epochs_are_estimated_for_long_packed_runs(few):
  batches = open_batches(few)
  steps = 1 << 20
  about = count_repeats(batches, steps)["few"]
  assert not about.counted
  assert "about" in str(about)
  few_steps = count_repeats(batches, 2000, exact=True)["few"]
  assert about.epochs / steps == pytest.approx(
    few_steps.epochs / 2000, rel=0.02
  )


def test_a_batch_size_warm_up_leaves_the_rows_as_they_were(few):
  plain = column(take(few, 12), "encoder_input_tokens")
  batches = take(few, 14, batch_size_warmup={4: 2, 6: 4})
  sizes = [len(batch["encoder_input_tokens"]) for batch in batches]
  assert sizes == [2] * 4 + [4] * 2 + [8] * 8
  np.testing.assert_array_equal(
    column(batches, "encoder_input_tokens"), plain[: 16 + 64]
  )


def test_a_length_warm_up_cuts_the_same_places_shorter(text):
  kwargs = {"corruption": COPY, "packing": False}
  full, short = {"inputs": 1, "targets": 41}, {"inputs": 1, "targets": 11}
  plain = take(text, 6, lengths=full, **kwargs)
  warm = take(text, 6, lengths=full, length_warmup={4: short}, **kwargs)
  key = "decoder_target_tokens"
  for step in range(4):
    assert warm[step][key].shape == (8, 11)
    np.testing.assert_array_equal(
      warm[step][key][:, :10], plain[step][key][:, :10]
    )
  for step in (4, 5):
    np.testing.assert_array_equal(warm[step][key], plain[step][key])


def test_a_length_warm_up_repeats_no_packed_example(few, monkeypatch):
  places = []
  batches = open_batches(few, length_warmup={20: SHORT})
  for reader in batches._readers:
    read = reader.read
    monkeypatch.setattr(
      reader, "read", lambda some, read=read: places.append(some) or read(some)
    )
  for step in range(40):
    batches[step]
  places = np.concatenate(places)
  assert len(np.unique(places)) == len(places)
  # What is passed over is less than a window of packing.
  assert len(places) > places.max() + 1 - 2 * packing.WINDOW


def test_buckets_have_their_shapes_and_every_example_once(few):
  buckets = ({"inputs": 8, "targets": 8, "batch_size": 10},)
  batches = take(few, 60, packing=False, length_buckets=buckets, batch_size=5)
  shapes = {batch["encoder_input_tokens"].shape for batch in batches}
  assert shapes == {(10, 8), (5, 32)}
  names = collections.Counter()
  for batch in batches:
    names.update(map(tuple, batch["encoder_input_tokens"][:, :2].tolist()))
  assert len(names) == 50
  assert max(names.values()) - min(names.values()) <= 3


@pytest.mark.parametrize(
  "arguments", [{}, {"packing": False, "batch_size_warmup": {5: 4}}]
)
def test_buckets_are_alone(few, arguments):
  with pytest.raises(UserError, match="length_buckets cannot be used with"):
    open_batches(
      few,
      length_buckets=({"inputs": 8, "targets": 8, "batch_size": 10},),
      **arguments,
    )


def test_reading_ahead_is_bounded(few, monkeypatch):
  batches = open_batches(few)
  made = []
  make = type(batches).__getitem__

  def counted(self, step):
    made.append(step)
    return make(self, step)

  monkeypatch.setattr(type(batches), "__getitem__", counted)
  iterator = loader.read_ahead(batches, start_step=5)
  for taken in range(1, 60):
    next(iterator)
    assert len(made) <= taken + 10
  iterator.close()
  assert sorted(made) == list(range(5, 5 + len(made)))


@pytest.mark.slow
def test_worker_processes_make_the_same_batches(few):
  here = take(few, 10)[3:]
  batches = loader.read_ahead(open_batches(few), start_step=3, num_workers=2)
  there = list(itertools.islice(batches, 7))
  batches.close()
  for batch, other in zip(here, there, strict=True):
    assert batch.keys() == other.keys()
    for key in batch:
      np.testing.assert_array_equal(batch[key], other[key])


def test_converters_lay_out_training_and_evaluation(text, few):
  lengths = {"inputs": 24, "targets": 8}
  prefix = converters.PrefixLanguageModel()
  packed = take(few, 3, converter=prefix, lengths=lengths)
  for batch in packed:
    tokens = batch["decoder_target_tokens"]
    assert tokens.shape == (8, 32)
    assert (batch["decoder_segment_ids"].max(axis=1) > 1).all()
    assert "encoder_input_tokens" not in batch
  (first, _), *_ = loader.evaluation_batches(
    few.tasks[0], split="train", lengths=lengths, batch_size=4, converter=prefix
  )
  assert first["decoder_causal_attention"].shape == (4, 32)

  (lm,) = take(
    text,
    1,
    converter=converters.LanguageModel(),
    corruption=COPY,
    lengths={"targets": 21},
  )
  assert lm["decoder_target_tokens"].shape == (8, 21)

  (masked,) = take(
    text,
    1,
    converter=converters.Encoder(),
    corruption=MaskedLanguageModel(),
    lengths={"inputs": 20},
  )
  assert masked["encoder_target_tokens"].shape == (8, 20)
  assert 0 < masked["encoder_loss_weights"].sum() < 8 * 20


def test_a_converter_of_another_kind_is_refused(text, few):
  with pytest.raises(UserError, match="Task 'few' makes examples for an enc"):
    open_batches(few, converter=converters.Encoder(), lengths={"inputs": 20})
  with pytest.raises(UserError, match="converter EncoderDecoder lays out"):
    open_batches(
      text,
      corruption=MaskedLanguageModel(),
      lengths={"inputs": 20, "targets": 20},
    )


@pytest.fixture(scope="module")
def three(make_task_in, short_examples, folder):
  """Three tasks whose ids tell them apart, the last at rate 0."""
  tasks = tuple(
    make_task_in(folder, name, short_examples(40, seed=i, first=100 * i + 100))
    for i, name in enumerate(("web", "books", "good"))
  )
  return PreparedMixture("three", tasks, (3.0, 1.0, 0.0))


@pytest.mark.parametrize("packing_", [False, True])
def test_rates_change_at_their_steps_and_epochs_go_on(three, packing_):
  """A task goes on where it was: nothing comes again before its epoch ends."""
  batches = open_batches(
    three,
    packing=packing_,
    later_rates={5: {"good": 1.0, "web": 1.0}, 8: {"books": 1}},
  )
  found = collections.defaultdict(list)
  by_step = []
  for step in range(12):
    origin = batches.origin(step)
    by_step.append({*origin["examples"]})
    for name, text in origin["examples"].items():
      for part in text.split():
        first, _, last = part.partition("-")
        found[name] += range(int(first), int(last or first) + 1)
  assert set.union(*by_step[:5]) == {"web", "books"}
  assert set.union(*by_step[5:8]) == {"web", "good"}
  assert set.union(*by_step[8:]) == {"books"}
  before = batches.examples_before(12)
  # A step of packed rows may hold an example of two epochs.
  seen = [len(found[name]) for name in ("web", "books", "good")]
  assert (before >= seen).all()
  if not packing_:
    # 40 places at 3 to 1, 24 at 1 to 1, 32 of one.
    assert before.tolist() == [30 + 12, 10 + 32, 12]
    assert len(set(found["web"])) == len(set(found["books"])) == 40


def test_epochs_of_later_rates_are_estimated_by_their_shares(
  three, monkeypatch
):
  arguments = {"later_rates": {50: {"good": 1}}}
  batches = open_batches(three, **arguments)
  exact = count_repeats(batches, 200, exact=True)
  monkeypatch.setattr(batches_lib, "_MOST_ROWS", 200)
  about = count_repeats(open_batches(three, **arguments), 200)
  assert exact["good"].counted and not about["good"].counted
  for name, one in exact.items():
    assert about[name].epochs == pytest.approx(one.epochs, rel=0.15), name


@pytest.mark.parametrize(
  ("later_rates", "sentence"),
  [
    ({5: {"god": 1}}, "names 'god', which is no task of mixture 'three'"),
    ({5: {"web": -1}}, "gives 'web' the rate -1; it must be a finite number"),
    ({5: {"web": True}}, "gives 'web' the rate True; it must be a finite"),
    ({5: {"web": 0}}, "later_rates from step 5 has no rate above 0; give one"),
    ({5: 2.0}, "later_rates from step 5 is 2.0; give a rate for each task"),
    ({0: {"web": 1}}, "later_rates has the step 0; give the first step after"),
  ],
)
def test_later_rates_that_are_refused(three, later_rates, sentence):
  with pytest.raises(UserError, match=re.escape(sentence)):
    open_batches(three, later_rates=later_rates)
