"""The setup of every test: 8 simulated devices, strict shapes, no downloads."""

import ctypes
import gc
import os
import pathlib
import shutil
import sys
import tempfile

import pytest

from tests import quick_compilation

# Environment variables and not jax.config: subprocesses and the workers of
# pytest-xdist inherit them, and they stand before anything imports JAX.
os.environ["XLA_FLAGS"] = quick_compilation.flags(devices=8)
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["JAX_NUMPY_RANK_PROMOTION"] = "raise"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

_CACHE = "JAX_COMPILATION_CACHE_DIR"
ROOT = pathlib.Path(__file__).resolve().parent.parent


def pytest_configure(config):
  """Gives the run one compilation cache, shared by workers and subprocesses."""
  if _CACHE not in os.environ:
    config.compilation_cache = tempfile.mkdtemp(prefix="zoo_test_cache_")
    os.environ[_CACHE] = config.compilation_cache
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"
  # XLA's own caches would put the path of the folder into every key.
  os.environ["JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES"] = "none"


def pytest_sessionstart(session):
  session.config.in_root = _in_root()


def pytest_sessionfinish(session):
  """Fails where a test has left something in the root of the repository."""
  left = _in_root() - session.config.in_root
  if left and not hasattr(session.config, "workerinput"):
    print(f"\ntests have left in {ROOT}: {', '.join(sorted(left))}")
    session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _in_root() -> set[str]:
  """Names of what lies there, but for caches and what users make meanwhile."""
  return {
    name
    for name in os.listdir(ROOT)
    if not name.startswith((".", "__")) and name not in ("runs", "build")
  }


def pytest_collection():
  """What is imported lives to the end: it is not searched for garbage."""
  gc.disable()


def pytest_collection_finish():
  """Searches the rest less often: it was a quarter of a test that traces."""
  gc.freeze()
  gc.set_threshold(10_000)
  gc.enable()


def pytest_runtest_teardown(item, nextitem):
  """Lets go of compiled programs after a file, once they take 2.5 GiB."""
  if nextitem is None or nextitem.path == item.path:
    return
  if _resident_bytes() > 2.5 * 2**30:
    for name, module in list(sys.modules.items()):
      if name.startswith("tests."):
        for value in list(vars(module).values()):
          if hasattr(value, "cache_clear"):
            value.cache_clear()
    jax = sys.modules.get("jax")
    if jax:
      jax.clear_caches()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def _resident_bytes() -> int:
  """Returns this process's resident memory; 0 where Linux does not tell it."""
  try:
    pages = pathlib.Path("/proc/self/statm").read_text().split()[1]
  except OSError:
    return 0
  return int(pages) * os.sysconf("SC_PAGE_SIZE")


def pytest_unconfigure(config):
  """Removes the compilation cache with the run that made it."""
  folder = getattr(config, "compilation_cache", None)
  if folder:
    shutil.rmtree(folder, ignore_errors=True)
    del os.environ[_CACHE]


@pytest.fixture(scope="session")
def shared_data() -> pathlib.Path:
  """The folder with real data; tests that need it are skipped without it."""
  named = os.environ.get("ZOO_SHARED_DATA")
  places = [pathlib.Path(named)] if named else [ROOT.parent / "shared" / "data"]
  if named:
    places.append(pathlib.Path(named) / "data")
  for place in places:
    if (place / "tfds").is_dir():
      return place
  pytest.skip(
    "no real data: set ZOO_SHARED_DATA to a folder with tfds/, text/, vocab/"
  )


@pytest.fixture(scope="module")
def browser():
  """A headless Chromium; tests that need it are skipped where there is none."""
  sync_api = pytest.importorskip("playwright.sync_api")
  names = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "chromium-headless-shell",
  )
  installed = next(filter(None, map(shutil.which, names)), None)
  with sync_api.sync_playwright() as playwright:
    chromium = playwright.chromium
    if (
      installed is None and not pathlib.Path(chromium.executable_path).exists()
    ):
      pytest.skip("there is no Chromium: apt-get install chromium")
    browser = chromium.launch(executable_path=installed)
    yield browser
    browser.close()


# Heads, vocabulary and feed-forward divide over up to 8 devices.
_SIZES = (
  "EMBED_DIM=16",
  "MLP_DIM=32",
  "NUM_HEADS=8",
  "HEAD_DIM=4",
  "NUM_ENCODER_LAYERS=1",
  "NUM_DECODER_LAYERS=1",
  "VOCAB_SIZE=64",
)


@pytest.fixture(scope="session")
def make_model():
  """Returns a function that builds a tiny T5 v1.1, macros as arguments."""
  # They import JAX, which reads the environment that is set above.
  import gin

  from transformer_zoo import config

  def make(**macros):
    overrides = [f"{name}={value!r}" for name, value in macros.items()]
    config.load(
      ["architectures/t5_1_1.gin"], [*_SIZES, *overrides], root="MODEL"
    )
    model = config.value("MODEL")
    gin.clear_config()
    return model

  return make
