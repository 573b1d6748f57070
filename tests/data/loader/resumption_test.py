"""Batches are the same after restarts, on any number of processes.

Three hundred batches of each way to make them, by their hashes.
"""

import hashlib
import itertools

import numpy as np
import pytest

from transformer_zoo.data.loader import loader
from transformer_zoo.data.loader import packing
from transformer_zoo.data.storage.manifest import PreparedMixture

STEPS = 300
LENGTHS = {"inputs": 32, "targets": 16}
SHORT = {"inputs": 16, "targets": 12}
# Name -> (numbers of processes one after the other, arguments).
WAYS = {
  "packed": ((2, 1, 8, 4), {}),
  "unpacked": ((4, 8, 1, 2), {"packing": False, "static_copies": 2}),
  "warm_up": (
    (4, 1, 4),
    {
      "batch_size_warmup": {100: 8, 180: 24},
      "length_warmup": {135: SHORT},
      "max_tokens": 4000,
    },
  ),
  "later_rates": (
    (2, 1, 4),
    {
      "later_rates": {100: {"few": 1, "text": 2}, 200: {"many": 1.0}},
      "length_warmup": {150: SHORT},
    },
  ),
  "bucketed": (
    (1, 4, 1),
    {
      "packing": False,
      "length_buckets": ({"inputs": 8, "targets": 8, "batch_size": 32},),
    },
  ),
}


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


def batches(mixture, first, last, **arguments):
  """The batches from step `first` to `last`, of one process."""
  iterator = loader.training_batches(
    mixture,
    split="train",
    lengths=LENGTHS,
    batch_size=16,
    seed=3,
    start_step=first,
    **arguments,
  )
  yield from itertools.islice(iterator, last - first)
  iterator.close()


def digest(parts):
  """The hash of a batch, whose rows the processes have in `parts`."""
  content = hashlib.sha256()
  for key in sorted(parts[0]):
    rows = np.concatenate([part[key] for part in parts])
    content.update(f"{key} {rows.dtype} {rows.shape}".encode())
    content.update(np.ascontiguousarray(rows))
  return content.hexdigest()


@pytest.fixture(autouse=True)
def small_groups(monkeypatch):
  """Counts rows a few windows at a time, as tiny tasks need no more."""
  monkeypatch.setattr(packing, "_GROUP", 4)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_batches_after_restarts_on_other_processes(mixture, way):
  counts, arguments = WAYS[way]
  whole = [digest([b]) for b in batches(mixture, 0, STEPS, **arguments)]
  assert len(set(whole)) == STEPS
  rng = np.random.default_rng(1)
  restarts = rng.choice(np.arange(1, STEPS), len(counts) - 1, replace=False)
  bounds = itertools.pairwise([0, *np.sort(restarts).tolist(), STEPS])
  found = []
  for count, (first, last) in zip(counts, bounds, strict=True):
    processes = [
      batches(
        mixture, first, last, shares=(index,), num_shares=count, **arguments
      )
      for index in range(count)
    ]
    found += [digest(parts) for parts in zip(*processes, strict=True)]
  assert found == whole, f"{counts} processes, restarts at {restarts}"
