"""Schemas of JSON files: what is refused, and with which words."""

import json

import pytest

from transformer_zoo import schemas
from transformer_zoo.errors import UserError

SCHEMA = {
  "flag": (bool, None),
  "rate": float,
  "number": range(1, 10),
  "piece": (str, {"content": schemas.Required(str)}, None),
  "ids": ([[int]], None),
  "stop": (bool, "never"),
  "shards": schemas.Required({str: str}),
}


@pytest.mark.parametrize(
  "content",
  [
    {},
    {"flag": None, "rate": 1, "number": 9, "piece": "a", "ids": [[], [1, 2]]},
    {"flag": True, "rate": 0.5, "piece": {"content": "a", "lstrip": 7}},
    {"stop": "never", "other": ["anything"]},
  ],
)
def test_what_fits(content):
  schemas.check({"shards": {"a": "b"}, **content}, SCHEMA, "it")


@pytest.mark.parametrize(
  ("content", "sentence"),
  [
    ({"flag": "yes"}, "has flag='yes'; it takes true or false or null"),
    ({"flag": 1}, "has flag=1; it takes true or false or null"),
    ({"rate": True}, "has rate=True; it takes a number"),
    ({"rate": float("inf")}, "has rate=inf; it takes a number"),
    ({"rate": 10**400}, "; it takes a number"),
    ({"number": 10}, "has number=10; it takes a whole number from 1 to 9"),
    ({"number": 2.0}, "has number=2.0; it takes a whole number from 1 to 9"),
    ({"number": True}, "has number=True; it takes a whole number from 1 to 9"),
    ({"piece": ["a"]}, "has piece=['a']; it takes a text or a table or null"),
    ({"piece": {}}, "lacks piece.content; it is a text"),
    ({"piece": {"content": 1}}, "has piece.content=1; it takes a text"),
    ({"ids": [[1], 2]}, "has ids[1]=2; it takes a list"),
    ({"ids": [[1], [2, "3"]]}, "has ids[1][1]='3'; it takes a whole number"),
    ({"stop": "ever"}, "has stop='ever'; it takes true or false or 'never'"),
    ({"shards": {"a": "b", "c": 1}}, "has shards.c=1; it takes a text"),
    ({"shards": []}, "has shards=[]; it takes a table"),
    ({"flag": "x" * 10**5}, "x...; it takes true or false or null"),
  ],
)
def test_what_does_not_fit_is_named(content, sentence):
  with pytest.raises(UserError) as error:
    schemas.check({"shards": {}, **content}, SCHEMA, "it")
  assert str(error.value).endswith(sentence)
  assert len(str(error.value)) < 400


def test_what_has_to_be_there():
  with pytest.raises(UserError, match="it lacks shards; it is a table"):
    schemas.check({}, SCHEMA, "it")


@pytest.mark.parametrize(
  ("text", "sentence"),
  [
    ("[1]", "is no JSON object, a table of names and values"),
    ("{", "is no JSON ("),
    ("[" * 10**5, "its lists and tables are nested too deeply"),
    ('{"rate": "1"}', "has rate='1'; it takes a number"),
    (b"\xff", "is no JSON ("),
  ],
)
def test_files(text, sentence, tmp_path):
  path = tmp_path / "a.json"
  path.write_bytes(text if isinstance(text, bytes) else text.encode())
  with pytest.raises(UserError) as error:
    schemas.read(path, SCHEMA)
  assert repr(str(path)) in str(error.value) and sentence in str(error.value)


STRANGE = (None, True, -1, 2**31, 0.5, float("nan"), "", "a", [], [1], {}, [{}])


@pytest.mark.parametrize(
  "schema",
  [
    pytest.param(schema, id=name)
    for name, schema in vars(schemas).items()
    if isinstance(schema, dict) and name[0] != "_"
  ],
)
def test_each_field_takes_a_type_or_is_refused_by_its_name(schema):
  for name in schema:
    name = "any" if name is str else name
    refused = 0
    for value in STRANGE:
      try:
        schemas.check(json.loads(json.dumps({name: value})), schema, "it")
      except UserError as error:
        assert name in str(error)
        refused += 1
    assert refused > 2, name
