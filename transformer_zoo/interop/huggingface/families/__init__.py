"""Families of models, each a file that nothing else names.

`FAMILIES` of a file are its families; where classes of several compute the same
as a model of ours, it is written as the first, in the order of the files.
"""

from collections.abc import Iterator
import importlib
import pkgutil

from transformer_zoo.interop.huggingface.family import Family


def _found() -> Iterator[Family]:
  for module in sorted(
    module.name for module in pkgutil.iter_modules(__path__)
  ):
    yield from importlib.import_module(f"{__name__}.{module}").FAMILIES


FAMILIES: tuple[Family, ...] = tuple(_found())
