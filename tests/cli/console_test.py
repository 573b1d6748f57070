"""`zoo` starts itself again for huge pages: once, as the same process."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from transformer_zoo.cli import console

# As an installed script; what it starts tells what has become of the process.
SCRIPT = """
import json, os, pathlib, sys, types
from transformer_zoo.cli import console
console._KERNEL = pathlib.Path(sys.argv[0] + ".kernel")
console._glibc = lambda: (2, 36)

def main():
  heavy = [name for name in ("gin", "jax", "numpy") if name in sys.modules]
  tunables = os.environ.get("GLIBC_TUNABLES")
  print(json.dumps([os.getpid(), tunables, sys.stdin.read(), sys.argv[1:]]))
  assert not heavy
  return 7

sys.modules["transformer_zoo.cli.main"] = types.SimpleNamespace(
  main=main, INTERRUPTED=130
)
sys.exit(console.main())
"""


# After Ctrl-C a thread still reads what the interpreter takes away in the end.
INTERRUPTED = """
import atexit, sys, types
from transformer_zoo.cli import console

def main():
  atexit.register(print, "taken away")
  print("told")
  return 130

sys.modules["transformer_zoo.cli.main"] = types.SimpleNamespace(
  main=main, INTERRUPTED=130
)
sys.exit(console.main())
"""


@pytest.fixture(autouse=True)
def linux(monkeypatch, tmp_path):
  """A machine where huge pages have to be asked for."""
  for name in ("GLIBC_TUNABLES", console.VARIABLE):
    monkeypatch.delenv(name, raising=False)
  kernel = tmp_path / "zoo.kernel"
  kernel.write_text("always [madvise] never\n")
  monkeypatch.setattr(console, "_KERNEL", kernel)
  monkeypatch.setattr(console, "_glibc", lambda: (2, 36))
  return kernel


@pytest.mark.parametrize(
  "given, left",
  [
    ({}, "glibc.malloc.hugetlb=1"),
    (
      {"GLIBC_TUNABLES": "glibc.malloc.check=0"},
      "glibc.malloc.check=0:glibc.malloc.hugetlb=1",
    ),
    ({"GLIBC_TUNABLES": "glibc.malloc.hugetlb=0"}, "glibc.malloc.hugetlb=0"),
    ({"ZOO_HUGE_PAGES": "0"}, None),
  ],
)
def test_the_process_stays_and_its_tunables_are_joined(tmp_path, given, left):
  script = tmp_path / "zoo"
  script.write_text(SCRIPT)
  process = subprocess.Popen(
    [sys.executable, "-B", script, "ablate", "a b"],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    text=True,
    env={**os.environ, **given},
  )
  printed, _ = process.communicate("what stdin has")
  told = [process.pid, left, "what stdin has", ["ablate", "a b"]]
  assert json.loads(printed) == told
  assert process.returncode == 7


def test_after_an_interrupt_nothing_is_taken_away(tmp_path):
  script = tmp_path / "zoo"
  script.write_text(INTERRUPTED)
  done = subprocess.run(
    [sys.executable, "-B", script],
    capture_output=True,
    text=True,
    env={**os.environ, "ZOO_HUGE_PAGES": "0"},
  )
  assert (done.returncode, done.stdout, done.stderr) == (130, "told\n", "")


def test_where_tunables_are_taken_away_it_does_not_go_in_circles(monkeypatch):
  started = []
  monkeypatch.setattr(os, "execve", lambda *words: started.append(words[2]))
  console._start_again()
  monkeypatch.setenv(console.VARIABLE, started[0][console.VARIABLE])
  assert console.reason_not_to_ask() == "ZOO_HUGE_PAGES=asked"


def test_a_process_that_cannot_start_again_goes_on(monkeypatch):
  def refuse(*_):
    raise OSError(7, "Argument list too long")

  monkeypatch.setattr(os, "execve", refuse)
  console._start_again()


@pytest.mark.parametrize("setting", ["[always] madvise never", "[never]"])
def test_other_kernels_are_left_alone(linux, setting):
  assert console.reason_not_to_ask() == ""
  linux.write_text(setting + "\n")
  assert console.reason_not_to_ask() == f"{linux} is {setting}"
  linux.unlink()
  assert console.reason_not_to_ask() == f"this system has no {linux}"


@pytest.mark.parametrize("libc", [None, "glibc 2.34", "musl 1.2"])
def test_other_libraries_are_left_alone(monkeypatch, libc):
  monkeypatch.undo()
  monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
  monkeypatch.setattr(os, "confstr", lambda name: libc)
  told = "this system has no glibc 2.35 or newer"
  assert console.reason_not_to_ask() == told


@pytest.fixture
def no_cache(monkeypatch, tmp_path):
  """The home of a user who has chosen no cache of programs."""
  for name in (console._CACHE, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"):
    monkeypatch.setenv(name, "")  # So that it is restored in the end.
    monkeypatch.delenv(name)
  monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
  return tmp_path / "cache"


def test_programs_are_kept_in_the_cache_of_the_user(no_cache):
  console.keep_programs()
  folder = pathlib.Path(os.environ[console._CACHE])
  assert folder.parent == no_cache / "transformer_zoo" / "programs"
  assert folder.is_dir()


def test_processors_with_other_instructions_share_no_programs(
  no_cache, monkeypatch, tmp_path
):
  folders = set()
  for flags in ("flags : sse2", "flags : sse2 avx512f", "flags : sse2"):
    (tmp_path / "cpuinfo").write_text(f"processor : 0\n{flags}\n" * 2)
    monkeypatch.setattr(console, "_PROCESSORS", tmp_path / "cpuinfo")
    monkeypatch.delenv(console._CACHE, raising=False)
    console.keep_programs()
    folders.add(os.environ[console._CACHE])
  assert len(folders) == 2


def test_a_cache_that_the_user_has_chosen_stays(no_cache, monkeypatch):
  monkeypatch.setenv(console._CACHE, "/mine")
  console.keep_programs()
  assert os.environ[console._CACHE] == "/mine"
  assert not no_cache.exists()


def test_without_a_folder_programs_are_not_kept(no_cache):
  no_cache.write_text("a file")
  console.keep_programs()
  assert console._CACHE not in os.environ
