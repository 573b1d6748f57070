"""PyTorch's `.bin` files: repacked, of another byte order, damaged."""

import zipfile

import pytest
import torch

from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import pytorch_files

STATE = {
  "float32": torch.arange(12.0).reshape(3, 4),
  "bfloat16": torch.full((7,), 2.5, dtype=torch.bfloat16),
  "turned": torch.arange(6.0).reshape(2, 3).T,
  "int64": torch.arange(3),
}
# Bytes of a number in each of the files with storages.
WIDTHS = (4, 2, 4, 8)
SHAPE, STRIDES = b"K\x03K\x04\x86", b"K\x04K\x01\x86"
LARGER = (b"K\x03K\x14\x86", b"K\x14K\x01\x86")


@pytest.fixture(name="path")
def save_tensors(tmp_path):
  torch.save(STATE, tmp_path / "saved.bin")
  return tmp_path / "saved.bin"


def repacked(path, change=lambda name, content: content, *, compression=0):
  """The same archive written by `zipfile`, whose files are not aligned."""
  target = path.with_name("repacked.bin")
  with (
    zipfile.ZipFile(path) as source,
    zipfile.ZipFile(target, "w", compression) as archive,
  ):
    for name in source.namelist():
      content = change(name, source.read(name))
      if content is not None:
        archive.writestr(name, content)
  return target


def check_is_read(path):
  found = pytorch_files.read(path)
  assert found.keys() == STATE.keys()
  for name, expected in STATE.items():
    numbers = found[name].read().astype("float64")
    assert numbers.tolist() == expected.double().tolist(), name


def refusal(path) -> str:
  with pytest.raises(UserError) as error:
    pytorch_files.read(path)
  sentence = str(error.value)
  assert sentence.startswith(
    f"{str(path)!r} is no whole file of PyTorch tensors ("
  )
  assert sentence.endswith("); copy it again")
  assert "\n" not in sentence
  return sentence


@pytest.mark.parametrize(
  "compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]
)
def test_a_repacked_file(path, compression):
  check_is_read(repacked(path, compression=compression))


def number_of_storage(name) -> int | None:
  folder, _, number = name.rpartition("/")
  return int(number) if folder.endswith("/data") else None


def test_a_file_of_another_byte_order(path):
  def swapped(name, content):
    if name.endswith("byteorder"):
      return b"big"
    number = number_of_storage(name)
    if number is None:
      return content
    width = WIDTHS[number]
    return b"".join(
      content[i : i + width][::-1] for i in range(0, len(content), width)
    )

  check_is_read(repacked(path, swapped))


@pytest.mark.parametrize(
  "compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]
)
@pytest.mark.parametrize("cut", [8, -8])
def test_a_storage_of_another_size_than_its_tensor(path, compression, cut):
  def resized(name, content):
    if number_of_storage(name) != 0:
      return content
    return content[:-cut] if cut > 0 else content + bytes(-cut)

  refusal(repacked(path, resized, compression=compression))


def test_names_that_are_no_texts(path):
  torch.save({1: STATE["float32"]}, path)
  assert "its names of tensors are no texts: 1" in refusal(path)


def test_a_storage_that_is_lost(path):
  lost = repacked(path, lambda name, c: None if name.endswith("/1") else c)
  assert "data/1" in refusal(lost)


@pytest.mark.parametrize("kept_as_archive", [True, False])
def test_a_tensor_that_is_larger_than_its_storage(path, kept_as_archive):
  torch.save(STATE, path, _use_new_zipfile_serialization=kept_as_archive)

  def grown(name, content):
    if not name.endswith("data.pkl"):
      return content
    assert content.count(SHAPE) == 1
    return content.replace(SHAPE, LARGER[0]).replace(STRIDES, LARGER[1])

  if kept_as_archive:
    refusal(repacked(path, grown))
  else:
    path.write_bytes(grown("data.pkl", path.read_bytes()))
    refusal(path)


def test_files_that_overlap_in_an_archive(path):
  """The directory gives one file the bytes of another, too."""
  content = bytearray(repacked(path).read_bytes())
  with zipfile.ZipFile(path.with_name("repacked.bin")) as archive:
    first, second = (archive.getinfo(f"saved/data/{i}") for i in (0, 1))
    directory = archive.start_dir
  name = first.filename.encode()
  entry = content.index(name, directory) - 46
  # The sizes, compressed and not: beyond the beginning of the next file.
  size = first.file_size + 100
  content[entry + 20 : entry + 28] = 2 * size.to_bytes(4, "little")
  assert first.header_offset + size > second.header_offset
  path.write_bytes(content)
  refusal(path)


@pytest.mark.parametrize("kept_as_archive", [True, False])
def test_bytes_behind_a_file(path, kept_as_archive):
  torch.save(STATE, path, _use_new_zipfile_serialization=kept_as_archive)
  path.write_bytes(path.read_bytes() + b"more" * 10)
  check_is_read(path)


@pytest.mark.parametrize("kept_as_archive", [True, False])
def test_a_file_that_is_cut_off(path, kept_as_archive):
  torch.save(STATE, path, _use_new_zipfile_serialization=kept_as_archive)
  path.write_bytes(path.read_bytes()[:-30])
  refusal(path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\0" * 100, b"PK"])
def test_files_of_something_else(path, content):
  path.write_bytes(content)
  refusal(path)


@pytest.mark.parametrize("state", [[1], {"a": 1}, torch.zeros(2)])
def test_files_with_more_than_tensors_by_name(path, state):
  torch.save(state, path)
  refusal(path)


def test_a_file_that_is_larger_than_the_memory(path, monkeypatch):
  def load(*arguments, **options):
    raise RuntimeError("unable to mmap 9 bytes: Cannot allocate memory (12)")

  monkeypatch.setattr(torch, "load", load)
  with pytest.raises(UserError) as error:
    pytorch_files.read(path)
  assert str(error.value) == (
    f"{str(path)!r} is larger than the memory that this machine gives to a "
    "program (unable to mmap 9 bytes: Cannot allocate memory (12)); convert it "
    "to safetensors on a larger one"
  )
