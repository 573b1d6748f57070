"""Contents of an installed package: every module, gin file and vocabulary."""

import os
import pathlib
import subprocess
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHIPPED = ("transformer_zoo", "tasks", "mixtures", "gin_configs")
# Built by setuptools itself, so that no package index is asked.
BUILD = """
import os, sys
from setuptools import build_meta
print(build_meta.build_wheel(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
  pytest.importorskip("setuptools")
  source = tmp_path_factory.mktemp("source")
  for name in ("setup.py", "LICENSE", *SHIPPED):
    # Copies are links: setuptools writes build/ beside setup.py.
    os.symlink(ROOT / name, source / name)
  folder = tmp_path_factory.mktemp("wheel")
  subprocess.run(
    [sys.executable, "-c", BUILD, str(folder)],
    cwd=source,
    check=True,
    capture_output=True,
  )
  (path,) = folder.glob("*.whl")
  return zipfile.ZipFile(path)


def test_the_wheel_holds_every_file(wheel):
  expected = {
    str(path.relative_to(ROOT))
    for folder in SHIPPED
    for suffix in (
      *("*.py", "*.gin", "*.model", "*.yaml", "*.safetensors"),
      *("*.jsonl", "*.tsv"),
    )
    for path in (ROOT / folder).rglob(suffix)
  }
  assert "tasks/miniature/vocabulary.model" in expected
  assert any(name.endswith(".gin") for name in expected)
  assert not expected - set(wheel.namelist())


def test_the_wheel_holds_no_tests(wheel):
  tops = {name.partition("/")[0] for name in wheel.namelist()}
  assert {top for top in tops if not top.endswith(".dist-info")} == set(SHIPPED)


def test_an_installed_package_finds_its_gin_files(wheel, tmp_path):
  wheel.extractall(tmp_path)
  script = (
    "from transformer_zoo.config import reading\n"
    "print(reading.find('architectures/t5_1_1.gin', []))"
  )
  found = subprocess.run(
    [sys.executable, "-c", script],
    cwd=tmp_path,
    env={**os.environ, "PYTHONPATH": str(tmp_path)},
    capture_output=True,
    text=True,
    check=True,
  ).stdout.strip()
  assert pathlib.Path(found) == (
    tmp_path / "gin_configs" / "architectures" / "t5_1_1.gin"
  )


def test_constraints_are_plain_versions():
  for line in (ROOT / "constraints.txt").read_text().splitlines():
    name, equals, version = line.partition("==")
    assert name and equals and version and "/" not in line and "@" not in line
