"""Examples named on a command line, and errors about bad ones."""

import io
import os
import pathlib
import sys

import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.runs.answers import example_files


@pytest.fixture
def texts(monkeypatch, tmp_path):
  """Returns a function: the inputs in bytes, on standard input or in a file."""

  def call(content, place, name="texts.txt"):
    path = tmp_path / name
    path.write_bytes(content)
    stdin = io.TextIOWrapper(io.BytesIO(content))
    monkeypatch.setattr(sys, "stdin", stdin)
    words = [str(path)] if place == "file" else place
    found = example_files.read(words, scored=False)
    return [example["inputs"] for example in found]

  return call


PLACES = pytest.mark.parametrize("place", ["file", [], ["-"]])


@PLACES
def test_texts_end_where_lines_do(texts, place):
  content = "\ufeffa\u2028b\x0bc\x85d\r\ne \x1cf\n\ng"
  expected = ["a\u2028b\x0bc\x85d", "e \x1cf", "", "g"]
  assert texts(content.encode(), place) == expected


@PLACES
def test_another_encoding(texts, place, tmp_path):
  path = str(tmp_path / "texts.txt")
  named = repr(path) if place == "file" else "standard input"
  with pytest.raises(UserError) as error:
    texts("red café".encode("latin-1"), place)
  assert str(error.value) == (
    f"{named} is not UTF-8 (byte 7 is 0xe9); convert it to UTF-8"
  )


def test_a_file_of_objects_may_begin_with_a_mark(texts):
  content = b'\xef\xbb\xbf{"inputs": "red"}\n'
  assert texts(content, "file", "texts.jsonl") == ["red"]


def test_blank_lines_between_objects(texts, tmp_path):
  content = b'\n{"inputs": "red"}\r\n \t\n{"inputs": ""}\n\n'
  assert texts(content, "file", "texts.jsonl") == ["red", ""]
  with pytest.raises(UserError, match="line 6 of .* is no JSON object"):
    texts(content + b"red", "file", "texts.jsonl")


def test_halves_of_characters(texts, tmp_path):
  rest = (
    " has '\\ud83d', half of a surrogate pair, which is no character; write "
    "the text in UTF-8"
  )
  path = str(tmp_path / "texts.jsonl")
  for line in (
    b'{"inputs": "red \\ud83d"}',
    b'{"inputs": "", "id": ["\\ud83d"]}',
  ):
    with pytest.raises(UserError) as error:
      texts(b'{"inputs": "\\ud83d\\ude00"}\n' + line, "file", "texts.jsonl")
    assert str(error.value) == f"line 2 of {path!r}{rest}"
  with pytest.raises(UserError) as error:
    texts(b"", ["red \ud83d"])
  assert str(error.value) == f"the text 'red \\ud83d'{rest}"


@pytest.mark.parametrize(
  ("line", "sentence"),
  [
    (
      b'{"inputs": "red", "inputs": "blue"}',
      " has the key 'inputs' twice; leave one of them out",
    ),
    (
      b'{"inputs": "red", "of": {"id": 1, "id": 2}}',
      " has the key 'id' twice; leave one of them out",
    ),
    *(
      (
        b'{"inputs": "red", "id": [%s]}' % number,
        " has NaN or an infinite number, which is no number of JSON; write "
        "null or a text",
      )
      for number in (b"NaN", b"-Infinity", b"1e999")
    ),
  ],
)
def test_objects_that_would_be_written_otherwise(
  texts, tmp_path, line, sentence
):
  path = str(tmp_path / "texts.jsonl")
  with pytest.raises(UserError) as error:
    texts(b'{"inputs": "red"}\n' + line, "file", "texts.jsonl")
  assert str(error.value) == f"line 2 of {path!r}{sentence}"


@pytest.mark.parametrize(
  ("content", "place", "name"),
  [
    (b"", [], "standard input"),
    (b"", ["-"], "standard input"),
    (b"", "file", "texts.txt"),
    (b"\n \n", "file", "texts.jsonl"),
  ],
)
def test_no_text_at_all(texts, tmp_path, content, place, name):
  with pytest.raises(UserError) as error:
    texts(content, place, name)
  named = repr(str(tmp_path / name)) if place == "file" else name
  assert str(error.value) == (
    f"there is no text in {named}; write one on each line"
  )


def test_an_empty_file_beside_a_text(tmp_path):
  empty = tmp_path / "empty.txt"
  empty.touch()
  (example,) = example_files.read([str(empty), "red"], scored=False)
  assert example == {"inputs": "red"}


def chosen(*words, output=None):
  return example_files.chosen(
    words, output=output, interactive=False, scored=False
  )


@pytest.mark.parametrize(
  "word", ["texts.jsonl", "texts.json", "a.b.txt", "data/texts.csv", "./a.tsv"]
)
def test_a_file_that_is_not_there(word):
  with pytest.raises(UserError) as error:
    chosen("red car", word)
  assert str(error.value) == (
    f"there is no file {word!r}; if it is a text, give it on standard input"
  )


def test_standard_input_is_read_once():
  with pytest.raises(UserError) as error:
    chosen("-", "red car", "-")
  assert str(error.value) == (
    "standard input, which is -, is named more than once and can be read once; "
    "name it once"
  )


@pytest.mark.parametrize(
  "word",
  [
    "and/or",
    "and/or.",
    "1/2.5",
    "he/she.Then",
    "https://example.com/a.html",
    "summarize: data/texts.csv",
    "what is in texts.jsonl",
    "end.",
  ],
)
def test_a_text_that_is_no_file(word):
  (example,) = chosen(word)
  assert example == {"inputs": word}


def test_an_output_may_be_a_link(tmp_path):
  (tmp_path / "far").mkdir()
  target, link = tmp_path / "far/answers.jsonl", tmp_path / "link.jsonl"
  target.write_text("old")
  link.symlink_to(target)
  pathlib.Path(example_files.journal_of(str(link))).touch()
  example_files.write([{"inputs": "a"}], str(link))
  assert link.is_symlink()
  assert target.read_text() == '{"inputs": "a"}\n'


def test_objects_that_are_nested_too_deeply(texts, tmp_path):
  path = tmp_path / "deep.jsonl"
  path.write_text("[" * 100_000)
  with pytest.raises(UserError, match="line 1 of .* is no JSON object"):
    list(example_files.read([str(path)], scored=False))


def test_outputs_that_are_refused(tmp_path, monkeypatch):
  (tmp_path / "texts.txt").write_text("red\n")
  (tmp_path / "link.txt").symlink_to("texts.txt")
  folder, file, link = (
    str(tmp_path / name) for name in ("", "texts.txt", "link.txt")
  )
  for output, words, sentence in (
    (folder, [], f"the output {folder!r} is a folder; name a file in it"),
    (
      file,
      ["red", link],
      f"the output {file!r} is one of the inputs, and would take its place; "
      "choose another name",
    ),
  ):
    with pytest.raises(UserError) as error:
      chosen(*words, output=output)
    assert str(error.value) == sentence
  queue = str(tmp_path / "queue")
  os.mkfifo(queue)
  with pytest.raises(UserError) as error:
    chosen("red", output=queue)
  assert str(error.value) == (
    f"the output {queue!r} is no regular file, and would be replaced by one; "
    "leave --output out and send standard output there"
  )
  chosen("red", file, output=f"{file}.jsonl")
  monkeypatch.setattr(os, "access", lambda path, mode: False)
  with pytest.raises(UserError) as error:
    chosen("red", output=f"{file}.jsonl")
  assert str(error.value) == (
    f"the output {f'{file}.jsonl'!r} cannot be written into its folder; "
    "choose one that is yours"
  )


class Terminal(io.TextIOWrapper):
  def isatty(self):
    return True


def test_a_terminal_is_told_what_it_is_waited_for(monkeypatch, capsys):
  for kind, told in (
    (io.TextIOWrapper, ""),
    (Terminal, "texts to answer, one a line, then Ctrl-D:\n"),
  ):
    monkeypatch.setattr(sys, "stdin", kind(io.BytesIO(b"a\n")))
    (example,) = example_files.read([], scored=False)
    assert example["inputs"] == "a"
    assert capsys.readouterr().err == told


@pytest.mark.parametrize(
  ("answer", "line"),
  [
    (
      {"prediction": "yes", "probabilities": {"yes": 0.75, "no": 0.25}},
      "yes\tyes 0.7500\tno 0.2500",
    ),
    (
      {
        "prediction": "a",
        "spans": [{"text": name, "score": 2.0} for name in "abcd"],
        "null_score": -1.5,
      },
      "a\ta 2.0000\tb 2.0000\tc 2.0000\tno answer -1.5000",
    ),
    (
      {"inputs": "in  Oslo", "prediction": "in [ Oslo | LOC ]",
       "tags": ["O", "B-LOC"]},
      "in [ Oslo | LOC ]\tin O\tOslo B-LOC",
    ),
    (
      {"prediction": "a b", "fillings": [
        [
          {"token": "a", "probability": 0.5},
          {"token": "c", "probability": 0.1},
        ],
        [{"token": "b", "probability": 0.9}],
      ]},
      "a b\ta 0.5000, c 0.1000\tb 0.9000",
    ),
    ({"prediction": "text", "score": -1.0}, "text"),
    # Fields that came with an example, and are none of its answer.
    ({"tags": ["O"], "prediction": "text", "score": -1.0}, "text"),
    ({"probabilities": [1], "prediction": "text", "score": -1.0}, "text"),
  ],
)  # fmt: skip
def test_lines_of_answers(answer, line, capsys):
  example_files.show([{"inputs": "words", **answer}], as_json=False)
  assert capsys.readouterr().out == f"{line}\n"


def test_a_file_of_vectors():
  def chosen(**options):
    options = {"output": None, "interactive": False, "scored": False} | options
    return example_files.chosen(["red"], embeddings="v.npz", **options)

  assert list(chosen()) == [{"inputs": "red"}]
  for options in (
    {"output": "o"},
    {"interactive": True},
    {"scored": True},
    {"as_json": True},
  ):
    with pytest.raises(UserError, match="^--embeddings writes vectors and "):
      chosen(**options)
  with pytest.raises(UserError, match="has to end in .npz"):
    example_files.chosen(
      ["red"], embeddings="v", output=None, interactive=False, scored=False
    )
