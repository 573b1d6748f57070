"""T5.1.1 pre-training on an accelerator: `python benchmarks/accelerator.py`.

Measures the training step of T5.1.1 base and large in bfloat16 (512 tokens in,
114 out, Adafactor, no dropout): tokens per second and model FLOPs utilisation
(three times the products of the forward pass, Chowdhery et al. 2022). First
compares every attention kernel's loss and gradients with the reference in
float32; one that is more than twice as far from it as the reference in bfloat16
is noted as wrong, and not measured. Then tries kernels, batch sizes and what
the backward pass computes again, and does the same by PyTorch's `transformers`
where that is installed (bfloat16 autocast, with and without torch.compile).
Needs jax, flax, optax and this repository: no TensorFlow, no SeqIO, no gin.

Every configuration is a process of its own: one that fails, or takes too long,
is noted and the next one is tried. The JSON file is written anew after each.
"""

import argparse
from collections.abc import Callable
import dataclasses
import datetime
import importlib.metadata
import json
import os
import pathlib
import platform
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
SIZES = {
  "base": dict(d_model=768, d_ff=2048, num_heads=12, num_layers=12),
  "large": dict(d_model=1024, d_ff=2816, num_heads=16, num_layers=24),
  "tiny": dict(d_model=32, d_ff=64, num_heads=2, num_layers=1),
}
BATCH_SIZES = {"base": (32, 64, 128, 256), "large": (16, 32, 64, 128)}
KERNELS = {
  "gpu": ("cudnn", "fused", "xla", "reference", "chunked"),
  "tpu": ("automatic", "fused", "xla", "reference", "chunked"),
  "cpu": ("reference", "chunked"),
}
PACKAGES = (
  *("jax", "jaxlib", "flax", "optax", "numpy", "libtpu", "torch"),
  *("transformers", "jax-cuda12-plugin", "jax-cuda13-plugin"),
)
_LONGEST_SECONDS = 900.0  # Of one configuration.
# The model in which kernels are compared: two heads of T5's width.
_COMPARED = dict(
  d_model=128, d_ff=256, num_heads=2, num_layers=2, head_dim=64, vocab_size=512
)
_MORE_THAN_REFERENCE = 2.0

Measure = Callable[[str, dict, float], dict]


@dataclasses.dataclass
class Report:
  """What was found, written down after every finding.

  Attributes:
    path: the JSON file.
    content: what it holds.
  """

  path: pathlib.Path
  content: dict

  def add(self, entry: dict) -> None:
    """Notes a configuration and what came of it; prints a line."""
    self.content["results"].append(entry)
    self.content["best"] = best(self.content["results"])
    temporary = self.path.with_name(self.path.name + ".new")
    temporary.write_text(json.dumps(self.content, indent=2) + "\n")
    os.replace(temporary, self.path)
    what = ", ".join(f"{k} {v}" for k, v in entry["configuration"].items())
    if "error" in entry:
      print(f"{what}: {entry['error']}", flush=True)
      return
    if "kernel" in entry:
      print(f"{what}: right", flush=True)
      return
    line = f"{what}: {entry['tokens_per_second']:,.0f} tokens/s"
    if "utilisation" in entry:
      line += f", utilisation {entry['utilisation']:.1%}"
    print(line, flush=True)


def exact_kernels(
  kernels: tuple[str, ...],
  arguments: argparse.Namespace,
  report: Report,
  measure: Measure,
  deadline: float,
) -> tuple[str, ...]:
  """Returns the kernels but those that were seen to compute something else."""
  exact = []
  for kernel in kernels:
    left = deadline - time.monotonic()
    if left <= 0:
      exact.append(kernel)
      continue
    work = {"model": {**_COMPARED, "kernel": kernel}, "errors": 2}
    work |= {"inputs": arguments.inputs, "targets": arguments.targets}
    found = measure("accelerator_step", work, min(left, _LONGEST_SECONDS))
    entry = {"configuration": {"compared": kernel}, **found}
    if "error" not in found:
      # The loss is one number, whose error may be 0 by chance.
      error, allowed = (
        found[of]["gradients"] for of in ("kernel", "reference")
      )
      if not error <= _MORE_THAN_REFERENCE * allowed:
        entry["error"] = (
          f"wrong: gradients {error:.1e} (the reference {allowed:.1e})"
        )
    report.add(entry)
    if "error" not in entry:
      exact.append(kernel)
  return tuple(exact)


class Search:
  """Configurations of one size, the promising ones first."""

  def __init__(
    self,
    size: str,
    arguments: argparse.Namespace,
    report: Report,
    measure: Measure,
    deadline: float,
  ):
    """Nothing is run yet."""
    self._size = size
    self._arguments = arguments
    self._report = report
    self._measure = measure
    self._deadline = deadline
    self._flops = {}  # By batch size: of a step.

  def run(self, kernels: tuple[str, ...], peers: bool) -> None:
    """Measures until all is measured or the time is over."""
    first, *_ = self._batch_sizes
    by_kernel = {k: self._ours(first, k, "none") for k in kernels}
    speeds = {k: v["tokens_per_second"] for k, v in by_kernel.items() if v}
    kernel = max(speeds, key=speeds.get) if speeds else kernels[0]
    self._until_it_fails(lambda b: self._ours(b, kernel, "none"), skip=1)
    if peers:
      for compiled in (False, True):
        self._until_it_fails(lambda b, c=compiled: self._peer(b, c))
    for remat in ("minimal", "full"):
      self._until_it_fails(lambda b, r=remat: self._ours(b, kernel, r))

  @property
  def _batch_sizes(self) -> tuple[int, ...]:
    return self._arguments.batch_sizes or BATCH_SIZES[self._size]

  def _until_it_fails(self, measure, skip: int = 0) -> None:
    for batch_size in self._batch_sizes[skip:]:
      if measure(batch_size) is None:
        return

  def _ours(self, batch_size, kernel, remat) -> dict | None:
    found = self._try(
      "accelerator_step",
      {"batch_size": batch_size, "attention": kernel, "remat": remat},
      {"kernel": kernel, "remat": remat, "scan": self._arguments.scan},
      {},
    )
    if found is not None:
      self._flops[batch_size] = found["model_flops"], found["peak_flops"]
    return found

  def _peer(self, batch_size, compiled) -> dict | None:
    return self._try(
      "peers.transformers_step",
      {"batch_size": batch_size, "transformers": True, "compiled": compiled},
      {},
      {"compile": compiled},
    )

  def _try(self, module, told, model, more) -> dict | None:
    left = self._deadline - time.monotonic()
    if left <= 0:
      return None
    configuration = {"size": self._size, **told}
    work = {
      "model": {
        "vocab_size": self._arguments.vocab_size,
        "head_dim": 64,
        **SIZES[self._size],
        **model,
      },
      "batch_size": told["batch_size"],
      "inputs": self._arguments.inputs,
      "targets": self._arguments.targets,
      "steps": self._arguments.steps,
      "warmup": self._arguments.warmup,
      **more,
    }
    found = self._measure(module, work, min(left, _LONGEST_SECONDS))
    if "transformers" in told and told["batch_size"] in self._flops:
      if "error" not in found:
        flops, peak = self._flops[told["batch_size"]]
        # One device, whatever ours had.
        flops /= self._report.content["hardware"]["devices"]
        found["utilisation"] = flops / found["seconds_per_step"] / peak
    self._report.add({"configuration": configuration, **found})
    return None if "error" in found else found


def best(results: list[dict]) -> dict[str, dict]:
  """The fastest of ours and of the peer, by size, and their ratio."""
  found = {}
  for entry in results:
    if "tokens_per_second" not in entry:
      continue
    who = "peer" if "transformers" in entry["configuration"] else "ours"
    of_size = found.setdefault(entry["configuration"]["size"], {})
    known = of_size.get(who)
    speed = entry["tokens_per_second"]
    if known is None or speed > known["tokens_per_second"]:
      of_size[who] = entry
  for of_size in found.values():
    if len(of_size) == 2:
      ours, peer = (of_size[w]["tokens_per_second"] for w in ("ours", "peer"))
      of_size["ours_over_peer"] = ours / peer
  return found


def measure_apart(module: str, work: dict, seconds: float) -> dict:
  """Measures a configuration in a process: its figures, or its `error`."""
  paths = [str(HERE.parent), str(HERE), os.environ.get("PYTHONPATH", "")]
  environment = {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.92"}  # JAX's is 0.75.
  environment |= os.environ
  environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
  try:
    done = subprocess.run(
      [sys.executable, "-m", module, json.dumps(work)],
      env=environment,
      capture_output=True,
      text=True,
      timeout=seconds,
    )
  except subprocess.TimeoutExpired:
    return {"error": f"not done after {seconds:.0f} s"}
  if done.returncode:
    lines = [line for line in done.stderr.splitlines() if "Error" in line]
    last = lines[-1:] or done.stderr.strip().splitlines()[-1:]
    return {"error": (last or [f"exit code {done.returncode}"])[0][:500]}
  return json.loads(done.stdout.splitlines()[-1])


def describe(measure: Measure) -> dict:
  """When, where and with what."""
  versions = {}
  for package in PACKAGES:
    try:
      versions[package] = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
      pass
  commit = subprocess.run(
    ["git", "-C", str(HERE), "rev-parse", "HEAD"],
    capture_output=True,
    text=True,
    check=False,
  )
  hardware = measure("accelerator_step", {}, _LONGEST_SECONDS)
  if "error" in hardware:
    raise SystemExit(f"JAX does not start here: {hardware['error']}")
  return {
    "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    "command": " ".join(sys.argv),
    "commit": commit.stdout.strip() or None,
    "hardware": hardware,
    "machine": platform.platform(),
    "python": platform.python_version(),
    "versions": versions,
    "results": [],
  }


def run(
  arguments: argparse.Namespace, measure: Measure = measure_apart
) -> dict:
  """Measures what the budget allows; returns what the JSON file holds."""
  content = describe(measure)
  report = Report(pathlib.Path(arguments.output), content)
  hardware = content["hardware"]
  print("{devices} x {device_kind}".format(**hardware), flush=True)
  peers = {"torch", "transformers"} <= {*content["versions"]}
  if not peers:
    print("PyTorch's transformers is not installed: measured without it")
  end = time.monotonic() + arguments.budget_seconds
  kernels = arguments.kernels or KERNELS.get(
    hardware["platform"], KERNELS["cpu"]
  )
  kernels = exact_kernels(tuple(kernels), arguments, report, measure, end)
  if not kernels:
    raise SystemExit("no kernel computes what the reference does")
  for index, size in enumerate(arguments.sizes):
    # Of the time that is left, each size has its share.
    now = time.monotonic()
    share = max(0.0, end - now) / (len(arguments.sizes) - index)
    search = Search(size, arguments, report, measure, now + share)
    search.run(kernels, peers)
    if time.monotonic() > now + share:
      print(f"{size}: the time is over, and not all was measured", flush=True)
  return content


def parse(words: list[str] | None = None) -> argparse.Namespace:
  """Reads the command line."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  add = parser.add_argument
  add("--sizes", nargs="+", choices=SIZES, default=["base", "large"])
  add("--batch_sizes", nargs="+", type=int, help="rows on a device, ascending")
  add("--kernels", nargs="+", help="of attention; see accelerator_step.py")
  add("--inputs", type=int, default=512)
  add("--targets", type=int, default=114)
  add("--vocab_size", type=int, default=32128)
  add("--scan", action="store_true", help="compile one layer once")
  add("--steps", type=int, default=10, help="in each of three blocks")
  add("--warmup", type=int, default=3)
  add("--budget_seconds", type=float, default=3600.0)
  add("--output", default="accelerator.json")
  return parser.parse_args(words)


if __name__ == "__main__":
  run(parse())
