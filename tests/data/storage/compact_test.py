"""Record files that are packed and written again."""

from array_record.python import array_record_module
import numpy as np
import pytest

from transformer_zoo.data.storage import compact
from transformer_zoo.data.storage import records


def write(path, examples):
  writer = array_record_module.ArrayRecordWriter(
    str(path), records.WRITER_OPTIONS
  )
  for example in examples:
    writer.write(example)
  writer.close()


def questions():
  """Questions about three contexts, in turn: the context comes last."""
  rng = np.random.default_rng(0)
  contexts = [rng.integers(0, 4096, 300) for _ in range(3)]
  for number in range(60):
    question = rng.integers(0, 4096, rng.integers(1, 20))
    ids = np.concatenate([question, contexts[number % 3]]).astype(np.int32)
    yield records.encode_example({"inputs": ids}, {"id": number})


def test_a_file_is_written_again_byte_by_byte(tmp_path):
  before, after = tmp_path / "before.array_record", tmp_path / "after"
  write(before, questions())
  compact.unpack(compact.pack(before), after)
  assert after.read_bytes() == before.read_bytes()


def test_what_repeats_lies_side_by_side(tmp_path):
  path = tmp_path / "records.array_record"
  write(path, questions())
  packed = compact.pack(path)
  order = np.frombuffer(packed, "<i4", 60, 8)
  assert sorted(order) == list(range(60))
  assert np.count_nonzero(np.diff(order % 3)) == 2


@pytest.mark.parametrize("number", [0, 1])
def test_few_records(tmp_path, number):
  before, after = tmp_path / "before.array_record", tmp_path / "after"
  write(before, list(questions())[:number])
  compact.unpack(compact.pack(before), after)
  assert after.read_bytes() == before.read_bytes()
