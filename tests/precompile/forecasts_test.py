"""`zoo precompile` on simulated devices; libtpu has a test of its own."""

import dataclasses
import json

import gin
import jax
import pytest

from transformer_zoo import config
from transformer_zoo.cli import main as cli
from transformer_zoo.cli import precompile as command
from transformer_zoo.errors import UserError
from transformer_zoo.forecast import compilation
from transformer_zoo.forecast import hardware
from transformer_zoo.forecast import topologies
from transformer_zoo.precompile import forecasts
from transformer_zoo.precompile import mesh_search
from transformer_zoo.precompile import report as forecast_report
from transformer_zoo.runs.settings import Run
from transformer_zoo.training import layout_report

FILES = ["architectures/t5_1_1.gin", "sizes/tiny.gin", "runs/pretrain.gin"]
SMALL = [
  "NUM_ENCODER_LAYERS=1",
  "NUM_DECODER_LAYERS=1",
  "EMBED_DIM=32",
  "MLP_DIM=64",
  "NUM_HEADS=2",
  "HEAD_DIM=16",
  "VOCAB_SIZE=8192",
  "BATCH_SIZE=8",
  "TASK_FEATURE_LENGTHS={'inputs': 16, 'targets': 8}",
]
SHARDED = ["FSDP=2", "NUM_PARTITIONS=2"]
NAMES = ["MODEL_DIR=''", "MIXTURE_OR_TASK_NAME=''"]
GIB = 2**30


@pytest.fixture(autouse=True)
def clean():
  yield
  gin.clear_config()


def load(*bindings):
  config.load(FILES, [*SMALL, *NAMES, *bindings])


@pytest.fixture(scope="module")
def sharded():
  """The forecast of a training step on 2 x 2 x 2 devices."""
  load(*SHARDED)
  return forecasts.forecast(topologies.find("cpu:8"), tokens=1e9)


@pytest.mark.slow
def test_stages_hold_their_layers_and_hand_activations_on():
  files = ["architectures/gpt_2.gin", "sizes/gpt_2_small.gin"]
  files += ["runs/pretrain.gin"]
  lengths = "TASK_FEATURE_LENGTHS={'inputs': 32, 'targets': 32}"
  sizes = {"EMBED_DIM": 64, "MLP_DIM": 256, "NUM_HEADS": 4, "HEAD_DIM": 16}
  sizes |= {"VOCAB_SIZE": 512, "MAX_POSITIONS": 32, "BATCH_SIZE": 8}
  sizes |= {"NUM_DECODER_LAYERS": 4}
  bindings = [*(f"{name}={size}" for name, size in sizes.items()), *NAMES]
  states, flops = {}, {}
  for stages in (1, 2):
    config.load(
      [*files, "partitioning/pipeline.gin"],
      [*bindings, lengths, f"NUM_STAGES={stages}"],
    )
    found = forecasts.forecast(topologies.find("cpu:2"))
    states[stages] = found.state_bytes
    flops[stages] = found.model_flops
  assert found.mesh == {"stage": 2, "data": 1, "fsdp": 1, "model": 1}
  assert states[2] < 0.75 * states[1]
  # 8 microbatches in 9 ticks, and a head without stages.
  assert flops[1] < flops[2] <= 9 / 8 * flops[1]
  over = {(total.kind, total.axes) for total in found.collectives}
  assert ("collective-permute", ("stage",)) in over


@pytest.mark.slow
def test_memory_is_what_the_compiler_plans_for_the_step_of_a_run(sharded):
  assert sharded.mesh == {"data": 2, "fsdp": 2, "model": 2}
  memory = sharded.compiled.memory
  # The state is donated: what comes back besides are the sums of the step.
  assert memory.aliased == sharded.state_bytes
  # Eight features of 8 rows over four shares; what is not read is left out.
  batch = memory.arguments - sharded.state_bytes
  assert 2 * (16 + 3 * 8) * 4 <= batch <= 2 * (3 * 16 + 5 * 8) * 4
  assert sharded.batch == {"rows": 8, "tokens": 8 * (16 + 8)}
  assert (sharded.fits, sharded.missing) == (None, None)


@pytest.mark.slow
def test_what_is_counted(sharded):
  # Both embeddings take part in 8 x 8 targets; gradients cost twice as much.
  assert sharded.model_flops >= 3 * 2 * 8192 * 32 * 8 * 8
  assert sharded.cost.matmul_flops >= sharded.model_flops
  assert {row.kind for row in sharded.collectives} >= {"all-reduce"}
  assert all(row.moved_bytes > 0 for row in sharded.collectives)


def test_sharding_table(sharded):
  rows = {row.path: row for row in sharded.shardings}
  table = rows["token_embedder/embedding"]
  assert (table.shape, table.axes) == ((8192, 32), ("vocab", "embed"))
  assert table.mesh_axes == ("model", "fsdp")
  assert table.device_bytes == 8192 * 32 * 4 // 4
  assert not any(row.replicated for row in sharded.shardings)


def test_report_names_what_it_says(sharded):
  text = forecast_report.as_text(forecast_report.as_json(sharded))
  assert "mesh 2 data x 2 fsdp x 2 model, 8 rows, 192 tokens" in text
  assert "roofline: the speed of this device is not known" in text
  assert text.endswith("how much memory a cpu has for it is not known")


def chip(**changes):
  return dataclasses.replace(hardware.chip_of("NVIDIA H200"), **changes)


@pytest.mark.parametrize(
  "platform, compiled, available, expected",
  [
    ("gpu", {"total": 5}, 7, (True, 7, 0)),
    ("gpu", {"total": 9}, 7, (False, 7, 2)),
    ("tpu", {"total": 9}, 7, (True, 7, 0)),
    ("tpu", {"needed": 9, "available": 6}, 7, (False, 6, 3)),
    ("tpu", {"needed": None, "available": None}, 7, (False, 7, None)),
  ],
)
def test_verdict(platform, compiled, available, expected):
  topology = topologies.Topology("x", platform, [], chip(
    available_bytes=available
  ))  # fmt: skip
  memory = None
  if "total" in compiled:
    memory = compilation.Memory(compiled["total"], 0, 0, 0, 0, 0)
  result = compilation.Compiled(
    "", memory, compiled.get("needed"), compiled.get("available"), 0, 0, 0
  )
  assert forecasts.verdict(result, topology) == expected


def test_large_parameters_that_every_device_has(sharded):
  load()
  topology = topologies.find("cpu:2")
  program = Run.of_loaded().step.program(topology.devices)
  with program.partitioning.activate(program.mesh):
    rows = layout_report.rows(program)
  named = [row.path for row in rows if row.replicated]
  assert named == ["decoder/logits_dense/kernel", "token_embedder/embedding"]
  report = forecast_report.as_json(dataclasses.replace(sharded, shardings=rows))
  lines = forecast_report.as_text(report).splitlines()
  assert sum(line.endswith("1.0  replicated") for line in lines) == 2


def arguments(*bindings):
  return [
    *("precompile", "--topology=cpu:2"),
    *(f"--gin_file={name}" for name in FILES),
    *(f"--gin.{binding}" for binding in (*SMALL, *bindings)),
  ]


@pytest.mark.slow
def test_command_decodes(capsys):
  words = arguments("MODEL_DIR='kept'", "NUM_PARTITIONS=2")
  assert cli.main([*words, "--mode=decode", "--json"]) == 0
  report = json.loads(capsys.readouterr().out)
  assert report["batch"] == {"rows": 8, "tokens": 8 * 8}
  assert report["mesh"] == {"data": 1, "fsdp": 1, "model": 2}
  (total,) = (
    row
    for row in report["collectives"]
    if row["kind"] == "all-reduce" and row["axes"] == ["model"]
  )
  # Each of 8 tokens is summed over the model's halves in every layer.
  assert total["count"] >= 8 * 3


@pytest.mark.slow
def test_command_tells_what_is_missing(capsys, monkeypatch):
  def refuse(lowered, compiler_options):
    del lowered, compiler_options
    raise jax.errors.JaxRuntimeError(
      "RESOURCE_EXHAUSTED: Used 20.50G of 15.75G hbm."
    )

  monkeypatch.setattr(jax.stages.Lowered, "compile", refuse)
  assert cli.main(arguments()) == command.DOES_NOT_FIT == 4
  out = capsys.readouterr().out
  # Nothing is said of what was not compiled.
  assert "collectives" not in out and "roofline" not in out
  assert out.endswith(
    "does not fit: each cpu needs 4.75 GiB more than the 15.75 GiB that it "
    "has for programs\n"
  )


@pytest.mark.parametrize(
  "words, message",
  [
    (["--mode=eval"], "unknown mode 'eval'; allowed: train, decode"),
    (["--topology=v5e:3"], "topology 'v5e:3' has to be v5e:axb"),
    (["--gin.BATCH_SIZE=3"], "BATCH_SIZE"),
    (
      ["--gin.CONVERTER=@EncoderFeatures()"],
      "batches the model EncoderDecoder",
    ),
  ],
)
def test_refusals(capsys, words, message):
  assert cli.main([*arguments(), *words]) == 2
  error = capsys.readouterr().err
  assert error.startswith("zoo: error: ") and message in error


def test_an_encoder_has_no_decoding(capsys):
  files = ("bert.gin", "bert_tiny.gin", "pretrain.gin", "bert.gin")
  folders = ("architectures", "sizes", "runs", "objectives")
  named = zip(folders, files, strict=True)
  words = [f"--gin_file={folder}/{file}" for folder, file in named]
  words = ["precompile", "--topology=cpu:2", *words, "--mode=decode"]
  assert cli.main(words) == 2
  assert capsys.readouterr().err == (
    "zoo: error: EncoderOnly writes no text, so that there is no decoding to "
    "plan; choose --mode train\n"
  )


def test_candidates_divide():
  load("BATCH_SIZE=4")
  tried = mesh_search.candidates(
    topologies.find("cpu:8"), remats=("none", "full"), microbatches=(1, 2)
  )
  # Two heads and four rows: at most 4 devices along rows, 2 along `model`.
  assert {each.mesh for each in tried} == {"1x4x2", "2x2x2", "4x1x2"}
  first = mesh_search.Candidate(1, 4, 2, "full", 1)
  assert tried[:2] == [first, dataclasses.replace(first, remat="none")]
  assert first.overrides() == [
    "Partitioning.fsdp=4",
    "Partitioning.num_partitions=2",
    "Stack.remat='full'",
    "train.num_microbatches=1",
  ]


def test_no_candidate():
  load("BATCH_SIZE=3")
  with pytest.raises(UserError, match="no mesh of 8 devices divides the run"):
    mesh_search.candidates(topologies.find("cpu:8"))


def result(fits, gib, seconds=None):
  bounds = {"seconds": seconds}
  return {
    "fits": fits,
    "memory": {"total": gib * GIB},
    "roofline": {"in_turn": bounds, "at_best": bounds, "limit": "memory"},
  }


def test_search_ranks_goes_on_and_survives(tmp_path):
  make = mesh_search.Candidate
  tried = [
    make(1, 8, 1, "full", 1),
    make(1, 8, 1, "none", 1),
    make(1, 4, 2, "full", 1),
    make(1, 4, 2, "none", 1),
    make(1, 2, 4, "full", 1),
  ]
  results = {
    tuple(tried[0].overrides()): result(False, 20),
    tuple(tried[2].overrides()): result(True, 8, 2.0),
    tuple(tried[3].overrides()): result(True, 9, 1.0),
    tuple(tried[4].overrides()): {"error": "the compiler died"},
  }
  ran, lines = [], []

  def run(overrides):
    ran.append(tuple(overrides))
    return results[tuple(overrides)]

  def search(tried, fingerprint="a"):
    journal = tmp_path / "search.jsonl"
    return mesh_search.search(
      tried, run, report=lines.append, journal=journal, fingerprint=fingerprint
    )

  search(tried[:3])
  with open(tmp_path / "search.jsonl", "a") as file:
    file.write('{"run": "a", "cand')  # Killed while it wrote.
  rows = search(tried)
  assert ran == list(results)  # One is not tried, and none twice.
  order = [mesh_search.Candidate(**row["candidate"]) for row in rows]
  assert order == [tried[3], tried[2], tried[0], tried[4], tried[1]] or (
    order == [tried[3], tried[2], tried[0], tried[1], tried[4]]
  )
  assert lines[0] == (
    "1/3 mesh 1x8x1, remat full, 1 microbatches: does not fit, 20.00 GiB a "
    "device"
  )
  text = mesh_search.as_text(rows).splitlines()
  assert text[1].split()[:6] == ["1", "1x4x2", "none", "1", "yes", "9.00"]
  assert "the compiler died" in text[-1] + text[-2]
  search(tried[:1], fingerprint="another run")
  assert len(ran) == 5


def test_an_interrupted_search_ranks_what_it_has():
  tried = [mesh_search.Candidate(1, n, 1, "full", 1) for n in (8, 4, 2)]
  lines, answers = [], iter([result(True, 1, 2.0), result(True, 2, 1.0)])

  def run(overrides):
    del overrides
    answer = next(answers, None)
    if answer is None:
      raise KeyboardInterrupt
    return answer

  rows = mesh_search.search(tried, run, report=lines.append)
  assert [row["candidate"]["fsdp"] for row in rows] == [4, 8]
  assert lines[-1] == "interrupted: 2 of 3 are ranked"
