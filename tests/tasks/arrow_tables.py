"""Parquet and Arrow files of tests, and folders as `datasets` saves them."""

import io
import json
import pathlib

import pyarrow as pa
from pyarrow import parquet


def to_parquet(columns, **options) -> bytes:
  file = io.BytesIO()
  parquet.write_table(pa.table(columns), file, **options)
  return file.getvalue()


def to_arrow(columns, new=pa.ipc.new_stream, rows=None, **options) -> bytes:
  """An IPC stream, or a file with `new=pa.ipc.new_file`."""
  table, file = pa.table(columns), io.BytesIO()
  with new(file, table.schema, **options) as writer:
    writer.write_table(table, max_chunksize=rows)
  return file.getvalue()


def save_split(folder: pathlib.Path, *shards, **state) -> None:
  """Writes one split as `Dataset.save_to_disk` lays it out."""
  folder.mkdir(parents=True)
  names = [
    f"data-{index:05}-of-{len(shards):05}.arrow" for index in range(len(shards))
  ]
  for name, columns in zip(names, shards, strict=True):
    (folder / name).write_bytes(to_arrow(columns, rows=1000))
  content = {
    "_data_files": [{"filename": name} for name in names],
    "_fingerprint": "0123456789abcdef",
    "_format_columns": None,
    "_format_kwargs": {},
    "_format_type": None,
    "_output_all_columns": False,
    "_split": folder.name,
  }
  (folder / "state.json").write_text(json.dumps(content | state))
  (folder / "dataset_info.json").write_text("{}")


def save_splits(folder: pathlib.Path, **splits) -> None:
  """Writes several as `DatasetDict.save_to_disk` does."""
  for name, columns in splits.items():
    save_split(folder / name, columns)
  names = json.dumps({"splits": list(splits)})
  (folder / "dataset_dict.json").write_text(names)
