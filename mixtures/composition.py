"""Mixtures made from mixtures: rates by name, and members left out."""

from collections.abc import Iterable, Mapping
from typing import Any

import seqio

from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError


def members(mixture: str) -> dict[str, Any]:
  """Returns task or sub-mixture -> rate (a number or a function).

  Raises:
    UserError: no mixture has the name.
  """
  names = seqio.MixtureRegistry.names()
  if mixture not in names:
    raise UserError(f"No mixture is named {mixture!r}{nearest(mixture, names)}")
  return dict(seqio.MixtureRegistry.get(mixture).rate_per_task_name)


def leave_out(
  rates: Mapping[str, Any], names: Iterable[str]
) -> list[tuple[str, Any]]:
  """Returns the members and rates of a mixture without some.

      seqio.MixtureRegistry.add(
        "super_glue_without_record",
        leave_out(
          members("super_glue_v102_proportional"), ["super_glue_record_v102"]
        ),
      )

  Args:
    rates: member -> rate.
    names: members that are left out.

  Raises:
    UserError: one of `names` is not a member, or nothing is left.
  """
  names = set(names)
  for name in sorted(names - set(rates)):
    raise UserError(
      f"{name!r} cannot be left out, it is not in the mixture"
      f"{nearest(name, rates)}"
    )
  left = [(name, rate) for name, rate in rates.items() if name not in names]
  if not left:
    raise UserError("Every task of the mixture is left out; nothing is left.")
  return left
