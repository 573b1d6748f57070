"""`zoo demo`: what ships with it, and what it prints."""

import hashlib
import re

import pytest

from transformer_zoo.cli import demo
from transformer_zoo.cli import main as cli


def test_the_shipped_checkpoint_is_that_of_its_gin_file():
  """It is the one that runs/miniature_demo_pretrain.gin says how to make."""
  file = demo.CHECKPOINT / "model.safetensors"
  digest = hashlib.sha256(file.read_bytes()).hexdigest()
  assert digest == (
    "0d9d3aae4c20c0c92e38be776864cedc396b8757e70ba34091c7f03adf56f512"
  )
  shipped = [file, demo.REPORT]
  assert sum(path.stat().st_size for path in shipped) < 3e6


def test_the_shipped_page_refers_to_no_file_that_is_not_shipped():
  links = re.findall(r'(?:href|src)="([^"]*)"', demo.REPORT.read_text())
  assert not [link for link in links if not link.startswith(("#", "http"))]


@pytest.mark.slow
def test_it_answers_and_learns(capsys, tmp_path):
  pytest.importorskip("seqio")
  folder = tmp_path / "demo"
  assert cli.main(["demo", "--output_dir", str(folder)]) == 0
  text = capsys.readouterr().out
  for right in ("an otter is an [animal", "a hammer is a [tool", "was [fit"):
    assert right in text
  before, after = re.search(r"was (\S+) and is (\S+);", text).groups()
  assert float(before) < 5 and float(after) > 70
  assert "a superb film. -> positive\n" in text
  assert "a tedious song. -> negative\n" in text
  # No run is left behind.
  assert {path.name for path in folder.iterdir()} == {"prepared", "report.html"}
  assert f"Open {folder / 'report.html'} in a browser." in text
