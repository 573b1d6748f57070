"""Text of other languages, a document a line, as its files lie."""

import pytest
import seqio

import tasks  # noqa: F401 (registers them)

# Task -> the file of each split.
FILES = {
  **{
    f"flores200_{language}_text": {
      "validation": f"generation/flores200/dev.{language}",
      "test": f"generation/flores200/devtest.{language}",
    }
    for language in ("de", "fr", "ro")
  },
  "multi30k_de_text": {
    "train": "generation/multi30k_en_de/train.de",
    "validation": "generation/multi30k_en_de/val.de",
  },
}


@pytest.mark.parametrize("name", FILES)
def test_a_line_is_a_document(name, monkeypatch, tmp_path):
  monkeypatch.setenv("ZOO_DATA_DIR", str(tmp_path))
  for split, file in FILES[name].items():
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"„Wir {split} 4 Mäuse.\nO propoziție.\n", "utf-8")
  task = seqio.TaskRegistry.get(name)
  assert set(task.splits) == set(FILES[name])
  for split in FILES[name]:
    dataset = task.source.get_dataset(split, shuffle=False)
    texts = [row["text"].decode() for row in dataset.as_numpy_iterator()]
    assert texts == [f"„Wir {split} 4 Mäuse.", "O propoziție."]
