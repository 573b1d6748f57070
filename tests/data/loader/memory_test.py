"""A process stays as large as it is, however large the data are."""

import json
import pathlib
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data.loader import loader
from transformer_zoo.data.loader.sources import ExampleCache
from transformer_zoo.data.storage.manifest import PreparedMixture

# A batch has 0.3 MB: if one in twenty were kept, it would show.
PROGRAM = """
  import json, sys
  from transformer_zoo.data.loader import loader
  from transformer_zoo.data.storage import manifest

  def anonymous():  # memory that no file stands behind, in MB
    with open("/proc/self/status") as status:
      lines = dict(line.split(":", 1) for line in status)
    return int(lines["RssAnon"].split()[0]) / 1024

  mixture = manifest.load(sys.argv[1], sys.argv[2])
  batches = loader.training_batches(
    mixture, split="train", lengths={"inputs": 512, "targets": 120},
    batch_size=32, seed=0)
  found = []
  for step in range(600):
    next(batches)
    if step % 200 == 199:
      found.append(anonymous())
  print(json.dumps(found))
"""


def sizes(task, folder):
  """The size of a reading process after 200, 400 and 600 batches."""
  done = subprocess.run(
    [sys.executable, "-c", textwrap.dedent(PROGRAM), task.name, str(folder)],
    capture_output=True,
    text=True,
    check=False,
    cwd=pathlib.Path(__file__).parents[3],
  )
  assert done.returncode == 0, done.stderr
  return json.loads(done.stdout)


def documents(number, length=100_000):
  rng = np.random.default_rng(0)
  for _ in range(number):
    yield {"targets": rng.integers(3, 43, length).astype(np.int32)}


@pytest.mark.slow
def test_memory_grows_neither_with_steps_nor_with_the_corpus(
  make_task, tmp_path
):
  small = sizes(make_task("small", documents(10), kind="tokens"), tmp_path)
  large = sizes(make_task("large", documents(160), kind="tokens"), tmp_path)
  # 600 batches read 11 million of the 16 million tokens, 22 MB.
  for found in (small, large):
    assert found[-1] - found[0] < 4
  assert large[-1] - small[-1] < 8


def examples(number, length):
  rng = np.random.default_rng(0)
  return [
    {
      name: rng.integers(3, 43, length).astype(np.int32)
      for name in ("inputs", "targets")
    }
    for _ in range(number)
  ]


def test_small_tasks_are_kept_up_to_a_sum(make_task, monkeypatch):
  tasks = tuple(
    make_task(name, examples(number, 20))
    for name, number in (("a", 100), ("b", 200), ("c", 300))
  )
  mixture = PreparedMixture("mixture", tasks, (1.0, 1.0, 1.0))
  arguments = {
    "split": "train",
    "lengths": {"inputs": 20, "targets": 20},
    "batch_size": 60,
    "seed": 0,
  }

  def batches():
    opened = loader.open_batches(mixture, **arguments)
    kept = [source.cached_bytes for source in opened._readers[0]._sources]
    return kept, [opened[step] for step in range(30)]

  each = [number * (160 + 33) for number in (100, 200, 300)]
  kept, whole = batches()
  assert kept == each
  monkeypatch.setattr(
    "transformer_zoo.data.loader.batches.CACHE_BYTES", sum(each[:2])
  )
  kept, bounded = batches()
  assert kept == [*each[:2], 0]
  for batch, other in zip(whole, bounded, strict=True):
    for key in batch:
      np.testing.assert_array_equal(batch[key], other[key])


def test_cache_holds_what_was_put():
  rng = np.random.default_rng(0)
  lengths = rng.integers(0, 9, (50, 2))
  rows = [
    [rng.integers(0, 99, size).astype(np.int32) for size in sizes]
    for sizes in lengths.T
  ]
  cache = ExampleCache(lengths, ("inputs", "targets"))
  wanted = np.array([7, 3, 7, 49, 0])
  assert cache.missing(wanted).tolist() == [0, 3, 7, 49]
  for some in (np.array([3, 49]), np.array([0, 7, 3])):
    cache.put(
      some,
      {
        "inputs": Ragged.of([rows[0][i] for i in some]),
        "targets": Ragged.of([rows[1][i] for i in some]),
      },
    )
  assert cache.missing(wanted).size == 0
  assert cache.missing(np.array([1])).tolist() == [1]
  taken = cache.take(wanted)
  for name, some in zip(("inputs", "targets"), rows, strict=True):
    found = taken[name].rows()
    for row, index in zip(found, wanted, strict=True):
      np.testing.assert_array_equal(row, some[index])
