"""A place of fsspec that fails when told to, and a small run folder."""

import pathlib

import fsspec
from fsspec.implementations.memory import MemoryFileSystem


class Unreliable(MemoryFileSystem):
  """Fails whenever `fails` says so of (operation, path)."""

  protocol = "unreliable"
  cachable = False
  log = []

  @classmethod
  def _strip_protocol(cls, path):
    return super()._strip_protocol(path.removeprefix("unreliable://"))

  @staticmethod
  def fails(operation, path):
    return False

  def _attempt(self, operation, path):
    Unreliable.log.append((operation, path))
    if Unreliable.fails(operation, path):
      raise OSError("the network is away")

  def put_file(self, lpath, rpath, **kwargs):
    self._attempt("put", rpath)
    return super().put_file(lpath, rpath, **kwargs)

  def get_file(self, rpath, lpath, **kwargs):
    self._attempt("get", rpath)
    return super().get_file(rpath, lpath, **kwargs)


fsspec.register_implementation("unreliable", Unreliable, clobber=True)


def write(folder: pathlib.Path, **files):
  for name, text in files.items():
    path = folder / name.replace("__", "/").replace("_json", ".json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def a_run(folder, step=2):
  write(folder, metrics_jsonl="lines", config="gin")
  write(
    folder / "checkpoints" / str(step),
    state__d__numbers="123",
    checksums_json="{}",
  )


def there() -> set[str]:
  return {
    path.removeprefix("/run/")
    for path in MemoryFileSystem().find("/run", detail=False)
  }


RUN = {
  "config",
  "metrics.jsonl",
  "checkpoints/2/state/d/numbers",
  "checkpoints/2/checksums.json",
}


def forget() -> None:
  """Empties the memory of all places."""
  MemoryFileSystem.store.clear()
  Unreliable.log.clear()
