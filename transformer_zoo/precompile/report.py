"""A forecast as JSON and as text."""

from collections.abc import Sequence
import dataclasses
import json
from typing import Any

from transformer_zoo.forecast import compilation
from transformer_zoo.forecast import roofline
from transformer_zoo.forecast import traffic
from transformer_zoo.precompile.forecasts import Forecast

_GIB = 2**30
_ELSEWHERE = {"send": "slices"}


def as_json(forecast: Forecast) -> dict[str, Any]:
  """All of it but the compiled text."""
  compiled, chip = forecast.compiled, forecast.topology.chip
  return {
    "topology": forecast.topology.name,
    "device_kind": forecast.topology.devices[0].device_kind,
    "devices": len(forecast.topology.devices),
    "chip": chip and dataclasses.asdict(chip),
    "mesh": forecast.mesh,
    "mode": forecast.mode,
    "batch": forecast.batch,
    "fits": forecast.fits,
    "memory": {
      "state": forecast.state_bytes,
      **_planned(compiled.memory),
      "needed": compiled.needed,
      "available": forecast.available,
      "missing": forecast.missing,
    },
    "cost": dataclasses.asdict(forecast.cost),
    "model_flops": forecast.model_flops,
    "collectives": [dataclasses.asdict(row) for row in forecast.collectives],
    "formula": roofline.FORMULA,
    "roofline": forecast.roofline and dataclasses.asdict(forecast.roofline),
    "trace_seconds": round(compiled.trace_seconds, 2),
    "compile_seconds": round(compiled.compile_seconds, 2),
    "processor_seconds": round(compiled.processor_seconds, 2),
    "parameters": [dataclasses.asdict(row) for row in forecast.shardings],
  }


def show(forecast: Forecast, in_json: bool, with_traffic: bool = False) -> None:
  """Prints it.

  Args:
    forecast: The forecast.
    in_json: Whether to print JSON instead of text.
    with_traffic: Whether to add what each part and kind of operation moves.
  """
  report = as_json(forecast)
  if with_traffic:
    rows = traffic.totals(forecast.compiled.text, forecast.unknown_trips)
    report["traffic"] = [dataclasses.asdict(row) for row in rows]
  print(json.dumps(report, indent=2) if in_json else as_text(report))


def as_text(report: dict[str, Any]) -> str:
  """The report of `as_json` for people, the verdict last."""
  mesh = " x ".join(f"{size} {name}" for name, size in report["mesh"].items())
  batch = report["batch"]
  sections = [
    _parameters(report["parameters"]),
    [
      f"{report['mode']} step for {report['topology']}: {report['devices']} x "
      f"{report['device_kind']}, mesh {mesh}, "
      f"{batch['rows']:,} rows, {batch['tokens']:,} tokens; "
      f"traced in {report['trace_seconds']} s, compiled in "
      f"{report['compile_seconds']} s"
    ],
    _memory(report["memory"]),
    _cost(report),
    *_compiled(report),
    [verdict(report)],
  ]
  return "\n\n".join("\n".join(lines) for lines in sections if lines)


def _planned(memory: compilation.Memory | None) -> dict[str, int]:
  if memory is None:
    return {}
  return {**dataclasses.asdict(memory), "total": memory.total}


def verdict(report: dict[str, Any]) -> str:
  """Whether it fits, in a sentence."""
  memory, name = report["memory"], report["device_kind"]
  if report["fits"] is None:
    return f"how much memory a {name} has for it is not known"
  has = "what it has"
  if memory["available"] is not None:
    has = f"the {_size(memory['available'])} that it has for programs"
  if report["fits"]:
    return f"fits: {_size(memory['total'])} of {has} on each {name}"
  lacks = "more memory"
  if memory["missing"] is not None:
    lacks = f"{_size(memory['missing'])} more"
  return f"does not fit: each {name} needs {lacks} than {has}"


def _parameters(rows: Sequence[dict]) -> list[str]:
  table = [("parameter", "shape", "logical axes", "mesh axes", "MB a device")]
  for row in rows:
    table.append(
      (
        row["path"],
        " x ".join(map(str, row["shape"])),
        ", ".join(map(str, row["axes"])),
        ", ".join(row["mesh_axes"]),
        f"{row['device_bytes'] / 1e6:,.1f}"
        + ("  replicated" if row["replicated"] else ""),
      )
    )
  return aligned(table)


def _memory(memory: dict[str, Any]) -> list[str]:
  lines = ["bytes on each device"]
  for name in (
    "state arguments outputs aliased temporaries total peak code needed "
    "available"
  ).split():
    if memory.get(name) is not None:
      lines.append(f"  {name:12} {memory[name]:>18,}  {_size(memory[name])}")
  return lines


def _cost(report: dict[str, Any]) -> list[str]:
  cost = report["cost"]
  return [
    "a step on all devices together, counted from the program",
    f"  FLOPs          {cost['flops']:.4g}, of them in matrix products "
    f"{cost['matmul_flops']:.4g}",
    f"  model FLOPs    {report['model_flops']:.4g}",
    f"  bytes accessed {cost['bytes_accessed']:.4g}",
  ]


def _compiled(report: dict[str, Any]) -> list[list[str]]:
  """The values that only a compiled program has."""
  if "total" not in report["memory"]:
    return []
  return [
    _collectives(report["collectives"]),
    _traffic(report.get("traffic", [])),
    _roofline(report["roofline"]),
  ]


def _traffic(rows: Sequence[dict]) -> list[str]:
  """The parts and kinds that move at least a hundredth of all."""
  if not rows:
    return []
  total = sum(row["bytes"] for row in rows)
  table = [("bytes in the compiled step", "kind", "times", "MB", "%")]
  for row in [*rows, {"part": "all", "kind": "", "bytes": total}]:
    if row["bytes"] * 100 >= total:
      table.append(
        (
          row["part"],
          row["kind"],
          f"{row['count']:,}" if "count" in row else "",
          f"{row['bytes'] / 1e6:,.0f}",
          f"{100 * row['bytes'] / total:.0f}",
        )
      )
  return ["by each device", *aligned(table)]


def _collectives(rows: Sequence[dict]) -> list[str]:
  if not rows:
    return ["collectives: none"]
  table = [("collectives", "along", "times", "MB", "MB sent")]
  for row in rows:
    table.append(
      (
        row["kind"],
        "+".join(row["axes"]) or _ELSEWHERE.get(row["kind"], "other"),
        f"{row['count']:,}",
        f"{row['bytes'] / 1e6:,.1f}",
        f"{row['moved_bytes'] / 1e6:,.1f}",
      )
    )
  return ["in a step, by each device", *aligned(table)]


def _roofline(bounds: dict[str, Any] | None) -> list[str]:
  if bounds is None:
    return ["roofline: the speed of this device is not known"]
  lines = [
    f"roofline: {roofline.FORMULA}",
    "  "
    + ", ".join(
      f"{name} {bounds[name]:.4f} s"
      for name in ("compute", "memory", "interconnect")
    )
    + f"; limited by {bounds['limit']}",
  ]
  for name, title in (("at_best", "at best"), ("in_turn", "in turn")):
    bound = bounds[name]
    days = "" if bound["days"] is None else f", {bound['days']:,.2f} days"
    lines.append(
      f"  {title}: {bound['seconds']:.4f} s a step, "
      f"{bound['tokens_per_second']:,.0f} tokens/s, model FLOPs utilisation "
      f"{bound['utilisation']:.1%}{days}"
    )
  return lines


def aligned(table: Sequence[Sequence[str]]) -> list[str]:
  """Lines of a table with columns as wide as their widest cell."""
  widths = [max(map(len, column)) for column in zip(*table, strict=True)]
  return [
    "  ".join(
      cell.ljust(width) for cell, width in zip(row, widths, strict=True)
    ).rstrip()
    for row in table
  ]


def _size(size: int) -> str:
  if size < _GIB:
    return f"{size / 2**20:,.1f} MiB"
  return f"{size / _GIB:,.2f} GiB"
