"""Facts to be edited, from files as their authors distribute them.

CounterFact (Meng et al. 2022, section 3.3) is `counterfact.json` or
`multi_counterfact.json`, with the texts that generations are compared with in
`attribute_snippets.json`. zsRE (Levy et al. 2017) is read from the questions of
Mitchell et al. 2022, `zsre_mend_eval.json`. Facts of one's own are JSON Lines
(`facts.read`).
"""

from collections.abc import Mapping, Sequence
import json
import os
import pathlib
from typing import Any

import gin

from transformer_zoo import schemas
from transformer_zoo.editing import facts
from transformer_zoo.editing.facts import Fact
from transformer_zoo.errors import UserError
from transformer_zoo.schemas import Required

_OBJECT = {"str": Required(str), "id": (str, None)}
_COUNTERFACT = {
  "requested_rewrite": Required(
    {
      "prompt": Required(str),
      "subject": Required(str),
      "target_new": Required(_OBJECT),
      "target_true": Required(_OBJECT),
      "relation_id": (str, None),
    }
  ),
  "paraphrase_prompts": Required([str]),
  "neighborhood_prompts": Required([str]),
  "generation_prompts": [str],
}
_ZSRE = {
  "subject": Required(str),
  "src": Required(str),
  "answers": Required([str]),
  "rephrase": Required(str),
  "loc": Required(str),
  "loc_ans": Required(str),
}
_SNIPPETS = {
  "relation_id": Required(str),
  "target_id": Required(str),
  "samples": Required([{"text": Required(str)}]),
}
# (relation, object) -> texts about subjects of which it is true.
_References = Mapping[tuple[str | None, str | None], Sequence[str]]


@gin.register
def facts_of_file(
  path: str | os.PathLike[str],
  *,
  first: int = 0,
  number: int | None = None,
  references: str | os.PathLike[str] | None = None,
) -> list[Fact]:
  """Reads facts of a file.

  Args:
    path: The path of CounterFact's or zsRE's `.json`, or of a `.jsonl` with the
      fields of `Fact`.
    first: The number of the first row that is read, from 0 on.
    number: The number of rows; None for all.
    references: The path of CounterFact's `attribute_snippets.json`; None for no
      texts that generations are compared with.

  Raises:
    UserError: The file is none of these, has no such rows, or one of the rows
      is no fact; the sentence names file and row.
  """
  path = os.fspath(path)
  stop = None if number is None else first + number
  if pathlib.Path(path).suffix == ".jsonl":
    found = facts.read(path)[first:stop]
  else:
    rows = _rows(path)
    texts = {} if references is None else _references(os.fspath(references))
    found = [
      _fact(row, f"row {place} of {path!r}", texts)
      for place, row in enumerate(rows[first:stop], first)
    ]
  if not found:
    raise UserError(f"{path!r} has no fact from row {first} on")
  return found


def _rows(path: str) -> list[Any]:
  try:
    content = json.loads(pathlib.Path(path).read_bytes())
  except (OSError, ValueError, RecursionError) as error:
    raise UserError(f"cannot read the facts {path!r}: {error}") from error
  if not isinstance(content, list):
    raise UserError(f"{path!r} has no list of facts; CounterFact and zsRE do")
  return content


def _fact(row: Any, where: str, texts: _References) -> Fact:
  if not isinstance(row, dict) or not {"requested_rewrite", "src"} & set(row):
    raise UserError(
      f"{where} is no fact: CounterFact has requested_rewrite there, and zsRE "
      "src"
    )
  is_counterfact = "requested_rewrite" in row
  schemas.check(row, _COUNTERFACT if is_counterfact else _ZSRE, where)
  try:
    return _counterfact(row, texts) if is_counterfact else _zsre(row)
  except UserError as error:
    raise UserError(f"{where}: {error}") from None


def _counterfact(row: Mapping[str, Any], texts: _References) -> Fact:
  asked = row["requested_rewrite"]
  new, true = asked["target_new"], asked["target_true"]
  about = asked.get("relation_id"), new.get("id")
  return Fact(
    asked["prompt"],
    asked["subject"],
    new["str"].strip(),
    true["str"].strip(),
    tuple(row["paraphrase_prompts"]),
    tuple(row["neighborhood_prompts"]),
    generations=tuple(row.get("generation_prompts", ())),
    references=tuple(texts.get(about, ())),
  )


def _zsre(row: Mapping[str, Any]) -> Fact:
  """Returns the fact whose target is the first right answer.

  The questions about other things lack their question mark.
  """
  if not row["answers"]:
    raise UserError("answers is empty; it takes one or more")
  found = facts.of_words(row["src"], row["subject"], row["answers"][0].strip())
  return Fact(
    found.prompt,
    found.subject,
    found.target,
    paraphrases=(row["rephrase"],),
    elsewhere=((f"{row['loc']}?", row["loc_ans"].strip()),),
  )


def _references(path: str) -> _References:
  found = {}
  for place, row in enumerate(_rows(path)):
    where = f"row {place} of {path!r}"
    if not isinstance(row, dict):
      raise UserError(f"{where} is no table of relation_id and samples")
    schemas.check(row, _SNIPPETS, where)
    texts = found.setdefault((row["relation_id"], row["target_id"]), [])
    texts += [sample["text"] for sample in row["samples"]]
  return found
