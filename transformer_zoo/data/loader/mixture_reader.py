"""The examples of an endless mixture, by place."""

from collections.abc import Callable, Iterator, Mapping
import dataclasses
import functools

import numpy as np

from transformer_zoo.corruption.ragged import join
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data.features import converters
from transformer_zoo.data.loader import order
from transformer_zoo.data.loader import sources
from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import UserError

# Places whose examples are found at once; changes speed and nothing else.
_BLOCK = 1 << 13
Order = order.MixtureOrder | order.LaterOrder
# A key of static masking is (task, chunk, copy) in 63 bits.
_TASK_SHIFT = 48


@dataclasses.dataclass(frozen=True)
class Recipe:
  """The settings that decide a run's examples, apart from lengths.

  Attributes:
    mixture: prepared tasks and rates.
    split: The split that is read of every task with a rate above 0.
    seed: The seed of order and corruption, not negative.
    corruption: The corruption in place of the 'tokens' tasks' own.
    converter: says which features a model needs.
    static_copies: None corrupts a text anew whenever it comes (dynamic masking,
      RoBERTa); N gives it N corruptions, of which epoch e has number e mod N
      (static masking, as BERT's 10 copies).
    max_tokens: only so many of the first tokens of each 'tokens' task.
    whole_examples_only: leaves out the examples that would be cut.
    later_rates: The rates of all tasks after each change, in order.
  """

  mixture: manifest.PreparedMixture
  split: str
  seed: int
  corruption: Callable[..., dict[str, Ragged]] | None = None
  converter: converters.Converter = converters.EncoderDecoder()
  static_copies: int | None = None
  max_tokens: int | None = None
  whole_examples_only: bool = False
  later_rates: tuple[tuple[float, ...], ...] = ()

  def __post_init__(self):
    for name in ("static_copies", "max_tokens"):
      value = getattr(self, name)
      if value is not None and value < 1:
        raise UserError(f"{name} is {value}; it must be 1 or more, or None.")
    if self.max_tokens and all(task.kind != "tokens" for task in self.tasks):
      raise UserError(
        f"max_tokens is {self.max_tokens}, but {self.mixture.name!r} has no "
        "task of unlabelled text, which alone is cut by tokens."
      )
    for task in self.tasks if self.whole_examples_only else ():
      if task.kind != "examples" or task.form is not None:
        raise UserError(
          f"whole_examples_only is True, but the length of an example of "
          f"{task.name!r} follows from the lengths of the run; set it to False "
          "for unlabelled text and for the forms of an encoder."
        )

  @functools.cached_property
  def rates(self) -> tuple[tuple[float, ...], ...]:
    """The rates of `tasks`, at first and after each change."""
    return tuple(
      tuple(
        rate
        for rate, is_read in zip(mix, self._are_read, strict=True)
        if is_read
      )
      for mix in self._mixes
    )

  @functools.cached_property
  def tasks(self) -> tuple[manifest.PreparedTask, ...]:
    """The tasks that have a rate above 0 at some time."""
    pairs = zip(self.mixture.tasks, self._are_read, strict=True)
    return tuple(task for task, is_read in pairs if is_read)

  @property
  def _mixes(self) -> tuple[tuple[float, ...], ...]:
    return tuple(self.mixture.rates), *self.later_rates

  @functools.cached_property
  def _are_read(self) -> list[bool]:
    return [any(rates) for rates in zip(*self._mixes, strict=True)]


class MixtureReader:
  """Reads the examples of places, trimmed to the lengths of a run.

  Attributes:
    order: deals places to tasks.
    num_examples: The number of examples of each task in an epoch, int64
      [tasks].
    shares_rows: whether several examples may fit into a row.
  """

  def __init__(
    self,
    recipe: Recipe,
    lengths: Mapping[str, int],
    longest: Mapping[str, int] | None = None,
    cache_bytes: int = 0,
  ):
    """Opens the files.

    Args:
      recipe: the examples.
      lengths: tokens of each feature, EOS counted.
      longest: The lengths of the run, if `lengths` belong to its warm-up.
      cache_bytes: The memory for the examples of small tasks, in bytes.

    Raises:
      UserError: as `sources.open_source`.
    """
    self._recipe = recipe
    self._sources = _open(recipe, lengths, longest, cache_bytes)
    self._whole = None
    self.num_examples = np.array([s.num_examples for s in self._sources])
    if recipe.whole_examples_only:
      self._whole = [
        _whole_examples(task, recipe, lengths) for task in recipe.tasks
      ]
      self.num_examples = np.array([len(whole) for whole in self._whole])
    self.shares_rows = any(source.shares_rows for source in self._sources)
    self.begin(order.MixtureOrder(recipe.rates[0], recipe.seed))

  def begin(self, places_of_tasks: Order) -> None:
    """Sets the order that deals places to tasks, before any is read."""
    self.order = places_of_tasks
    self._block = functools.lru_cache(maxsize=8)(self._find_block)

  def after(self, earlier: Order, first: int, mix: int) -> Order:
    """Returns the order of places from one on, after a change of the rates.

    Args:
      earlier: The order of the places before.
      first: The first place of the order.
      mix: The number of changes before it.
    """
    recipe = self._recipe
    later = order.MixtureOrder(recipe.rates[mix], recipe.seed)
    return order.LaterOrder(earlier, first, later)

  def read(self, places: np.ndarray) -> dict[str, Ragged]:
    """Returns the features of the examples of `places`, int64 [n]."""
    read, come_from = [], []
    for source, where, indices, keys in self._locate(places):
      read.append(source.read(indices, self._recipe.seed, keys).features)
      come_from.append(where)
    if len(read) == 1:
      return read[0]
    back = np.argsort(np.concatenate(come_from))
    return {
      name: join([some[name] for some in read]).take(back) for name in read[0]
    }

  def lengths(self, places: np.ndarray) -> np.ndarray:
    """Returns trimmed lengths, int32 [n, features of the converter]."""
    number = len(self._recipe.converter.features)
    lengths = np.empty((len(places), number), np.int32)
    for source, where, indices, _ in self._locate(places):
      lengths[where] = source.lengths(indices)
    return lengths

  def find(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the tasks of places and which of their examples, int64 [n]."""
    tasks, indices, _ = self._find(places)
    return tasks, indices

  def _locate(self, places: np.ndarray) -> Iterator[tuple]:
    """Yields per task its source, which of `places` are its, indices, keys."""
    tasks, indices, keys = self._find(places)
    if len(self._sources) == 1:
      yield self._sources[0], slice(None), indices, keys
      return
    for task, source in enumerate(self._sources):
      where = np.flatnonzero(tasks == task)
      if where.size:
        yield source, where, indices[where], keys[where]

  def _find(self, places: np.ndarray) -> tuple[np.ndarray, ...]:
    """Returns (tasks, indices, keys), each int64 [n]."""
    first, last = int(places.min()) // _BLOCK, int(places.max()) // _BLOCK
    if last > first + 1:
      return self._compute(places)
    found = self._block(first)
    if last > first:
      found = map(np.concatenate, zip(found, self._block(last), strict=True))
    within = places - first * _BLOCK
    return tuple(array[within] for array in found)

  def _find_block(self, number: int) -> tuple[np.ndarray, ...]:
    return self._compute(np.arange(number * _BLOCK, (number + 1) * _BLOCK))

  def _compute(self, places: np.ndarray) -> tuple[np.ndarray, ...]:
    tasks, ranks = self.order(places)
    sizes = self.num_examples[tasks]
    indices = order.shuffled(ranks, sizes, self._recipe.seed, tasks)
    for task, whole in enumerate(self._whole or ()):
      where = tasks == task
      indices[where] = whole[indices[where]]
    copies = self._recipe.static_copies
    if copies is None:
      return tasks, indices, places
    keys = (tasks.astype(np.int64) << _TASK_SHIFT) + indices * copies
    return tasks, indices, keys + ranks // sizes % copies


def _whole_examples(
  task: manifest.PreparedTask, recipe: Recipe, lengths: Mapping[str, int]
) -> np.ndarray:
  """Returns which examples of a task fit into the lengths, int64 [n]."""
  features = recipe.converter.features
  room = converters.room(recipe.converter, lengths)
  columns = [task.features.index(feature) for feature in features]
  fits = task.lengths(recipe.split)[:, columns] <= [room[f] for f in features]
  whole = np.flatnonzero(fits.all(axis=1))
  if not whole.size:
    raise UserError(
      f"whole_examples_only is True, but every example of {task.name!r} is "
      f"longer than {dict(lengths)}; give larger TASK_FEATURE_LENGTHS."
    )
  return whole


def _open(
  recipe: Recipe,
  lengths: Mapping[str, int],
  longest: Mapping[str, int] | None,
  cache_bytes: int,
) -> list[sources.Source]:
  """Opens the sources; the smallest may keep their examples in memory."""
  opened = {}
  sizes = [task.split(recipe.split).num_tokens for task in recipe.tasks]
  for number in np.argsort(sizes, kind="stable"):
    source = opened[number] = sources.open_source(
      recipe.tasks[number],
      recipe.split,
      lengths,
      recipe.corruption,
      converter=recipe.converter,
      longest=longest,
      max_tokens=recipe.max_tokens,
      cache_bytes=cache_bytes,
    )
    cache_bytes -= source.cached_bytes
  return [opened[number] for number in range(len(opened))]
