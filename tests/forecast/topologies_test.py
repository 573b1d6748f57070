"""Names of topologies, and what is refused before anything is compiled."""

import importlib.util
import re

import jax
import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.forecast import topologies

ALLOWED = (
  "v2:4x4, v3:4x4, v4:4x4x4, v5e:4x4, v5p:4x4x4, v6e:4x4, 7x:4x4x4, cpu:8 "
  "(simulated), gpu:1 (of this machine)"
)


@pytest.mark.parametrize(
  "name, message",
  [
    ("v5x:2x2", "unknown topology 'v5x:2x2'; did you mean 'v"),
    ("v5x:2x2", f"allowed: {ALLOWED}"),
    ("", "unknown topology ''"),
    ("v5e", "topology 'v5e' has to be v5e:axb with 2 numbers of chips"),
    ("v5e:2x2x2", "topology 'v5e:2x2x2' has to be v5e:axb with 2 numbers"),
    ("v4:2x2", "topology 'v4:2x2' has to be v4:axbxc with 3 numbers of chips"),
    ("v5e:4x0", "topology 'v5e:4x0' has to be"),
    ("v5e:16x32", "together at most the 256 of a pod"),
    ("v5e:4xa", "topology 'v5e:4xa' has to be"),
    ("cpu:0", "topology 'cpu:0' has to be cpu:N, N devices up to 9999"),
    ("cpu:2x2", "topology 'cpu:2x2' has to be cpu:N"),
    ("cpu:64", "topology 'cpu:64': this machine has 8 such devices"),
    ("gpu:1", "topology 'gpu:1': this machine has no GPU that JAX finds"),
  ],
)
def test_bad_names(name, message):
  with pytest.raises(UserError) as caught:
    topologies.find(name)
  assert message in str(caught.value)


def test_number_of_slices():
  with pytest.raises(UserError) as caught:
    topologies.find("v5e:4x4", 0)
  assert str(caught.value) == "num_slices=0; it has to be at least 1"


def test_simulated_devices():
  found = topologies.find("cpu:4")
  assert list(found.devices) == jax.devices()[:4]
  assert (found.platform, found.chip) == ("cpu", None)


def test_without_libtpu(monkeypatch):
  monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
  with pytest.raises(UserError, match=re.escape("transformer_zoo[tpu]")):
    topologies.find("v5e:4x4")


@pytest.mark.parametrize(
  ("name", "chip", "devices"),
  [
    ("v5e:4x4", "v5e", 16),
    ("v5litepod:2x4", "v5e", 8),
    ("v4:2x2x4", "v4", 16),
    ("v3:2x2", "v3", 8),  # Two cores of a chip are two devices.
    ("7x:2x2x1", "7x", 8),
  ],
)
def test_what_a_slice_has(name, chip, devices):
  found, number = topologies.chips_of(name)
  assert (found.name, number) == (chip, devices)


def test_slices_that_do_not_exist():
  with pytest.raises(UserError, match="unknown TPU slice 'cpu:4'; .*as v2:4x4"):
    topologies.chips_of("cpu:4")
  with pytest.raises(UserError, match="'v5e:4' has to be v5e:axb with 2"):
    topologies.chips_of("v5e:4")
