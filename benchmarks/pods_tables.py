"""Tables and plots of docs/guides/pods.md from the rows of pods.py."""

from collections.abc import Mapping, Sequence
import pathlib

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot as plt  # noqa: E402

BEGIN, END = "<!-- forecasts -->\n", "<!-- end of forecasts -->\n"
_GIB = 2**30
# Raffel et al. 2020, section 3.1.2: the steps of their baseline.
_STEPS = 2**19
_NAMES = {
  "t5_1_0_base": "T5 base",
  "t5_1_0_large": "T5 large",
  "t5_1_0_3b": "T5 3B",
  "t5_1_0_11b": "T5 11B",
  "t5_1_1_xl": "T5.1.1 XL",
  "t5_1_1_xxl": "T5.1.1 XXL",
}


def write(rows: Sequence[Mapping], folder: pathlib.Path) -> None:
  """Replaces the forecasts in `<folder>.md` and the plots in the folder.

  Args:
    rows: of `forecasts.jsonl`.
    folder: docs/pods.
  """
  page = folder.with_suffix(".md")
  text = page.read_text(encoding="utf-8")
  before, rest = text.split(BEGIN)
  after = rest.split(END)[1]
  lines = [*_smallest(rows), "", *_all(rows), ""]
  for name, title, is_wanted in (
    ("strong_scaling", "2,048 rows", _is_large),
    ("weak_scaling", "8 rows a chip", _has_eight_rows),
  ):
    curves = _curves(rows, is_wanted)
    if curves:
      _plot(curves, folder / f"{name}.svg", f"{title} on v5p")
      lines.append(f"![{title} on v5p]({folder.name}/{name}.svg)\n")
  page.write_text(
    before + BEGIN + "\n".join(lines) + END + after, encoding="utf-8"
  )


def _is_large(row: Mapping) -> bool:
  return row["cell"]["batch"] == 2048


def _has_eight_rows(row: Mapping) -> bool:
  return row["cell"]["batch"] == 8 * row["cell"]["chips"]


def _smallest(rows: Sequence[Mapping]) -> list[str]:
  """The smallest slice on which each size fits."""
  chips = ("v5e", "v4", "v5p")
  lines = [
    "| size | batch | " + " | ".join(chips) + " |",
    "|---|---|" + "---|" * len(chips),
  ]
  for size, name in _NAMES.items():
    for batch in (128, 2048):
      cells = [_smallest_cell(rows, size, batch, chip) for chip in chips]
      lines.append(f"| {name} | {batch:,} | " + " | ".join(cells) + " |")
  return lines


def _smallest_cell(rows, size: str, batch: int, chip: str) -> str:
  of_it = [
    row
    for row in rows
    if (row["cell"]["size"], row["cell"]["batch"]) == (size, batch)
    and row["cell"]["chip"] == chip
  ]
  fitting = [row for row in of_it if row.get("fits")]
  if not fitting:
    refused = [row["cell"]["chips"] for row in of_it]
    return f"more than {max(refused)}" if refused else "not compiled"
  row = min(fitting, key=lambda row: row["cell"]["chips"])
  memory = row["memory"]
  return (
    f"{row['cell']['chips']} chips, {memory['total'] / _GIB:.1f} of "
    f"{memory['available'] / _GIB:.1f} GiB"
  )


def _all(rows: Sequence[Mapping]) -> list[str]:
  """Every forecast."""
  lines = [
    "| size | batch | slice | mesh | parts | GiB a device | limit | s a step "
    "| tokens/s | utilisation | days |",
    "|" + "---|" * 11,
  ]
  order = list(_NAMES)
  for row in sorted(
    rows,
    key=lambda row: (
      order.index(row["cell"]["size"]),
      row["cell"]["batch"],
      row["cell"]["chip"],
      row["cell"]["chips"],
    ),
  ):
    lines.append(_line(row))
  return lines


def _line(row: Mapping) -> str:
  cell, memory = row["cell"], row["memory"]
  mesh = "x".join(map(str, row["mesh"].values()))
  parts = row["bindings"]["NUM_MICROBATCHES"]
  start = (
    f"| {_NAMES[cell['size']]} | {cell['batch']:,} | {row['topology']} "
    f"| {mesh} | {parts} | "
  )
  if not row["fits"]:
    return start + f"needs {memory['needed'] / _GIB:.1f} |" + " |" * 5
  bounds = row["roofline"]
  best, worst = bounds["at_best"], bounds["in_turn"]
  seconds = [each["seconds"] for each in (best, worst)]
  return start + " | ".join(
    [
      f"{memory['total'] / _GIB:.1f}",
      bounds["limit"],
      _range(seconds, "{:.3f}"),
      _range([each["tokens_per_second"] for each in (worst, best)], "{:,.0f}"),
      _range([100 * each["utilisation"] for each in (worst, best)], "{:.0f}")
      + " %",
      _range([_STEPS * each / 86400 for each in seconds], "{:.1f}") + " |",
    ]
  )


def _range(values: Sequence[float], form: str) -> str:
  first, last = (form.format(value) for value in values)
  return first if first == last else f"{first} to {last}"


def _curves(rows, is_wanted) -> dict[str, list[tuple[int, float, float]]]:
  """Size -> (chips, tokens/s in turn, at best), of sizes on several slices."""
  curves = {}
  for row in rows:
    if row.get("fits") and row["cell"]["chip"] == "v5p" and is_wanted(row):
      bounds = row["roofline"]
      point = (
        row["cell"]["chips"],
        bounds["in_turn"]["tokens_per_second"],
        bounds["at_best"]["tokens_per_second"],
      )
      curves.setdefault(row["cell"]["size"], set()).add(point)
  return {
    size: sorted(curves[size])
    for size in _NAMES
    if len(curves.get(size, ())) > 1
  }


def _plot(curves, path: pathlib.Path, title: str) -> None:
  plt.rcParams |= {"svg.hashsalt": "pods", "svg.fonttype": "none"}
  figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
  for size, points in curves.items():
    chips = [point[0] for point in points]
    low = [point[1] for point in points]
    high = [point[2] for point in points]
    (line,) = axes.plot(chips, low, marker="o", label=_NAMES[size])
    axes.fill_between(chips, low, high, alpha=0.2, color=line.get_color())
  axes.set_xscale("log", base=2)
  axes.set_yscale("log")
  axes.set_xlabel("chips")
  axes.set_ylabel("tokens/s, from in turn to at best")
  axes.set_title(title)
  axes.legend()
  figure.savefig(path, metadata={"Date": None})
  plt.close(figure)
