"""Batches of the benchmarks of encoders."""

import pathlib

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def random_batches(monkeypatch):
  """The script as a module."""
  monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
  return pytest.importorskip("workloads.random_batches")


def test_lengths_are_those_of_mrpc(random_batches):
  lengths = random_batches.mrpc_lengths(20_000)
  assert lengths.mean() == pytest.approx(53.2, abs=1)
  assert np.median(lengths) == pytest.approx(53, abs=1)
  assert 19 <= lengths.min() and lengths.max() <= 103


def test_packed_pairs_are_all_there_with_a_class_each(random_batches):
  lengths = random_batches.mrpc_lengths(256)
  batches = random_batches.packed_pairs(lengths, 8, 128, 1000)
  assert len(batches) == 8
  assert len({batch["encoder_input_tokens"].shape for batch in batches}) == 1
  tokens = [np.count_nonzero(b["encoder_input_tokens"]) for b in batches]
  assert sum(tokens) == lengths.sum()
  starts = [b["encoder_loss_weights"] for b in batches]
  assert sum(map(np.sum, starts)) == 256
  for batch in batches:
    predicted = batch["encoder_loss_weights"] > 0
    assert (batch["encoder_positions"][predicted] == 0).all()
    rows = batch["encoder_segment_ids"].max(1)
    assert (predicted.sum(1) == rows).all()


def test_masked_places_are_the_predicted_ones(random_batches):
  batch = random_batches.masked(4, 128, 1000)
  hidden = batch["encoder_loss_weights"].sum(1)
  assert (hidden == 19).all()  # 15 % of 128.
  first = batch["encoder_predicted_places"][:, :19]
  weights = np.take_along_axis(batch["encoder_loss_weights"], first, axis=1)
  assert (weights == 1).all()
  assert batch["encoder_predicted_places"].shape == (4, 26)  # A fifth.
