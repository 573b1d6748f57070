"""The reaction of a run to NaN, infinities and spikes.

The step itself has decided (anomalies.py); here its verdict is read,
one step late, written down with where the batch came from, and ends the run
where that is bound.
"""

from collections.abc import Callable, Mapping
import json
import os
import pathlib
from typing import Any

import jax
import numpy as np

from transformer_zoo.training.monitoring import anomalies as anomalies_lib
from transformer_zoo.training.monitoring.anomalies import Anomalies
from transformer_zoo.training.monitoring.recorder import Recorder

FOLDER = "not_finite"
_WORDS = {
  "not_finite": "not finite",
  "spike": "a spike",
  "skip": "skipped",
  "note": "noted",
  "stop": "the end",
}


class NotFinite(FloatingPointError):
  """The loss or its gradient became NaN or infinite."""


class Spike(FloatingPointError):
  """The loss or its gradient rose far above its earlier values."""


class Guard:
  """Counts anomalies, keeps what the step remembers of those before it.

  Attributes:
    history: The running statistics on the devices, for the next step; None if
      the step looks for no anomalies.
  """

  def __init__(
    self,
    anomalies: Anomalies,
    recorder: Recorder,
    folder: str | os.PathLike[str],
    *,
    origin: Callable[[int], Mapping[str, Any]] = lambda index: {},
    place: Callable = lambda history: history,
    saved: Mapping | None = None,
  ):
    """Begins, or continues from a checkpoint.

    Args:
      anomalies: The treatment of anomalies.
      recorder: The recorder that writes anomalies.
      folder: The run folder, which receives the batch that ends the run.
      origin: the number of a batch, from 0 -> where it comes from.
      place: lays the history out on the devices.
      saved: The result of `to_json` that a checkpoint holds; None at the start
        of a run.
    """
    self._anomalies = anomalies
    self._recorder = recorder
    self._folder = pathlib.Path(folder) / FOLDER
    self._origin = origin
    saved = saved or {}
    self._counts = {"not_finite": 0, "spike": 0, "skipped": 0}
    self._counts |= saved.get("counts", {})
    self._in_a_row = saved.get("in_a_row", 0)
    self.history = None
    if anomalies.are_looked_for:
      history = anomalies_lib.initial_history()
      if "history" in saved:
        history = anomalies_lib.from_json(saved["history"])
      self.history = place(history)

  def to_json(self) -> dict:
    """The state for a resumed run; waits for the last step."""
    if self.history is None:
      return {}
    return {
      "counts": self._counts,
      "in_a_row": self._in_a_row,
      "history": anomalies_lib.to_json(jax.device_get(self.history)),
    }

  def counts(self) -> dict[str, float]:
    """Numbers for the line of metrics, of the whole run so far."""
    if self.history is None:
      return {}
    return {f"train/{name}_steps": n for name, n in self._counts.items()}

  def accepts(
    self,
    step: int,
    sums: Mapping[str, Any],
    batch: Mapping[str, np.ndarray],
  ) -> bool:
    """Whether a step moved the parameters; an anomaly is written down.

    Args:
      step: The number of the step, from 1.
      sums: The sums of `train_step` and `Anomalies.judge`, on the host.
      batch: The batch of this process.

    Raises:
      NotFinite: loss or gradient is, and that ends the run.
      Spike: there is one, and that ends the run.
    """
    # A gradient that is not finite spoils the next loss, and a checkpoint
    # between the two.
    values = sums["loss"] + sums["gradient_norm"]
    is_finite = not sums.get("not_finite", not np.isfinite(values))
    skipped = bool(sums.get("skipped"))
    self._in_a_row = self._in_a_row + 1 if skipped else 0
    if is_finite and not sums.get("spike"):
      return True
    kind = "spike" if is_finite else "not_finite"
    self._counts[kind] += 1
    self._counts["skipped"] += skipped
    how = self._anomalies.on_spike if is_finite else "stop"
    action = "skip" if skipped else how
    if jax.process_index() == 0:
      self._tell(step, sums, kind, action)
    if action == "stop":
      raise self._end(step, sums, batch, is_finite, "")
    if self._in_a_row > self._anomalies.max_in_a_row:
      which = f", after {self._in_a_row - 1} skipped ones in a row"
      raise self._end(step, sums, batch, is_finite, which)
    return not skipped

  def _tell(self, step, sums, kind, action) -> None:
    """Writes the line of anomalies.jsonl, and one on the terminal."""
    # NaN is no JSON, so these are texts.
    line = {
      "kind": kind,
      "action": action,
      "loss": repr(sums["loss"]),
      "gradient_norm": repr(sums["gradient_norm"]),
    }
    if np.all(np.isfinite(sums.get("limits", np.inf))):
      line["limits"] = np.asarray(sums["limits"]).tolist()
    line["batch"] = dict(self._origin(step - 1))
    self._recorder.anomaly(step, line)
    print(
      f"step {step}: {_WORDS[action]}: {_WORDS[kind]} (gradient norm "
      f"{sums['gradient_norm']:.4g}); anomalies.jsonl names its batch",
      flush=True,
    )

  def _end(self, step, sums, batch, is_finite, which) -> FloatingPointError:
    """Saves the batch of the step that ends the run."""
    self._folder.mkdir(parents=True, exist_ok=True)
    process = f"_process_{jax.process_index()}" * (jax.process_count() > 1)
    path = self._folder / f"batch_{step}{process}.npz"
    np.savez(path, **batch)
    texts = {
      name: repr(value) for name, value in sums.items() if np.ndim(value) == 0
    }
    (self._folder / f"metrics_{step}{process}.json").write_text(
      json.dumps({"step": step, **texts})
    )
    found = (
      f"(loss {sums['loss']}, gradient_norm {sums['gradient_norm']}); "
      f"its batch is saved as {path}; lower the learning rate or look at it"
    )
    if is_finite:
      return Spike(f"step {step} is a spike{which} {found}")
    return NotFinite(f"the loss of step {step} is not finite{which} {found}")
