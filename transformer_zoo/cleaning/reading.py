"""Pages out of WET files and JSON Lines, gzip or not."""

from collections.abc import Callable, Iterator
import gzip
import json
from typing import Any, BinaryIO
import zlib

from transformer_zoo.errors import UserError

# {"text": ..., "url": ..., "timestamp": ...} and what else a JSON line has.
Page = dict[str, Any]

_GZIP = b"\x1f\x8b"
_WARC = b"WARC/"
_PIECE = 1 << 20  # Bytes that are read at once.
_DIGITS = 18  # Of the lengths that a file may have.
# Common Crawl cuts pages at 1 MiB; of more a small file may promise gigabytes.
_LONGEST = 16 << 20
_TOO_LONG = f"is longer than {_LONGEST >> 20} MiB, the most of a page"


def refuse(sentence: str) -> None:
  """Raises UserError, the handling of bad input that is not skipped."""
  raise UserError(
    f"{sentence}; correct it, or pass over what is bad with --skip_bad_rows."
  )


def read_pages(
  file: BinaryIO, name: str, on_bad: Callable[[str], None] = refuse
) -> Iterator[Page]:
  """Yields the pages of a file, WET or JSON Lines by its first bytes.

  Args:
    file: A file at its beginning that can be rewound.
    name: The name of the file, for errors.
    on_bad: called with a sentence for a line or record that cannot be used, and
      for what is damaged, after which reading ends.
  """
  start = file.read(len(_GZIP))
  file.seek(0)
  stream = gzip.GzipFile(fileobj=file) if start == _GZIP else file
  try:
    first = _next_line(stream)
    if first is not None and first.startswith(_WARC):
      yield from _read_wet(first, stream, name, on_bad)
    else:
      yield from _read_json_lines(first, stream, name, on_bad)
  except (EOFError, gzip.BadGzipFile, zlib.error) as error:
    on_bad(f"The file {name!r} is damaged or cut short ({error})")


def _next_line(stream: BinaryIO) -> bytes | None:
  """The next line, empty at the end; None for one that exceeds `_LONGEST`."""
  line = stream.readline(_LONGEST + 1)
  if len(line) <= _LONGEST:
    return line
  while line and not line.endswith(b"\n"):
    line = stream.readline(_PIECE)
  return None


def _read_json_lines(
  line: bytes | None, stream: BinaryIO, name: str, on_bad: Callable[[str], None]
) -> Iterator[Page]:
  number = 1
  if line is not None:
    line = line.removeprefix(b"\xef\xbb\xbf")
  while line is None or line:
    if line is None:
      on_bad(f"Line {number} of {name!r} {_TOO_LONG}")
    elif line.strip():
      page, problem = _parse_line(line)
      if problem:
        on_bad(f"Line {number} of {name!r} {problem}")
      else:
        yield page
    number += 1
    line = _next_line(stream)


def _parse_line(line: bytes) -> tuple[Page, str | None]:
  """Returns a page and what is wrong with it."""
  try:
    page = json.loads(line.decode())
  except UnicodeDecodeError as error:
    return {}, f"is not UTF-8 (byte {error.start + 1})"
  except (ValueError, RecursionError):
    return {}, "is not JSON"
  if not isinstance(page, dict):
    return {}, "is not a JSON object"
  if not isinstance(page.get("text"), str):
    return {}, "has no 'text' that is a string"
  for field in ("url", "timestamp"):
    if not isinstance(page.get(field) or "", str):
      return {}, f"has a {field!r} that is not a string"
  if b"\\u" in line:
    try:
      json.dumps(page, ensure_ascii=False).encode()
    except UnicodeEncodeError:
      return {}, "has half a surrogate pair, which is no character"
  return page, _find_nul(page)


def _find_nul(page: Page) -> str | None:
  return "has a NUL character" if "\0" in page["text"] else None


def _read_wet(
  line: bytes, stream: BinaryIO, name: str, on_bad: Callable[[str], None]
) -> Iterator[Page]:
  """Yields the conversion records (ISO 28500, 6.8) of a WET file."""
  number = 0
  while line:
    if line.strip():
      number += 1
      record = f"Record {number} of {name!r}"
      if not line.startswith(_WARC):
        on_bad(f"{record} begins with something else than {_WARC.decode()}")
        return
      headers = _read_headers(stream)
      length = headers.get("content-length", "")
      if not (length.isascii() and length.isdigit()):
        on_bad(
          f"{record} has the Content-Length {length!r}, which is no number"
        )
        return
      size = int(length[:_DIGITS])
      if size > _LONGEST and _pass_over(stream, size):
        on_bad(f"{record} {_TOO_LONG}")
        line = _next_line(stream)
        continue
      content = _read_content(stream, size)
      if content is None:
        on_bad(
          f"{record} has the Content-Length {length}, and the file ends before"
        )
        return
      if headers.get("warc-type") == "conversion":
        page, problem = _page_of(headers, content)
        if problem:
          on_bad(f"The record of {page['url']!r} in {name!r} {problem}")
        else:
          yield page
    line = _next_line(stream)
    if line is None:
      on_bad(f"A line behind record {number} of {name!r} {_TOO_LONG}")
      return


def _pass_over(stream: BinaryIO, length: int) -> bool:
  """Reads bytes of a stream away; False if it has fewer."""
  while length > 0:
    piece = stream.read(min(length, _PIECE))
    if not piece:
      return False
    length -= len(piece)
  return True


def _read_content(stream: BinaryIO, length: int) -> bytes | None:
  """The next bytes of a stream; None if it has fewer.

  Memory is taken for what the stream has, not for what a header promises.
  """
  pieces = []
  while length > 0:
    piece = stream.read(min(length, _PIECE))
    if not piece:
      return None
    pieces.append(piece)
    length -= len(piece)
  return b"".join(pieces)


def _read_headers(stream: BinaryIO) -> dict[str, str]:
  headers = {}
  for line in iter(lambda: _next_line(stream), b""):
    if line is None:
      continue
    if not line.strip():
      break
    key, _, value = line.decode(errors="replace").partition(":")
    headers[key.strip().lower()] = value.strip()
  return headers


def _page_of(
  headers: dict[str, str], content: bytes
) -> tuple[Page, str | None]:
  page = {
    "text": "",
    "url": headers.get("warc-target-uri", ""),
    "timestamp": headers.get("warc-date", ""),
  }
  try:
    page["text"] = content.decode()
  except UnicodeDecodeError as error:
    return page, f"is not UTF-8 (byte {error.start + 1})"
  return page, _find_nul(page)
