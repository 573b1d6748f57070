"""Measures `zoo convert`: `python benchmarks/convert.py --shape base`.

A synthetic Hugging Face directory of T5 v1.1's shape is converted into a run
and back; prints JSON with the medians and their ratios to copying the weights,
which is done in the same rounds: into the cache of pages (`copy`), and until
the copy is on the disk (`copy_to_disk`). What was written before is on the disk
when each of them starts, and only one target exists at a time: pages that no
one has used for a while cost a virtual machine several times as much to fill
as those that were just given back, so that whatever is written last, beside
what is kept, seems slow. For the same reason the order goes round.

`--memory` converts with `zoo` in a process of its own and prints the most
memory that it had, file pages included. The largest shapes need no disk for
it: the source is sparse, and what is written of the target is given back.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

from transformer_zoo import config as zoo_config
from transformer_zoo.checkpoints.converted_run import shapes_of
from transformer_zoo.conversion.convert import convert
from transformer_zoo.interop.huggingface import family_of
from transformer_zoo.interop.huggingface import writing
from transformer_zoo.tensors import safetensors
from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.tensors.links import to_theirs

# d_model, d_ff, heads, layers, rows of the embeddings.
SHAPES = {
  "small": (512, 1024, 6, 8, 32128),
  "base": (768, 2048, 12, 12, 32128),
  "large": (1024, 2816, 16, 24, 32128),
  "xl": (2048, 5120, 32, 24, 32128),
  "xxl": (4096, 10240, 64, 24, 32128),
  "mt5_xxl": (4096, 10240, 64, 24, 250112),
}
_KEPT_BYTES = 1 << 26
_WORTH_BYTES = 1 << 20
_WEIGHTS = ("*.safetensors", "checkpoints/*/state/*/[0-9]*")


def main():
  """Parses arguments, measures, prints."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--shape", choices=SHAPES, default="base")
  parser.add_argument("--dtype", choices=writing.DTYPES, default="float32")
  parser.add_argument("--repeats", type=int, default=5)
  parser.add_argument("--memory", action="store_true")
  parser.add_argument("--folder", help="on the disk to measure")
  arguments = parser.parse_args()
  with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
    place = pathlib.Path(folder)
    number = make(place / "theirs", arguments.shape, arguments.dtype,
                  sparse=arguments.memory)  # fmt: skip
    measure = peak_memory if arguments.memory else speed
    found = measure(place, arguments)
  settings = {"shape": arguments.shape, "dtype": arguments.dtype}
  print(json.dumps({**settings, "parameters": number, **found}, indent=2))


def described(shape: str) -> dict:
  """The config.json of T5 v1.1 of a shape; mT5 is one of more tokens."""
  d_model, d_ff, heads, layers, vocab_size = SHAPES[shape]
  return {
    "model_type": "t5",
    "d_model": d_model,
    "d_ff": d_ff,
    "num_heads": heads,
    "num_layers": layers,
    "vocab_size": vocab_size,
    "feed_forward_proj": "gated-gelu",
    "tie_word_embeddings": False,
  }


def make(folder, shape, dtype, *, sparse) -> int:
  """Writes the directory; returns how many parameters it has."""
  config = described(shape)
  family = family_of(config)
  built = family.architecture(config)
  model = zoo_config.build("MODEL", built.gin_files, built.as_overrides())
  tensors = {
    name: _numbers(name, shape, writing.DTYPES[dtype], sparse=sparse)
    for name, shape in shapes_of(model).items()
  }
  theirs = to_theirs(family.links(config), tensors)
  folder.mkdir()
  writing.write_json(folder / "config.json", config)
  with _given_back(folder) if sparse else contextlib.nullcontext():
    safetensors.write(folder / "model.safetensors", theirs)
  return sum(int(np.prod(tensor.shape)) for tensor in tensors.values())


def _numbers(name, shape, dtype, *, sparse) -> Tensor:
  """Others for each tensor; zeros but for the first where they are sparse."""
  seed = len(name) * 1000 + sum(map(ord, name))

  def read():
    if sparse:
      array = np.zeros(shape, dtype)
      array.flat[0] = seed
      return array
    noise = np.random.default_rng(seed).standard_normal(1 << 16, np.float32)
    return np.resize(noise.astype(dtype), shape)

  return Tensor(shape, dtype, read)


def speed(place: pathlib.Path, arguments) -> dict:
  """Seconds of copying, of converting, and of converting back."""
  weights = place / "theirs" / "model.safetensors"
  quiet = {"report": lambda line: None}
  convert(place / "theirs", place / "run", **quiet)
  works = {
    "copy": lambda target: shutil.copyfile(weights, target),
    "copy_to_disk": lambda target: _copy_to_disk(weights, target),
    "to_zoo": lambda target: convert(place / "theirs", target, **quiet),
    "to_huggingface": lambda target: convert(
      place / "run", target, dtype=arguments.dtype, **quiet
    ),
  }
  kinds = ("seconds", "cpu_seconds")
  measured = {kind: {work: [] for work in works} for kind in kinds}
  order = list(works)
  for _ in range(arguments.repeats + 1):
    for work in order:
      os.sync()
      start, cpu_start = time.perf_counter(), time.process_time()
      works[work](place / "target")
      measured["seconds"][work].append(time.perf_counter() - start)
      measured["cpu_seconds"][work].append(time.process_time() - cpu_start)
      _remove(place / "target")
    order.append(order.pop(0))
  # The first round also imports and fills the cache of pages.
  medians = {
    kind: {work: statistics.median(t[1:]) for work, t in measured[kind].items()}
    for kind in kinds
  }
  found = {"bytes": weights.stat().st_size, **medians}
  for copying in ("copy", "copy_to_disk"):
    found[f"seconds_to_{copying}"] = {
      work: seconds / medians["seconds"][copying]
      for work, seconds in medians["seconds"].items()
    }
  return found


def _remove(path: pathlib.Path) -> None:
  """Gives what one work has written back, for the next to write into."""
  if path.is_dir():
    shutil.rmtree(path)
  else:
    path.unlink()


def _copy_to_disk(source: pathlib.Path, target: pathlib.Path) -> None:
  """Copies a file and waits until it is on the disk."""
  shutil.copyfile(source, target)
  with open(target, "rb") as file:
    os.fsync(file.fileno())


def peak_memory(place: pathlib.Path, arguments) -> dict:
  """Gigabytes of the processes that convert between the three formats."""
  config = described(arguments.shape)
  built = family_of(config).architecture(config)
  model = [f"--gin_file={name}" for name in built.gin_files]
  model += [f"--gin.{binding}" for binding in built.as_overrides()]
  as_stored = ["--dtype", arguments.dtype]
  more_rows = ["--vocabulary_size", str(config["vocab_size"] + 128)]
  found = {}
  for what, source, target, words in (
    ("to_zoo", "theirs", "run", []),
    ("to_huggingface", "run", "back", as_stored),
    ("to_t5x", "run", "t5x", ["--to=t5x"]),
    ("to_zoo_of_t5x", "t5x", "of_t5x", model),
    ("to_scanned_t5x", "run", "scanned", ["--to=t5x", "--scanned"]),
    ("to_zoo_of_scanned_t5x", "scanned", "of_scanned", model),
    ("resized", "theirs", "resized", more_rows),
  ):
    command = [sys.executable, "-c", _CONVERT, place / source, place / target]
    with _given_back(place / f"{target}.partial" / "whole"):
      done = subprocess.run(
        [*map(str, command), *words], check=True, stdout=subprocess.PIPE
      )
    found[f"gigabytes_{what}"] = int(done.stdout.split()[-1]) / 1e6
    print(what, found[f"gigabytes_{what}"], file=sys.stderr)
    for sums in (place / target).glob("checkpoints/*/checksums.json"):
      sums.unlink()  # The files have holes by now.
  return found


_CONVERT = """
import resource, sys
from transformer_zoo.cli import main
assert main.main(["convert", *sys.argv[1:]]) == 0
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@contextlib.contextmanager
def _given_back(folder: pathlib.Path):
  """Punches holes into what is written of weights, all but the last bytes."""
  ended = threading.Event()

  def run():
    while not ended.wait(0.5):
      # The folder is renamed when it is whole.
      with contextlib.suppress(
        FileNotFoundError, subprocess.CalledProcessError
      ):
        for pattern in _WEIGHTS:
          for path in folder.glob(pattern):
            _punch(path, path.stat())

  thread = threading.Thread(target=run)
  thread.start()
  try:
    yield
  finally:
    ended.set()
    thread.join()


def _punch(path: pathlib.Path, status: os.stat_result) -> None:
  """Gives back what is written; a safetensors file keeps its header."""
  first = _KEPT_BYTES if path.suffix == ".safetensors" else 0
  finished = time.time() - status.st_mtime > 2
  end = status.st_size - (0 if finished else _KEPT_BYTES)
  if end > first and status.st_blocks * 512 > 2 * first + _WORTH_BYTES:
    subprocess.run(
      ["fallocate", "--punch-hole", f"--offset={first}",
       f"--length={end - first}", str(path)],
      check=True,
    )  # fmt: skip


if __name__ == "__main__":
  main()
