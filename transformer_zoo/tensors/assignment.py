"""Assignment of the parameters of a checkpoint to a model's parameters.

Parameters are assigned by name, unless rules give other names. The error lists
every parameter that does not fit.
"""

from collections.abc import Container, Iterable, Mapping
import dataclasses
import re
from typing import NamedTuple

from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError
from transformer_zoo.parameter_names import head_of
from transformer_zoo.parameter_names import in_groups
from transformer_zoo.parameter_names import Parameter
from transformer_zoo.parameter_names import pattern_of
from transformer_zoo.tensors import rounding
from transformer_zoo.tensors.lazy_tensors import Tensor

# The table of a discriminator, as the difference from its generator's.
_DIFFERENCE = "_difference"
# The rows of a table are of one kind for each logical axis.
ROWS = {"vocab": "vocabulary", "abspos_buckets": "positions"}


@dataclasses.dataclass(frozen=True)
class Rules:
  r"""The differences from a checkpoint that are allowed; none by default.

  Attributes:
    assignments: Ordered (regular expression, name). A parameter of the model
      that an expression matches as a whole is read from that name in the
      checkpoint, where \1 stands for the first group, or stays fresh if the
      name is None; the first match counts. None also lets go of those
      parameters of the checkpoint that nothing reads.
    renamed: Further assignments, which come after them and may match none.
    fresh: Regular expressions of further parameters that stay fresh. Unlike
      `assignments`, they may match none.
    fresh_misfits: Regular expressions of parameters that all stay fresh if one
      of them has another shape in the checkpoint.
    ignore_unused: Whether the checkpoint may hold parameters that nothing
      reads.
    resized: The values of `ROWS` whose tables may have more or fewer rows than
      in the checkpoint.
    rows_in_use: The number of rows that may not be cut off, by value of `ROWS`.
    heads_apart: Heads (`parameter_names.head_of`) of which no parameter is
      read unless `assignments` say from where.
  """

  assignments: tuple[tuple[str, str | None], ...] = ()
  renamed: tuple[tuple[str, str | None], ...] = ()
  fresh: tuple[str, ...] = ()
  fresh_misfits: tuple[str, ...] = ()
  ignore_unused: bool = False
  resized: Container[str] = ()
  rows_in_use: Mapping[str, int] = dataclasses.field(default_factory=dict)
  heads_apart: Container[str] = ()


class Assignment(NamedTuple):
  """The source of every parameter of a model.

  Attributes:
    tensors: The tensor of each parameter of the model by name, None for one
      that stays fresh; in the order of the checkpoint, which is read fastest.
    resized: "SHAPE from SHAPE" by the name of each resized parameter.
    unused: The names in the checkpoint that nothing reads.
  """

  tensors: dict[str, Tensor | None]
  resized: dict[str, str]
  unused: list[str]


def assign(
  wanted: Mapping[str, Parameter],
  there: Mapping[str, Tensor],
  rules: Rules,
  source: str,
  advice: str = "",
) -> Assignment:
  """Finds the tensor of every parameter of a model.

  Args:
    wanted: The parameters of the model by name, every layer by itself.
    there: The tensors of the checkpoint by name, every layer by itself.
    rules: The differences that are allowed.
    source: The name of the checkpoint in errors.
    advice: The end of the error on parameters that do not fit.

  Raises:
    UserError: A rule is wrong, parameters are missing, extra, or of another
      shape (the error lists them all), or one that the model keeps in whole
      numbers is not read.
  """
  of_model, wanted = wanted, rounding.without_scales(wanted)
  there = with_whole_tables(there, unless=wanted)
  names, let_go = _follow(rules, wanted, there)
  for name in names:
    if names[name] == name and head_of(name) in rules.heads_apart:
      names[name] = None
  _leave_misfits(names, wanted, there, rules)
  read = set(names.values())
  unused = [name for name in there if name not in read]
  others = {pattern_of(name) for name in unused}
  missing, misfits, resized = {}, {}, {}
  for ours, theirs in names.items():
    shape = wanted[ours].shape
    if theirs is None:
      continue
    if theirs not in there:
      name = pattern_of(theirs)
      by_rule = f", by a rule from {name!r}" if theirs != ours else ""
      missing[ours] = f"{shape}{by_rule}{_did_you_mean(name, others)}"
    elif problem := _misfit(wanted[ours], there[theirs], rules):
      misfits[ours] = problem
    elif there[theirs].shape != shape:
      resized[ours] = f"{shape} from {there[theirs].shape}"
  extra = {
    name: str(there[name].shape)
    for name in unused
    if name not in let_go
    and head_of(name) not in rules.heads_apart
    and not rules.ignore_unused
  }
  if missing or misfits or extra:
    raise UserError(_difference(source, missing, misfits, extra) + advice)
  places = {name: place for place, name in enumerate(there)}
  in_order = sorted(names, key=lambda n: places.get(names[n], len(places)))
  tensors = {ours: there.get(names[ours]) for ours in in_order}
  return Assignment(rounding.with_scales(tensors, of_model), resized, unused)


def _leave_misfits(names, wanted, there, rules) -> None:
  """Leaves parameters fresh of which one does not fit, by `fresh_misfits`."""
  for pattern in map(_compiled, rules.fresh_misfits):
    group = [
      ours
      for ours, theirs in names.items()
      if theirs in there and pattern.fullmatch(ours)
    ]
    if any(_misfit(wanted[n], there[names[n]], rules) for n in group):
      names.update(dict.fromkeys(group))


def with_whole_tables(
  there: Mapping[str, Tensor], unless: Container[str] = ()
) -> Mapping[str, Tensor]:
  """Tensors in which tables stand for their differences from a generator's.

  A discriminator whose embeddings are the generator's plus a difference
  (`modules.embedding.EmbedDifference`) stores the latter.

  Args:
    there: The tensors of a checkpoint by name.
    unless: Names of differences that stay what they are.
  """
  found = {}
  for name, tensor in there.items():
    whole = name.removesuffix(_DIFFERENCE)
    other = there.get(f"generator/{whole}")
    if whole == name or name in unless or other is None:
      found[name] = tensor
    else:
      found[whole] = _sum(tensor, other)
  return found


def _sum(tensor: Tensor, other: Tensor) -> Tensor:
  return Tensor(
    tensor.shape, tensor.dtype, lambda: tensor.read() + other.read()
  )


def _follow(allowed, wanted, there):
  """Names in the checkpoint by parameter, and those that a None lets go."""
  optional = [
    *((_compiled(pattern), target) for pattern, target in allowed.renamed),
    *((_compiled(pattern), None) for pattern in allowed.fresh),
  ]
  rules = [
    *((_compiled(pattern), target) for pattern, target in allowed.assignments),
    *optional,
  ]
  used, names = set(optional), {}
  for ours in wanted:
    names[ours] = ours
    for rule in rules:
      expression, target = rule
      if match := expression.fullmatch(ours):
        used.add(rule)
        names[ours] = target and _expanded(match, target)
        break
  unread = there.keys() - names.values()
  let_go = set()
  for rule in rules:
    expression, target = rule
    dropped = set()
    if target is None:
      dropped = set(filter(expression.fullmatch, unread - let_go))
      let_go |= dropped
    if rule not in used and not dropped:
      raise UserError(
        f"InitialCheckpoint.assignments: {expression.pattern!r} matches (as a "
        "whole) no parameter that an earlier one has left"
        + _did_you_mean(expression.pattern, wanted)
      )
  return names, let_go


def _compiled(pattern: str) -> re.Pattern:
  try:
    return re.compile(pattern)
  except re.error as error:
    raise UserError(
      f"InitialCheckpoint.assignments: {pattern!r} is no regular expression "
      f"({error})"
    ) from None


def _expanded(match: re.Match, target: str) -> str:
  try:
    return match.expand(target)
  except (re.error, IndexError) as error:
    raise UserError(
      f"InitialCheckpoint.assignments: {target!r} does not fit the expression "
      f"{match.re.pattern!r} ({error})"
    ) from None


def _misfit(wanted: Parameter, there: Tensor, rules: Rules) -> str | None:
  """Why a tensor cannot be taken; None if it can."""
  if not there.is_floating:
    return f"{there.dtype} instead of floating-point numbers"
  difference = f"{there.shape} instead of {wanted.shape}"
  if len(there.shape) != len(wanted.shape):
    return difference
  for axis, new, old in zip(
    wanted.axes, wanted.shape, there.shape, strict=True
  ):
    if new == old:
      continue
    kind = ROWS.get(axis)
    if kind is None:
      return difference
    if kind not in rules.resized:
      return f"{difference}; allow it by InitialCheckpoint.resize_{kind} = True"
    in_use = rules.rows_in_use.get(kind, 0)
    if new < in_use:
      return f"{difference}; the first {in_use} are in use and cannot be cut"
  return None


def _difference(source, missing, misfits, extra) -> str:
  """Every difference, in one line for the layers that share it."""
  lines = [f"the parameters of {source} are not the model's"]
  for title, details in (
    ("missing", missing),
    ("of other shapes or types", misfits),
    ("extra", extra),
  ):
    if details:
      lines.append(f"{title} ({len(details)}):")
    lines += [f"  {name} {detail}" for name, detail in in_groups(details)]
  lines.append(
    "(InitialCheckpoint.assignments can read a parameter under another name or "
    "leave it fresh; InitialCheckpoint.ignore_unused passes over extra ones)"
  )
  return "\n".join(lines)


def _did_you_mean(name: str, names: Iterable[str]) -> str:
  hint = nearest(name, names, most=1)
  return hint if hint.startswith("; did") else ""
