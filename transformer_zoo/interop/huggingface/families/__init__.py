"""Families of models, each a file that nothing else names.

`FAMILIES` of a file are its families; where classes of several compute the same
as a model of ours, it is written as the first, in the order of the files.
"""

from collections.abc import Iterator
import importlib
import pkgutil

from transformer_zoo.interop.huggingface.family import Family


def found() -> Iterator[Family]:
  """The families of all files in this folder."""
  names = sorted(module.name for module in pkgutil.iter_modules(__path__))
  for name in names:
    yield from importlib.import_module(f"{__name__}.{name}").FAMILIES


FAMILIES: tuple[Family, ...] = tuple(found())
