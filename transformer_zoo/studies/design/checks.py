"""Checks of studies and suites; each raises a UserError of one sentence."""

from collections.abc import Collection, Mapping, Sequence
import re
from typing import Any

from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError

# `NAME=VALUE`, or `$(...)` for the name of a file.
_BINDING = re.compile(r"[A-Za-z_][\w./]*\s*=\s*\S|\$\(.*\)$")


def check_name(name: Any, what: str) -> None:
  """Raises UserError unless a name is fit for a folder."""
  if not isinstance(name, str) or not re.fullmatch(r"\w[\w.+-]*", name):
    raise UserError(
      f"{what} is {name!r}; it names a folder, so use letters, digits and "
      "_ . + - only"
    )


def check_unique(names: Sequence[str], where: str, what: str) -> None:
  """Raises UserError for a name that is listed twice."""
  for name in names:
    if names.count(name) > 1:
      raise UserError(
        f"{where} has {names.count(name)} {what}s named {name!r}; names must "
        "differ"
      )


def check_known(names: Collection[str], known: Collection[str], what: str):
  """Raises UserError for a name that is not among those known."""
  for name in names:
    if name not in known:
      raise UserError(f"{what} {name!r} is unknown{nearest(str(name), known)}")


def check_kind(values: Any, kind: type, what: str) -> None:
  """Raises UserError unless all values are of a kind."""
  if not isinstance(values, tuple | list):
    raise UserError(
      f"{what} is {values!r}, which is no list; write (@name/{kind.__name__}"
      "(),) with its comma"
    )
  for value in values:
    if not isinstance(value, kind):
      raise UserError(
        f"{what} holds {value!r}, which is no {kind.__name__}; write "
        f"@name/{kind.__name__}() with its parentheses"
      )


def check_text(value: Any, what: str) -> None:
  """Raises UserError unless a value is a string of one line."""
  if not isinstance(value, str) or "\n" in value:
    raise UserError(f"{what} must be one line of text, '...', not {value!r}")


def check_strings(value: Any, what: str) -> None:
  """Raises UserError unless a value is a list of strings."""
  if not isinstance(value, tuple | list) or not all(
    isinstance(one, str) for one in value
  ):
    raise UserError(
      f"{what} must be a list of strings, like ('...',), not {value!r}"
    )


def check_mapping(value: Any, what: str) -> None:
  """Raises UserError unless a value is a mapping from names."""
  if not isinstance(value, Mapping) or not all(
    isinstance(key, str) for key in value
  ):
    raise UserError(f"{what} must be like {{'name': ...}}, not {value!r}")


def check_changes(changes: Any, what: str) -> None:
  """Raises UserError unless `changes` are gin files and bindings.

  A change that is an expression as a whole, `$(size)`, is checked when it is
  expanded.
  """
  check_strings(changes, what)
  for change in changes:
    if change.startswith("$("):
      continue
    if not change.endswith(".gin") and not _BINDING.match(change):
      raise UserError(
        f"{change!r} in {what} is neither a gin file (*.gin) nor of the form "
        "NAME=VALUE"
      )


def check_grids(grids: Any, what: str) -> None:
  """Raises UserError unless each phase has alternatives to choose from."""
  check_mapping(grids, what)
  for phase, alternatives in grids.items():
    grid = f"{what}[{phase!r}]"
    if not isinstance(alternatives, tuple | list) or len(alternatives) < 2:
      raise UserError(
        f"{grid} is {alternatives!r}; a grid has 2 or more alternatives, each "
        "a list of changes: (('LEARNING_RATE=0.001',), ('LEARNING_RATE=0.01',))"
      )
    for alternative in alternatives:
      check_changes(alternative, f"an alternative of {grid}")
      if not alternative:
        raise UserError(
          f"{grid} has an alternative without changes; name in it what the "
          "others change"
        )


def check_seeds(seeds: Any, where: str) -> None:
  """Raises UserError unless the seeds are different whole numbers from 0."""
  if not isinstance(seeds, tuple | list):
    raise UserError(f"the seeds of {where} are {seeds!r}; list them: (0, 1, 2)")
  if not seeds:
    raise UserError(f"{where} has no seeds; give at least one, like (0,)")
  for seed in seeds:
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
      raise UserError(
        f"seed {seed!r} of {where} is not a whole number from 0 up"
      )
    if seeds.count(seed) > 1:
      raise UserError(f"seed {seed} of {where} is given twice")
