"""Models for TPU slices that are not there, by the real compiler."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest

# `make test` puts libtpu beside the project's packages, not among them.
LIBTPU = pathlib.Path(sys.prefix) / "libtpu"
GIB = 2**30


def environment():
  """That of a machine without TPUs, with libtpu on the path."""
  path = [os.environ.get("PYTHONPATH", ""), str(LIBTPU)]
  if importlib.util.find_spec("libtpu") is None and not LIBTPU.is_dir():
    pytest.skip("libtpu is not installed (extra `tpu`)")
  path = os.pathsep.join(filter(None, path))
  return {**os.environ, "PYTHONPATH": path, "XLA_FLAGS": ""}


def precompiled(*words):
  command = [sys.executable, "-m", "transformer_zoo.cli.main", "precompile"]
  return subprocess.run(
    [*command, *words], env=environment(), capture_output=True, text=True
  )


@pytest.mark.slow
def test_a_tiny_t5_on_eight_chips():
  done = precompiled(
    *("--topology=v5e:2x4", "--json", "--tokens=1e12"),
    "--gin_file=architectures/t5_1_1.gin",
    "--gin_file=sizes/tiny.gin",
    "--gin_file=runs/pretrain.gin",
    "--gin.TASK_FEATURE_LENGTHS={'inputs': 128, 'targets': 64}",
    *("--gin.BATCH_SIZE=8", "--gin.NUM_PARTITIONS=4"),
    "--gin.SCAN_LAYERS=True",
  )
  assert done.returncode == 0, done.stderr
  report = json.loads(done.stdout)
  assert (report["device_kind"], report["devices"]) == ("TPU v5 lite", 8)
  assert report["fits"] and report["memory"]["missing"] == 0
  # The parameters in float32, over four devices; Adafactor adds little.
  memory = report["memory"]
  assert 1.0 < memory["state"] / 10_491_648 < 1.03
  assert memory["state"] <= memory["arguments"] < 1.02 * memory["state"]
  assert memory["temporaries"] < memory["peak"] < 15.75 * GIB
  # Four rows on each device, four layers, bfloat16, whatever this machine is.
  # Forward and backward two sums in a layer of the encoder and three in one of
  # the decoder, in which that of the memory is one more, for the gradients of a
  # memory by keys and by values have one sum; float32 sums of embeddings and of
  # what enters the head.
  (sums,) = (
    row["bytes"]
    for row in report["collectives"]
    if (row["kind"], row["axes"]) == ("all-reduce", ["model"])
  )
  inputs, targets = (2 * 4 * length * 256 for length in (128, 64))
  layers = 4 * (4 * inputs + 6 * targets + inputs)
  ends = 2 * (inputs + targets) + 2 * targets
  assert layers + ends <= sums < 1.02 * (layers + ends)
  # Scanned layers count as often as they run: 6 FLOPs for each token and
  # parameter of a matrix, and those of attention.
  encoder = 4 * (4 * 256 * 256 + 3 * 256 * 512)
  decoder = 4 * (8 * 256 * 256 + 3 * 256 * 512) + 256 * 8192
  least = 6 * (encoder * 8 * 128 + decoder * 8 * 64)
  assert least < report["model_flops"] < 1.25 * least
  assert report["model_flops"] <= report["cost"]["matmul_flops"]
  bounds = report["roofline"]
  assert 0 < bounds["at_best"]["seconds"] < bounds["in_turn"]["seconds"]
  assert 0 < bounds["in_turn"]["utilisation"] < 1


@pytest.mark.slow
def test_bert_tiny_on_four_chips():
  """Masked tokens and pairs: logits of a fifth of the places, and no more."""
  done = precompiled(
    *("--topology=v5e:2x2", "--json"),
    "--gin_file=architectures/bert.gin",
    "--gin_file=sizes/bert_tiny.gin",
    "--gin_file=runs/pretrain.gin",
    "--gin_file=objectives/bert_next_sentence.gin",
    "--gin.TASK_FEATURE_LENGTHS={'inputs': 128, 'targets': 128}",
    *("--gin.BATCH_SIZE=8", "--gin.SCAN_LAYERS=True"),
  )
  assert done.returncode == 0, done.stderr
  report = json.loads(done.stdout)
  assert (report["device_kind"], report["devices"]) == ("TPU v5 lite", 4)
  assert report["fits"]
  # 2 layers of 12 x 128^2 for each token, the softmax for 26 places of 128.
  tokens, width = 8 * 128, 128
  layers = 2 * 12 * width**2
  softmax = (width**2 + 30522 * width) * 26 / 128
  least = 6 * tokens * (layers + softmax)
  assert least < report["model_flops"] < 1.1 * least


@pytest.mark.slow
def test_a_slice_that_libtpu_does_not_know():
  done = precompiled(
    "--topology=v5e:3x5",
    "--gin_file=architectures/t5_1_1.gin",
    "--gin_file=sizes/tiny.gin",
    "--gin_file=runs/pretrain.gin",
  )
  assert done.returncode == 2
  assert "zoo: error: libtpu has no topology 'v5e:3x5': " in done.stderr


@pytest.mark.slow
def test_stages_on_two_slices():
  """LoRA in a model whose layers lie on two slices of 8 chips."""
  files = ["architectures", "sizes", "runs", "peft", "partitioning"]
  names = ["bloom", "bloom_176b", "pretrain", "lora", "pipeline"]
  done = precompiled(
    *("--topology=v5p:2x2x2", "--num_slices=2", "--json"),
    *(f"--gin_file={f}/{n}.gin" for f, n in zip(files, names, strict=True)),
    *("--gin.EMBED_DIM=1024", "--gin.MLP_DIM=4096", "--gin.NUM_HEADS=8"),
    *("--gin.NUM_DECODER_LAYERS=8", "--gin.VOCAB_SIZE=4096"),
    *("--gin.NUM_STAGES=2", "--gin.FSDP=2", "--gin.NUM_PARTITIONS=4"),
    *("--gin.REMAT='full'", "--gin.BATCH_SIZE=32"),
    "--gin.TASK_FEATURE_LENGTHS={'inputs': 64, 'targets': 64}",
  )
  assert done.returncode == 0, done.stderr
  report = json.loads(done.stdout)
  assert report["mesh"] == {"stage": 2, "data": 1, "fsdp": 2, "model": 4}
  assert report["fits"]
  # Layers are shared out over all 16 chips in float32, embeddings over the 8 of
  # a slice; LoRA adds a little, with its moments.
  state = report["memory"]["state"]
  layers, embeddings = 8 * 12 * 1024**2, 4096 * 1024
  assert 1.0 < state / (4 * (layers / 16 + embeddings / 8)) < 1.05
  # Between slices there are activations alone: of the whole batch, whose rows
  # lie over 2 devices, a few times, where a share of the state has 28 MB.
  (between,) = (r for r in report["collectives"] if r["kind"] == "send")
  assert between["moved_bytes"] < 6 * (32 / 2 * 64 * 1024 * 2)
