"""Methods of fine-tuning: one record each, which stands in the method's file.

Everything else follows from the record and the parts that it names: the rules
that put them into a model, the parameters that are trained, those that begin
fresh, how the method is merged into its base, and how it is exchanged with
other libraries.
"""

from collections.abc import Callable, Sequence
import dataclasses
import importlib
import pkgutil
import re
import sys
from typing import Any

from flax import linen as nn
import gin

from transformer_zoo.errors import UserError
from transformer_zoo.peft.exchange import Exchange

# Heads of an encoder that every method trains: all but the head of masked
# tokens.
TASK_HEADS = r"heads/(?!tokens/).*"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Method:
  """A method of fine-tuning, over any model and with any settings.

  Attributes:
    name: The name of the function that gin configures, for errors.
    parts: The classes of parts that it puts in the place of others
      (`substitution.Substitute`), whose `merge` takes it into its base; none
      for a method that trains parameters of the base alone.
    adds: A regular expression that matches the whole names of the parameters
      that it adds to a base, which begin fresh; "" for none.
    trains: The same of the parameters that it trains; those that it adds if "".
    may_find_nothing: Whether a model may have no part that it replaces.
    exchanges: The directories of other libraries that hold it.
  """

  name: str
  parts: tuple[type[nn.Module], ...] = ()
  adds: str = ""
  trains: str = ""
  may_find_nothing: bool = False
  exchanges: tuple[Exchange, ...] = ()

  def rule(
    self, *names: str, kind: type[nn.Module] = nn.Module
  ) -> Callable[[Callable[[str, nn.Module], nn.Module]], "Rule"]:
    """Decorates the function that replaces a part, as in `Rule`."""
    return lambda replace: Rule(self, replace, names, kind)


def _unchanged(name: str, part: nn.Module) -> nn.Module:
  del name
  return part


@dataclasses.dataclass(frozen=True)
class Rule:
  """A rule of substitution: a method with its settings.

  Attributes:
    method: The method.
    replace: The function from the name of a part and the part to that which
      takes its place, or the part itself.
    names: Regular expressions; the function is called with the parts of which
      one matches the whole name, or with all if there are none. In names
      `layers` stands for all layers of a stack: `encoder/layers/mlp/wo`.
    kind: The class of the parts that the function is called with.

  Raises:
    UserError: One of the names is no regular expression.
  """

  method: Method
  replace: Callable[[str, nn.Module], nn.Module] = _unchanged
  names: Sequence[str] = ()
  kind: type[nn.Module] = nn.Module

  def __post_init__(self):
    for name in self.names:
      try:
        re.compile(name)
      except re.error as error:
        raise UserError(
          f"{name!r} is no regular expression over names of parts: {error}"
        ) from error

  def __call__(self, name: str, part: nn.Module) -> nn.Module:
    """Returns the part that takes the place of another, or that one."""
    if not isinstance(part, self.kind):
      return part
    if self.names and not any(re.fullmatch(n, name) for n in self.names):
      return part
    return self.replace(name, part)


def shipped() -> list[Method]:
  """Returns the methods of this room, each from its file."""
  room = sys.modules[__package__]
  modules = [
    importlib.import_module(f"{__package__}.{found.name}")
    for found in pkgutil.iter_modules(room.__path__)
  ]
  values = (value for module in modules for value in vars(module).values())
  return [value for value in values if isinstance(value, Method)]


def exchanges(library: str) -> dict[Any, Exchange]:
  """Returns what a library can hold, by its own names of the methods.

  Args:
    library: `exchange.PEFT` or `exchange.ADAPTERS`.
  """
  found = (each for method in shipped() for each in method.exchanges)
  return {each.kind: each for each in found if each.library == library}


@gin.register
def trained_parameters(methods: Sequence[Rule]) -> list[str]:
  """Returns `Trainable.parameters` of methods, with the heads of a task.

  Args:
    methods: The methods with their settings.
  """
  # One expression has both, since a model without heads has none to match.
  first, *others = _each(methods, lambda method: method.trains or method.adds)
  return [f"{first}|{TASK_HEADS}", *others]


@gin.register
def fresh_parameters(methods: Sequence[Rule]) -> tuple[tuple[str, None], ...]:
  """Returns `InitialCheckpoint.assignments` of what methods add to a model.

  Args:
    methods: As for `trained_parameters`.
  """
  return tuple(
    (added, None)
    for added in _each(methods, lambda m: "" if m.may_find_nothing else m.adds)
  )


@gin.register
def optional_parameters(methods: Sequence[Rule]) -> tuple[str, ...]:
  """Returns `InitialCheckpoint.fresh` of methods that may add nothing.

  Args:
    methods: As for `trained_parameters`.
  """
  return _each(methods, lambda m: m.adds if m.may_find_nothing else "")


def _each(
  rules: Sequence[Rule], expression: Callable[[Method], str]
) -> tuple[str, ...]:
  """An expression of each method, without repetitions and empty ones."""
  for rule in rules:
    if not isinstance(rule, Rule):
      raise UserError(
        f"METHODS has {rule!r}, which is no Rule of a Method "
        "(transformer_zoo/peft/method.py), so that what it trains is unknown; "
        "bind substitute.rules, Trainable.parameters and "
        "InitialCheckpoint.assignments instead"
      )
  found = dict.fromkeys(expression(rule.method) for rule in rules)
  return tuple(filter(None, found))
