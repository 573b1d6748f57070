"""Meshes, remat policies and microbatches for a run, forecast and ranked."""

from collections.abc import Callable, Iterator, Mapping, Sequence
import dataclasses
import json
import pathlib
from typing import Any

from transformer_zoo.errors import UserError
from transformer_zoo.forecast.topologies import Topology
from transformer_zoo.precompile.report import aligned
from transformer_zoo.runs import settings
from transformer_zoo.training.sharding import meshes

# From what needs most memory and computes least to the opposite.
REMATS = ("none", "minimal", "full")
MICROBATCHES = (1, 4)


@dataclasses.dataclass(frozen=True)
class Candidate:
  """One way to lay a run out.

  Attributes:
    data: The number of devices along the axis `data` of the mesh.
    fsdp: The number of devices along the axis `fsdp`.
    model: The number of devices along the axis `model`.
    remat: a remat policy.
    microbatches: parts of a batch.
  """

  data: int
  fsdp: int
  model: int
  remat: str
  microbatches: int

  @property
  def mesh(self) -> str:
    """1x8x2."""
    return f"{self.data}x{self.fsdp}x{self.model}"

  def overrides(self) -> list[str]:
    """Bindings that make a run so."""
    return [
      f"Partitioning.fsdp={self.fsdp}",
      f"Partitioning.num_partitions={self.model}",
      f"Stack.remat={self.remat!r}",
      f"train.num_microbatches={self.microbatches}",
    ]


# Overrides -> the JSON of `zoo precompile`, or {"error": sentence}.
Run = Callable[[Sequence[str]], Mapping[str, Any]]


def candidates(
  topology: Topology,
  num_slices: int = 1,
  *,
  remats: Sequence[str] = REMATS,
  microbatches: Sequence[int] = MICROBATCHES,
) -> list[Candidate]:
  """All that divide, those with fewer devices along `model` first.

  Of each mesh the one that needs least memory comes first: if that does not
  fit, the others of the mesh need not be tried.

  Args:
    topology: the devices.
    num_slices: slices among them.
    remats: policies to try.
    microbatches: numbers to try.

  Raises:
    UserError: none divides.
  """
  step = settings.Run.of_loaded().step
  partitioning = step.partitioning
  found = []
  count = len(topology.devices) // (partitioning.expert * partitioning.sequence)
  for sizes in meshes.possible_sizes(count, num_slices):
    fitting = _parts_that_divide(step, sizes, topology, microbatches)
    found += [
      Candidate(*sizes.values(), remat, parts)
      for parts in sorted(fitting, reverse=True)
      for remat in sorted(remats, key=REMATS.index, reverse=True)
    ]
  if not found:
    raise UserError(
      f"no mesh of {len(topology.devices)} devices divides the run: change "
      f"BATCH_SIZE={step.batch_size}, or the topology"
    )
  return sorted(found, key=lambda each: (each.model, -each.fsdp))


def search(
  tried: Sequence[Candidate],
  run: Run,
  *,
  report: Callable[[str], None],
  journal: pathlib.Path | None = None,
  fingerprint: str = "",
) -> list[dict[str, Any]]:
  """Forecasts the candidates one after another.

  Args:
    tried: The candidates to forecast, from `candidates`.
    run: makes a forecast.
    report: gets a line on each.
    journal: a file that keeps what is done; what it has of the same run is not
      done again.
    fingerprint: The fingerprint of the run.

  Returns:
    A row for each, those before Ctrl-C at least, the best first: what fits, by
    the time of a step with nothing hidden, then by memory.
  """
  known = dict(_read(journal, fingerprint))
  rows, too_large = [], set()
  for number, candidate in enumerate(tried, 1):
    row = known.get(candidate)
    if row is None and candidate.mesh in too_large:
      row = _row(candidate, {"error": "not tried: a smaller one does not fit"})
    elif row is None:
      try:
        row = _row(candidate, run(candidate.overrides()))
      except KeyboardInterrupt:
        report(f"interrupted: {number - 1} of {len(tried)} are ranked")
        break
      _write(journal, {"run": fingerprint, **row})
    if row["fits"] is False and _needs_least(candidate, tried):
      too_large.add(candidate.mesh)
    rows.append(row)
    report(f"{number}/{len(tried)} {_told(row)}")
  return sorted(rows, key=_rank)


def as_text(rows: Sequence[Mapping[str, Any]]) -> str:
  """The ranked table."""
  header = (
    "rank", meshes.LEGEND, "remat", "microbatches", "fits", "GiB a device",
    "s a step, in turn", "at best", "limit",
  )  # fmt: skip
  table = [header]
  for rank, row in enumerate(rows, 1):
    candidate = Candidate(**row["candidate"])
    table.append(
      (
        str(rank) if row["fits"] is not False and not row["error"] else "",
        candidate.mesh,
        candidate.remat,
        str(candidate.microbatches),
        row["error"] or {True: "yes", False: "no", None: "?"}[row["fits"]],
        _number(row["bytes"] and row["bytes"] / 2**30, 2),
        _number(row["in_turn"], 4),
        _number(row["at_best"], 4),
        row["limit"] or "",
      )
    )
  return "\n".join(aligned(table))


def _parts_that_divide(
  step: settings.Step,
  sizes: Mapping[str, int],
  topology: Topology,
  microbatches: Sequence[int],
) -> list[int]:
  """The numbers of microbatches that a mesh allows; none if it does not fit."""
  partitioning = dataclasses.replace(
    step.partitioning, fsdp=sizes["fsdp"], num_partitions=sizes["model"]
  )
  one = dataclasses.replace(step, partitioning=partitioning, num_microbatches=1)
  try:
    one.program(topology.devices)
  except UserError:
    return []
  rows = step.batch_size // (
    sizes["data"] * sizes["fsdp"] * partitioning.expert
  )
  return [parts for parts in microbatches if rows % parts == 0]


def _needs_least(candidate: Candidate, tried: Sequence[Candidate]) -> bool:
  """Whether it comes first of its mesh."""
  return candidate == next(c for c in tried if c.mesh == candidate.mesh)


def _row(candidate: Candidate, result: Mapping[str, Any]) -> dict[str, Any]:
  memory = result.get("memory", {})
  bounds = result.get("roofline") or {}
  return {
    "candidate": dataclasses.asdict(candidate),
    "error": result.get("error"),
    "fits": result.get("fits"),
    "bytes": memory.get("total") or memory.get("needed"),
    "in_turn": bounds.get("in_turn", {}).get("seconds"),
    "at_best": bounds.get("at_best", {}).get("seconds"),
    "limit": bounds.get("limit"),
  }


def _rank(row: Mapping[str, Any]) -> tuple:
  unknown = float("inf")
  return (
    row["error"] is not None,
    row["fits"] is False,
    unknown if row["in_turn"] is None else row["in_turn"],
    unknown if row["bytes"] is None else row["bytes"],
  )


def _told(row: Mapping[str, Any]) -> str:
  candidate = Candidate(**row["candidate"])
  name = (
    f"mesh {candidate.mesh}, remat {candidate.remat}, "
    f"{candidate.microbatches} microbatches"
  )
  if row["error"]:
    return f"{name}: {row['error']}"
  size = _number(row["bytes"] and row["bytes"] / 2**30, 2)
  says = {True: "fits", False: "does not fit", None: "compiled"}[row["fits"]]
  return f"{name}: {says}, {size} GiB a device"


def _read(
  journal: pathlib.Path | None, fingerprint: str
) -> Iterator[tuple[Candidate, dict]]:
  if journal is None or not journal.exists():
    return
  for line in journal.read_text().splitlines():
    try:
      row = json.loads(line)
    except json.JSONDecodeError:  # The end of a line that a kill cut off.
      continue
    if row.pop("run") == fingerprint:
      yield Candidate(**row["candidate"]), row


def _write(journal: pathlib.Path | None, row: Mapping[str, Any]) -> None:
  if journal is not None:
    with journal.open("a") as file:
      file.write(json.dumps(row) + "\n")


def _number(value: float | None, digits: int) -> str:
  return "?" if value is None else f"{value:,.{digits}f}"
