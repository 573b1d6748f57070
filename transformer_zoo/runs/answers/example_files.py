"""Files of examples to answer, and of their answers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
import io
import json
import os
import pathlib
import re
import sys
from typing import Any

import numpy as np

from transformer_zoo.checkpoints import run_layout
from transformer_zoo.errors import UserError
from transformer_zoo.processes import distributed

Examples = Iterator[dict[str, Any]]
_STDIN = "-"
_MOST_SPANS = 3
# What a file is called, and no text of one word is: `texts.jsonl`, `a/b.csv`.
_FILE_NAME = re.compile(
  r"\S+\.(jsonl?|txt)|(?!\S*://)\S*/\S*\.[a-z][a-z\d]{0,4}"
)


def chosen(
  words: Sequence[str],
  *,
  output: str | None,
  interactive: bool,
  scored: bool,
  as_json: bool = False,
  embeddings: str | None = None,
) -> Examples:
  """Returns the examples of a command line: `asked` if interactive, or `read`.

  Args:
    words: The texts and the names of files of the command line.
    output: The path of the output; None for standard output.
    interactive: Whether texts are asked for on the terminal.
    scored: Whether a text may have targets after a tab.
    as_json: Whether answers are to be printed as JSON Lines.
    embeddings: The path of the file of vectors, which takes the place of the
      output; None for answers.

  Raises:
    UserError: Options exclude each other, a word names a file that is missing,
      standard input is named twice, or the output cannot be written.
  """
  if embeddings:
    if output or interactive or scored or as_json:
      raise UserError(
        "--embeddings writes vectors and nothing else; leave --output, "
        "--interactive, --score and --json out"
      )
    if not embeddings.endswith(".npz"):
      raise UserError(
        f"--embeddings {embeddings!r} has to end in .npz, the kind of the file"
      )
  output = output or embeddings
  if interactive:
    if words or output:
      raise UserError(
        "--interactive takes neither texts nor files nor --output"
      )
    return asked(scored=scored)
  if distributed.is_first():
    _check_names(words)
    if output:
      _check_output(output, words)
  return read(words, scored=scored)


def read(words: Sequence[str], *, scored: bool) -> Examples:
  """Yields the examples in texts and files, or in standard input.

  Args:
    words: The texts and the names of files. In a file that ends in .jsonl every
      line that is not blank is an object; in any other file every line is a
      text, blank ones too. `-` is standard input, of texts. No words stand for
      standard input.
    scored: Whether a text may have targets after a tab.

  Raises:
    UserError: A file cannot be read or is not UTF-8, one of its lines is no
      object or cannot be written again as it is, or there is no text at all.
  """
  words = words or [_STDIN]
  empty = True
  for word in words:
    for example in _of_word(word, scored):
      empty = False
      yield example
  if empty:
    names = ["standard input" if w == _STDIN else repr(w) for w in words]
    raise UserError(
      f"there is no text in {', '.join(names)}; write one on each line"
    )


def asked(*, scored: bool) -> Examples:
  """Asks for one text after another on standard input."""
  return _of_lines(_typed(), scored)


def journal_of(output: str | None) -> str | None:
  """Returns the path of the journal of answers beside an output, or None."""
  return None if output is None else f"{output}.journal"


def write(answers: Iterable[Mapping[str, Any]], output: str) -> None:
  """Writes JSON Lines, whole or not at all, and removes the journal.

  The first of several processes writes; all of them compute the answers.
  """
  text = "".join(f"{_line(answer)}\n" for answer in answers)
  if not distributed.is_first():
    return
  # A link stays one; what it leads to is replaced.
  run_layout.replace(pathlib.Path(os.path.realpath(output)), text)
  os.remove(journal_of(output))


def write_embeddings(answers: Iterable[Mapping[str, Any]], output: str) -> None:
  """Writes the vectors of all texts in their order, whole or not at all.

  Args:
    answers: The examples, each with its `embedding`. The first of several
      processes writes; all of them compute.
    output: The path of an .npz file, whose array `embeddings` is float32
      [texts, D].
  """
  vectors = [answer["embedding"] for answer in answers]
  if not distributed.is_first():
    return
  path = os.path.realpath(output)
  with open(f"{path}.new", "wb") as file:
    np.savez(file, embeddings=np.stack(vectors))
  os.replace(f"{path}.new", path)


def show(answers: Iterable[Mapping[str, Any]], *, as_json: bool) -> None:
  """Prints answers one by one: JSON Lines, or their texts alone.

  Behind the text of an encoder's answer are, each after a tab, the others with
  their probabilities or scores, or the tag of each word. A text that was
  written, which alone has a `score`, stands for itself: fields of its example
  may have any name.
  """
  for answer in answers:
    line = _line(answer) if as_json else "\t".join(_shown(answer))
    print(line, flush=True)


def _shown(answer: Mapping[str, Any]) -> Iterator[str]:
  """Yields the parts of a line that is shown of an answer."""
  yield answer["prediction"]
  if "score" in answer:
    return
  for name, probability in answer.get("probabilities", {}).items():
    yield f"{name} {probability:.4f}"
  for span in answer.get("spans", [])[:_MOST_SPANS]:
    yield f"{span['text']} {span['score']:.4f}"
  if "null_score" in answer:
    yield f"no answer {answer['null_score']:+.4f}"
  for word, tag in zip(
    answer["inputs"].split(), answer.get("tags", []), strict=False
  ):
    yield f"{word} {tag}"
  for filling in answer.get("fillings", []):
    yield ", ".join(f"{f['token']} {f['probability']:.4f}" for f in filling)


def _of_word(word: str, scored: bool) -> Examples:
  if word == _STDIN:
    if sys.stdin.isatty():
      print("texts to answer, one a line, then Ctrl-D:", file=sys.stderr)
    lines = _lines(sys.stdin.buffer.read(), "standard input")
    return _of_lines(lines, scored)
  if not os.path.exists(word):
    return _of_lines([_checked(word, f"the text {word!r}")], scored)
  if word.endswith(".jsonl"):
    return _of_objects(_lines_of(word), word)
  return _of_lines(_lines_of(word), scored)


def _line(answer: Mapping[str, Any]) -> str:
  return json.dumps(answer, ensure_ascii=False)


def _typed() -> Iterator[str]:
  while True:
    print("> ", end="", file=sys.stderr, flush=True)
    try:
      line = sys.stdin.readline()
    except UnicodeDecodeError as error:
      raise _not_utf_8("standard input", error) from None
    if not line:
      return
    yield _checked(line.rstrip("\n"), f"the text {line!r}")


def _check_names(words: Sequence[str]) -> None:
  if words.count(_STDIN) > 1:
    raise UserError(
      "standard input, which is -, is named more than once and can be read "
      "once; name it once"
    )
  for word in words:
    if _FILE_NAME.fullmatch(word) and not os.path.exists(word):
      raise UserError(
        f"there is no file {word!r}; if it is a text, give it on standard input"
      )


def _check_output(output: str, inputs: Sequence[str]) -> None:
  folder = os.path.dirname(output)
  if folder and not os.path.isdir(folder):
    raise UserError(f"there is no folder {folder!r} for the output")
  if os.path.isdir(output):
    raise UserError(f"the output {output!r} is a folder; name a file in it")
  if os.path.exists(output) and not os.path.isfile(output):
    raise UserError(
      f"the output {output!r} is no regular file, and would be replaced by "
      "one; leave --output out and send standard output there"
    )
  folders = {folder or os.curdir, os.path.dirname(os.path.realpath(output))}
  if not all(os.access(path, os.W_OK | os.X_OK) for path in folders):
    raise UserError(
      f"the output {output!r} cannot be written into its folder; choose one "
      "that is yours"
    )
  for path in filter(os.path.exists, inputs):
    if os.path.realpath(path) == os.path.realpath(output):
      raise UserError(
        f"the output {output!r} is one of the inputs, and would take its "
        "place; choose another name"
      )


def _of_lines(lines: Iterable[str], scored: bool) -> Examples:
  for line in lines:
    inputs, tab, targets = line.partition("\t")
    if scored and tab:
      yield {"inputs": inputs, "targets": targets}
    else:
      yield {"inputs": line}


def _of_objects(lines: Iterable[str], path: str) -> Examples:
  for number, line in enumerate(lines, 1):
    if not line.strip():
      continue
    where = f"line {number} of {path!r}"
    try:
      example = json.loads(line, object_pairs_hook=_object)
    except UserError as error:
      raise UserError(f"{where} {error}") from None
    except (ValueError, RecursionError):
      example = None
    if not isinstance(example, dict):
      raise UserError(f"{where} is no JSON object")
    try:
      text = json.dumps(example, ensure_ascii=False, allow_nan=False)
    except ValueError:
      raise UserError(
        f"{where} has NaN or an infinite number, which is no number of JSON; "
        "write null or a text"
      ) from None
    _checked(text, where)
    yield example


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
  """Returns a JSON object; of a key that comes twice, one would be lost."""
  keys = [key for key, _ in pairs]
  if len(set(keys)) < len(keys):
    twice = next(key for key in keys if keys.count(key) > 1)
    raise UserError(f"has the key {twice!r} twice; leave one of them out")
  return dict(pairs)


def _checked(text: str, where: str) -> str:
  """Returns the text.

  Raises:
    UserError: It has half of a surrogate pair, which a wrong escape or encoding
      leaves of a character.
  """
  try:
    text.encode()
  except UnicodeEncodeError as error:
    raise UserError(
      f"{where} has {text[error.start]!r}, half of a surrogate pair, which is "
      "no character; write the text in UTF-8"
    ) from None
  return text


def _lines_of(path: str) -> list[str]:
  try:
    content = pathlib.Path(path).read_bytes()
  except OSError as error:
    raise UserError(f"cannot read the input {path!r}: {error}") from error
  return _lines(content, repr(path))


def _lines(content: bytes, name: str) -> list[str]:
  try:
    text = content.decode("utf-8-sig")
  except UnicodeDecodeError as error:
    raise _not_utf_8(name, error) from None
  # Not `splitlines`: a text may contain other separators of lines.
  return [line.rstrip("\n") for line in io.StringIO(text, newline=None)]


def _not_utf_8(name: str, error: UnicodeDecodeError) -> UserError:
  return UserError(
    f"{name} is not UTF-8 (byte {error.start} is "
    f"0x{error.object[error.start]:02x}); convert it to UTF-8"
  )
