"""Stand-ins for object stores: one that fails on request, and a bucket."""

import http.server
import importlib
import json
import os
import pathlib
import threading
import urllib.parse

from etils.epath import backend
from etils.epath import gpath
import fsspec
from fsspec.implementations.memory import MemoryFileSystem


class Unreliable(MemoryFileSystem):
  """A store that fails if `fails`(operation, path) returns True."""

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

  def rm_file(self, path):
    self._attempt("remove", path)
    return super().rm_file(path)


fsspec.register_implementation("unreliable", Unreliable, clobber=True)


class GoogleStorage(MemoryFileSystem):
  """The objects of `gs://`, as fsspec reads and writes them."""

  protocol = ("gs", "gcs")
  cachable = False
  store = {}
  pseudo_dirs = [""]

  @classmethod
  def _strip_protocol(cls, path):
    path = os.fspath(path).removeprefix("gs://").removeprefix("gcs://")
    return super()._strip_protocol(path)


class _Requests(http.server.BaseHTTPRequestHandler):
  """The same objects, as TensorStore reads and writes them by HTTP."""

  protocol_version = "HTTP/1.1"

  def log_message(self, *_):
    pass

  def do_POST(self):
    bucket, name, query = self._parsed()
    path = f"/{bucket}/{name or query['name']}"
    content = self.rfile.read(int(self.headers["Content-Length"]))
    GoogleStorage().pipe_file(path, content)
    self._answer(200, json.dumps(self._metadata(path)).encode())

  def do_GET(self):
    bucket, name, query = self._parsed()
    if not name:
      prefix = f"/{bucket}/{query.get('prefix', '')}"
      found = sorted(p for p in GoogleStorage.store if p.startswith(prefix))
      items = [self._metadata(path) for path in found]
      self._answer(200, json.dumps({"items": items}).encode())
      return
    path = f"/{bucket}/{name}"
    if path not in GoogleStorage.store:
      self._answer(404)
      return
    content = GoogleStorage.store[path].getvalue()
    headers = {"x-goog-generation": self._metadata(path)["generation"]}
    if "Range" not in self.headers:
      self._answer(200, content, **headers)
      return
    first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
    start = int(first) if first else max(0, len(content) - int(last))
    end = int(last) + 1 if first and last else len(content)
    part = content[start:end]
    place = f"bytes {start}-{start + len(part) - 1}/{len(content)}"
    self._answer(206, part, **headers, **{"Content-Range": place})

  def do_DELETE(self):
    bucket, name, _ = self._parsed()
    found = GoogleStorage.store.pop(f"/{bucket}/{name}", None)
    self._answer(404 if found is None else 204)

  def _parsed(self) -> tuple[str, str, dict[str, str]]:
    """The bucket, the object's name and the query of the request's URL."""
    url = urllib.parse.urlsplit(self.path)
    place, _, name = url.path.partition("/o/")
    bucket = place.removesuffix("/o").rpartition("/")[2]
    query = dict(urllib.parse.parse_qsl(url.query))
    return bucket, urllib.parse.unquote(name), query

  def _metadata(self, path) -> dict[str, str]:
    content = GoogleStorage.store[path]
    return {
      "name": path.split("/", 2)[2],
      "generation": str(id(content)),
      "size": str(len(content.getvalue())),
    }

  def _answer(self, status, content=b"", **headers):
    self.send_response(status)
    headers["Content-Length"] = str(len(content))
    for name, value in headers.items():
      self.send_header(name, value)
    self.end_headers()
    self.wfile.write(content)


_servers = []


def use_bucket(monkeypatch) -> None:
  """Makes `gs://` a store in memory, for fsspec, epath and TensorStore."""
  if not _servers:  # TensorStore reads the address once.
    address = ("127.0.0.1", 0)
    _servers.append(http.server.ThreadingHTTPServer(address, _Requests))
    threading.Thread(target=_servers[0].serve_forever, daemon=True).start()
  address = f"http://127.0.0.1:{_servers[0].server_port}"
  monkeypatch.setenv("TENSORSTORE_GCS_HTTP_URL", address)
  monkeypatch.setenv("GOOGLE_AUTH_TOKEN_FOR_TESTING", "any")
  # The package has an attribute of the module's name.
  registry = importlib.import_module("fsspec.registry")
  for name in GoogleStorage.protocol:
    monkeypatch.setitem(registry._registry, name, GoogleStorage)
  monkeypatch.setattr(gpath, "_is_tf_installed", lambda: False)
  # Without the cache of the original.
  monkeypatch.setattr(
    backend.fsspec_backend, "_get_filesystem", fsspec.filesystem
  )


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


def there(store=MemoryFileSystem, root="/run/") -> set[str]:
  return {path.removeprefix(root) for path in store().find(root, detail=False)}


RUN = {
  "config",
  "metrics.jsonl",
  "checkpoints/2/state/d/numbers",
  "checkpoints/2/checksums.json",
}


def forget() -> None:
  """Empties the memory of all stores."""
  MemoryFileSystem.store.clear()
  GoogleStorage.store.clear()
  Unreliable.log.clear()
