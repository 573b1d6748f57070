import collections
import dataclasses
import itertools
import pathlib
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from tests import prepared_splits
from transformer_zoo.corruption import Denoising
from transformer_zoo.corruption import Everything
from transformer_zoo.corruption import SpanCorruption
from transformer_zoo.data.loader import loader
from transformer_zoo.data.loader import packing as row_packing
from transformer_zoo.data.loader.evaluation_split import EvaluationSplit
from transformer_zoo.data.storage import manifest
from transformer_zoo.data.storage.manifest import PreparedMixture
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import UserError

LENGTHS = {"inputs": 32, "targets": 16}


@pytest.fixture(autouse=True)
def small_groups(monkeypatch):
  """Counts rows a few windows at a time, as tiny tasks need no more."""
  monkeypatch.setattr(row_packing, "_GROUP", 4)


@pytest.fixture(scope="module")
def mixture(make_task_in, short_examples, stream, tmp_path_factory):
  """Two tasks of short examples and one of unlabelled text."""
  folder = tmp_path_factory.mktemp("prepared")
  tasks = (
    make_task_in(folder, "few", short_examples(50, seed=0)),
    make_task_in(folder, "many", short_examples(300, seed=1, first=600)),
    make_task_in(folder, "text", stream(30), kind="tokens"),
  )
  return PreparedMixture("mixture", tasks, (1.0, 3.0, 0.5))


def folder_of(mixture):
  return pathlib.Path(mixture.tasks[0].folder).parent


def only(mixture, name):
  task = next(t for t in mixture.tasks if t.name == name)
  return PreparedMixture(name, (task,), (1.0,))


DEFAULTS = {"split": "train", "lengths": LENGTHS, "batch_size": 8, "seed": 3}


def take(mixture, number, **kwargs):
  """The first batches, without any that would be read ahead."""
  batches = loader.open_batches(mixture, **DEFAULTS | kwargs)
  return [batches[step] for step in range(number)]


def take_from(step, mixture, number, **kwargs):
  """Batches from a step on, as training reads them."""
  batches = loader.training_batches(
    mixture, start_step=step, **DEFAULTS | kwargs
  )
  taken = list(itertools.islice(batches, number))
  batches.close()
  return taken


def assert_same(batches, others):
  assert len(batches) == len(others)
  for batch, other in zip(batches, others, strict=True):
    assert batch.keys() == other.keys()
    for key in batch:
      np.testing.assert_array_equal(batch[key], other[key])


def names_in(batches):
  """Counts the examples by the two ids that name them."""
  counts = collections.Counter()
  for batch in batches:
    tokens = batch["encoder_input_tokens"]
    starts = batch["encoder_positions"] == 0
    starts &= batch["encoder_segment_ids"] > 0
    for row, column in zip(*np.nonzero(starts), strict=True):
      high, low = tokens[row, column : column + 2]
      counts[int(high - 3) * 40 + int(low - 3)] += 1
  return counts


@pytest.mark.parametrize("packing", [True, False])
@pytest.mark.parametrize("name", ["mixture", "few", "text"])
def test_resumes_at_any_step(mixture, name, packing):
  chosen = mixture if name == "mixture" else only(mixture, name)
  batches = take(chosen, 20, packing=packing)
  for step in (19, 0, 7):
    fresh = take_from(step, chosen, 1, packing=packing)
    assert_same(fresh, batches[step : step + 1])


@pytest.mark.slow
@pytest.mark.parametrize("packing", [True, False])
def test_processes_share_the_rows(mixture, packing):
  whole = take(mixture, 3, packing=packing)
  size = len(whole[0]["encoder_input_tokens"]) // 4
  # A mesh may give a process any of the parts, and several the same ones.
  for shares in [(0,), (3,), (1, 2), (0, 1, 3), (0, 1, 2, 3)]:
    rows = [s * size + row for s in shares for row in range(size)]
    assert_same(
      take(mixture, 3, packing=packing, shares=shares, num_shares=4),
      [{k: array[rows] for k, array in batch.items()} for batch in whole],
    )


def test_seed_changes_order_and_corruption(mixture):
  for name in ("few", "text"):
    one, other = (take(only(mixture, name), 1, seed=s)[0] for s in (3, 4))
    key = "encoder_input_tokens"
    assert (one[key] != other[key]).any()


def test_every_epoch_has_each_example_once(mixture):
  few = only(mixture, "few")
  batches = take(few, 6 * 25, packing=False, batch_size=2)
  orders = []
  for epoch in range(6):
    rows = np.concatenate(
      [b["encoder_input_tokens"] for b in batches[epoch * 25 : epoch * 25 + 25]]
    )
    orders.append(((rows[:, 0] - 3) * 40 + rows[:, 1] - 3).tolist())
    assert sorted(orders[-1]) == list(range(50))
  assert len(set(map(tuple, orders))) == 6


def test_packing_loses_no_token_and_no_example(mixture):
  few = only(mixture, "few")
  batches = take(few, 200)
  counts = names_in(batches)
  # Rows are handed out by windows of examples, not by epochs.
  assert set(counts) == set(range(50))
  assert max(counts.values()) - min(counts.values()) <= 2
  tokens = np.concatenate([b["encoder_input_tokens"] for b in batches])
  segments = np.concatenate([b["encoder_segment_ids"] for b in batches])
  np.testing.assert_array_equal(tokens > 0, segments > 0)
  decoder = np.concatenate([b["decoder_segment_ids"] for b in batches])
  np.testing.assert_array_equal(segments.max(axis=1), decoder.max(axis=1))
  examples = {e.tobytes(): e for e in np.unique(tokens, axis=0)}
  assert len(examples) > 100  # rows are not repeated


def test_packed_examples_are_the_unpacked_ones(mixture, short_examples):
  source = {
    tuple(e["inputs"].tolist()): tuple(e["targets"].tolist())
    for e in short_examples(50, seed=0)
  }
  for batch in take(only(mixture, "few"), 20):
    for row in range(8):
      number = batch["encoder_segment_ids"][row].max()
      for segment in range(1, number + 1):
        pair = [
          tuple(batch[tokens][row][batch[ids][row] == segment].tolist())
          for tokens, ids in (
            ("encoder_input_tokens", "encoder_segment_ids"),
            ("decoder_target_tokens", "decoder_segment_ids"),
          )
        ]
        assert source[pair[0]] == pair[1]


def test_rates_are_met(mixture):
  pair = PreparedMixture("pair", mixture.tasks[:2], (1.0, 3.0))
  counts = names_in(take(pair, 300))
  few = sum(n for name, n in counts.items() if name < 50)
  assert few / sum(counts.values()) == pytest.approx(0.25, abs=0.01)


def test_unlabelled_rows_are_full(mixture):
  for packing in (True, False):
    for batch in take(only(mixture, "text"), 3, packing=packing):
      assert (batch["encoder_input_tokens"] > 0).all()
      assert (batch["encoder_input_tokens"][:, -1] == 1).all()
  assert (batch["decoder_loss_weights"].sum(axis=1) > 4).all()


def test_unlabelled_examples_hold_the_text(mixture, stream):
  text = np.concatenate([e["targets"] for e in stream(30)])
  raw_length = SpanCorruption().raw_length(LENGTHS)
  chunks = {
    text[i : i + raw_length].tobytes()
    for i in range(0, len(text) - raw_length + 1, raw_length)
  }
  vocabulary = mixture.tasks[2].vocabulary
  batches = take(only(mixture, "text"), len(chunks), batch_size=1)
  seen = set()
  for batch in batches:
    inputs = batch["encoder_input_tokens"][0]
    targets = batch["decoder_target_tokens"][0]
    seen.add(restore(inputs, targets, vocabulary).tobytes())
  assert seen == chunks


def restore(inputs, targets, vocabulary):
  """Puts the spans of the targets back into the inputs."""
  sentinels = set(vocabulary.sentinel_ids.tolist())
  spans, current = {}, None
  for token in targets[: list(targets).index(1)].tolist():
    if token in sentinels:
      current = spans[token] = []
    else:
      current.append(token)
  result = []
  for token in inputs[: list(inputs).index(1)].tolist():
    result += spans[token] if token in sentinels else [token]
  return np.array(result, np.int32)


def test_corruption_of_a_place_differs_between_epochs(mixture, make_task):
  text = np.arange(3, 43).astype(np.int32)
  task = make_task("one", [{"targets": text}], kind="tokens")
  batch = take(PreparedMixture("one", (task,), (1.0,)), 1)[0]
  assert len(np.unique(batch["encoder_input_tokens"], axis=0)) > 4


def test_another_corruption_replaces_the_tasks(mixture):
  lengths = {"inputs": 32, "targets": 24}
  batch, own = (
    take(only(mixture, "text"), 1, lengths=lengths, corruption=corruption)[0]
    for corruption in (SpanCorruption(noise_density=0.3), None)
  )
  assert batch["decoder_loss_weights"].sum() > own["decoder_loss_weights"].sum()


def test_evaluation_keeps_order_and_fills_the_last_batch(mixture):
  task = mixture.tasks[0]
  found = list(
    loader.evaluation_batches(
      task, split="train", lengths=LENGTHS, batch_size=16
    )
  )
  assert [len(texts) for _, texts in found] == [16, 16, 16, 2]
  texts = [text for _, texts in found for text in texts]
  assert [text["idx"] for text in texts] == list(range(50))
  assert texts[7]["inputs_pretokenized"] == "text 7"
  weights = found[-1][0]["decoder_loss_weights"]
  assert weights[:2].any(axis=1).all() and not weights[2:].any()
  assert weights.shape == (16, 16)


def test_evaluation_corrupts_the_same_each_time(mixture):
  kwargs = {"split": "train", "lengths": LENGTHS, "max_examples": 20}
  task = mixture.tasks[2]
  by_8, by_5 = (
    np.concatenate(
      [
        batch["encoder_input_tokens"][: len(texts)]
        for batch, texts in loader.evaluation_batches(
          task, batch_size=size, **kwargs
        )
      ]
    )
    for size in (8, 5)
  )
  assert len(by_8) == 20
  np.testing.assert_array_equal(by_8, by_5)


@pytest.mark.parametrize(
  "kwargs, message",
  [
    ({"split": "trian"}, "Task 'few' has no split 'trian'; did you mean"),
    ({"lengths": {"inputs": 8}}, "The length of 'targets' is None; give"),
    ({"lengths": {"inputs": 8, "targets": 0}}, "length of 'targets' is 0"),
    ({"batch_size": 6, "num_shares": 4}, "batch size 6 cannot be cut into"),
    ({"seed": -1}, "The seed -1 must not be negative"),
    ({"start_step": -1}, "Start step -1 and num_workers 0 must not be"),
  ],
)
def test_bad_arguments_are_told_at_once(mixture, kwargs, message):
  with pytest.raises(UserError, match=message):
    loader.training_batches(mixture, **DEFAULTS | kwargs)


def test_no_task_has_a_rate(mixture):
  idle = dataclasses.replace(mixture, rates=(0.0, 0.0, 0.0))
  with pytest.raises(UserError, match="no task of a rate above 0 among few, m"):
    take(idle, 0)


def test_lengths_must_fit_the_corruption(mixture):
  text = only(mixture, "text")
  with pytest.raises(UserError, match="targets"):
    take(text, 0, lengths={"inputs": 32, "targets": 4})
  with pytest.raises(UserError, match="tokens, fewer than one example of"):
    take(
      text,
      0,
      lengths={"inputs": 60_000, "targets": 60_000},
      corruption=SpanCorruption(mean_noise_span_length=2000.0),
    )


def test_damaged_record_file_is_named(make_task, short_examples):
  few = make_task("few", short_examples(50, seed=0))
  mixture = PreparedMixture("few", (few,), (1.0,))
  name = few.split("train").shards[0].name
  path = pathlib.Path(few.folder) / name
  content = bytearray(path.read_bytes())
  content[len(content) // 2] ^= 255
  path.write_bytes(content)
  with pytest.raises(UserError, match=f"few/{name}' is damaged in the 8192 by"):
    take(mixture, 0)
  path.write_bytes(content[:-10])
  with pytest.raises(
    UserError, match=f"few/{name}' is damaged from byte .* on"
  ):
    take(mixture, 0)
  path.unlink()
  with pytest.raises(UserError, match=f"few/{name}' cannot be read"):
    take(mixture, 0)


def test_missing_preparation_names_what_is_there(mixture):
  with pytest.raises(UserError, match="'fwe' is prepared in .*; did you mean"):
    manifest.load("fwe", folder_of(mixture))


@pytest.mark.slow
def test_loads_and_reads_without_tensorflow_and_seqio(mixture):
  folder = folder_of(mixture)
  manifest.save_mixture(mixture, folder)
  program = textwrap.dedent(f"""
    import sys
    for name in ("tensorflow", "seqio", "tensorflow_datasets", "clu"):
      sys.modules[name] = None
    from transformer_zoo.data.loader import loader
    from transformer_zoo.data.prepare import preparation
    from transformer_zoo.data.storage import manifest
    mixture = manifest.load("mixture", {str(folder)!r})
    batch = next(loader.training_batches(
      mixture, split="train", lengths={LENGTHS!r}, batch_size=8, seed=3))
    print(int(batch["encoder_input_tokens"].sum()))
  """)
  done = subprocess.run(
    [sys.executable, "-c", program],
    capture_output=True,
    text=True,
    check=False,
    cwd=pathlib.Path(__file__).parents[3],
  )
  assert done.returncode == 0, done.stderr
  here = take(mixture, 1)[0]["encoder_input_tokens"].sum()
  assert int(done.stdout) == here


@pytest.mark.parametrize("extra_ids, dtype", [(30, "<u2"), (70_000, "<i4")])
def test_ids_of_small_and_large_vocabularies_survive(
  tmp_path, vocabulary, extra_ids, dtype
):
  large = Vocabulary(vocabulary.path, extra_ids)
  task = manifest.PreparedTask(
    name="wide",
    folder=str(tmp_path),
    kind="tokens",
    features=("inputs", "targets"),
    vocabulary=large,
    eos_after_trim=True,
    corruption=None,
    corruption_seed=0,
    splits={},
    scoring=None,
    definition="",
  )
  assert task.token_dtype == dtype
  ids = np.arange(10_000, dtype=np.int32) % large.size
  ids[5000:] = large.size - 1
  examples = [{"targets": ids}]
  task.splits["train"] = prepared_splits.write_split(
    examples, "train", task, tmp_path
  )
  whole = Denoising(Everything(), "nothing", "keep")
  lengths = {"inputs": 1, "targets": 101}
  split = EvaluationSplit(task, "train", lengths, 100, corruption=whole)
  (batch,) = split
  targets = batch.arrays["decoder_target_tokens"]
  np.testing.assert_array_equal(targets[:, :100].ravel(), ids)
