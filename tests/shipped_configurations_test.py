"""Every shipped gin file: it resolves, and its train step has shapes.

No data and no memory: the models of 11 billion parameters too.
"""

import functools
import pathlib
import re

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import rule_sets
from tests import tiny_models
from tests.corruption import vocabulary as vocabularies
import transformer_zoo
from transformer_zoo import config
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.errors import UserError
from transformer_zoo.studies.design import loading
from transformer_zoo.studies.design import plan
from transformer_zoo.studies.design import planned_run
from transformer_zoo.studies.design import study as studies
from transformer_zoo.training import state as state_lib
from transformer_zoo.training.step import train_step

GIN = pathlib.Path(transformer_zoo.__file__).parent.parent / "gin_configs"
SIZES = sorted(path.stem for path in (GIN / "sizes").glob("*.gin"))
ARCHITECTURES = sorted(p.stem for p in (GIN / "architectures").glob("*.gin"))
# Macros without which a general run file says too little.
REQUIRED = ("MODEL_DIR='run'", "MIXTURE_OR_TASK_NAME='task'")


@pytest.fixture(autouse=True)
def clean():
  yield
  gin.clear_config()


# What has been traced: model, objective, state of the optimizer and features.
TRACED = set()


def shapes_of_step(*, partitions=None):
  """Evaluates the loaded run's step, of models of one layer.

  What depends on the depth is parameters_test.py's.
  """
  run = gin.get_bindings("train")
  model, mesh, before, optimizer = shapes_of_state(partitions=partitions)
  batch = shapes_of_batch(run)
  leaves, structure = jax.tree.flatten(before)
  step = model, run["objective"], structure, *leaves, *batch
  if step in TRACED:
    return before
  TRACED.add(step)
  with run["partitioning"].activate(mesh):
    after, sums = jax.eval_shape(
      functools.partial(
        train_step,
        objective=functools.partial(run["objective"], model),
        optimizer=optimizer,
        takes_updates=run["objective"].takes_updates,
      ),
      before,
      batch,
      jax.random.key(0),
    )
  assert jax.tree.map(lambda x: (x.shape, x.dtype), after) == jax.tree.map(
    lambda x: (x.shape, x.dtype), before
  )
  assert all(value.shape == () for value in sums.values())
  return before


def shapes_of_state(*, partitions=None):
  """Evaluates the state of the loaded run, and how a mesh divides it."""
  run = gin.get_bindings("train")
  model = tiny_models.shallow(run["model"])
  partitioning = run["partitioning"]
  if partitions is not None:
    partitioning = type(partitioning)(num_partitions=partitions)
  mesh = partitioning.mesh()
  boxed = state_lib.abstract_variables(model)
  params = nn.unbox(boxed)
  partitioning.check(mesh, boxed, run["batch_size"])
  optimizer = run["optimizer"](run["learning_rate"])
  state = state_lib.TrainState(
    step=jax.ShapeDtypeStruct((), jnp.int32),
    params=params,
    opt_state=jax.eval_shape(optimizer.init, params),
  )
  with partitioning.activate(mesh):
    partitioning.shardings(mesh, boxed, state)
  return model, mesh, state, optimizer


def shapes_of_batch(run):
  lengths, rows = run["task_feature_lengths"], run["batch_size"]
  features = run["converter"].shapes(lengths, rows, True)
  return {
    name: jax.ShapeDtypeStruct(shape, jnp.int32)
    for name, shape in features.items()
  }


def of_architecture(size):
  named = [name for name in ARCHITECTURES if size.startswith(name)]
  return [max(named, key=len)] if named else ["t5_1_1"]


def combinations():
  """Each size; a step of the first size of each architecture."""
  stepping = set()
  for size in SIZES:
    for architecture in of_architecture(size):
      first = architecture not in stepping
      stepping.add(architecture)
      yield architecture, size, "pretrain", first
      # Fine-tuning differs in dropout and the schedule only.
      if first:
        yield architecture, size, "finetune", first


@pytest.mark.slow
@pytest.mark.parametrize(
  ("architecture", "size", "run", "steps"), list(combinations())
)
def test_architectures_and_sizes(architecture, size, run, steps):
  files = [
    f"architectures/{architecture}.gin",
    f"sizes/{size}.gin",
    f"runs/{run}.gin",
  ]
  if architecture in tiny_models.WITHOUT_ENCODER_LAYERS:
    files.append("objectives/lm.gin")
  if architecture == "bert":
    files.append("heads/tokens_next_sentence.gin")
  elif architecture == "albert":
    files.append("heads/tokens_sentence_order.gin")
  elif architecture == "electra":
    files.append("heads/replaced_tokens.gin")
  elif architecture in tiny_models.ENCODERS:
    files.append("heads/tokens.gin")
  config.load(files, REQUIRED)
  # The vocabularies of these divide over no two devices.
  odd = architecture in ("bart", "roberta", "deberta", "mpnet")
  evaluate = shapes_of_step if steps else shapes_of_state
  evaluate(partitions=1 if odd else 2)
  header = (GIN / "sizes" / f"{size}.gin").read_text().splitlines()[0]
  if stated := re.search(r"([\d,]+) parameters", header):
    apart = "generator/"
    if architecture in ("albert", "bert"):
      apart = "heads/"
    counted = tiny_models.parameter_sizes(gin.get_bindings("train")["model"])
    total = sum(n for path, n in counted.items() if not path.startswith(apart))
    assert f"{total:,}" == stated[1]


def complete_runs():
  """The run files that name an architecture, a task and a size."""
  for path in sorted((GIN / "runs").glob("*.gin")):
    if "include 'sizes/" in path.read_text():
      yield path.stem


# What the first lines of a run file ask for, by its name.
NAMED_AFTER = {
  "miniature_encoder_pretrain": (
    ["objectives/bert_next_sentence.gin", "runs/encoder_lengths.gin"],
    [],
  ),
  "miniature_heads": (
    ["heads/classes.gin"],
    ["MIXTURE_OR_TASK_NAME='mini_sst2'"],
  ),
  "small_encoder_pretrain": (
    ["objectives/bert_next_sentence.gin", "runs/encoder_lengths.gin"],
    [],
  ),
  "small_heads": (
    ["heads/classes.gin"],
    ["MIXTURE_OR_TASK_NAME='glue_sst2_v002'"],
  ),
}


def fast(*few):
  """Marks all others slow."""
  return lambda *each: pytest.param(
    *each, marks=() if each[0] in few else pytest.mark.slow
  )


A_RUN = fast("miniature_heads", "night_pretrain", "small_finetune")


@pytest.mark.parametrize("name", list(map(A_RUN, complete_runs())))
def test_complete_runs(name):
  files, given = NAMED_AFTER.get(name, ([], []))
  config.load([f"runs/{name}.gin", *files], [REQUIRED[0], *given])
  shapes_of_step()


A_RECIPE = fast("electra_pretrain")


@pytest.mark.parametrize(
  ("recipe", "architecture"),
  [
    A_RECIPE("albert_pretrain", "albert"),
    A_RECIPE("bart_pretrain", "bart"),
    A_RECIPE("bert_pretrain", "bert"),
    A_RECIPE("deberta_v3_pretrain", "deberta_v3"),
    A_RECIPE("electra_pretrain", "electra"),
    A_RECIPE("gpt_3_pretrain", "gpt_3"),
    A_RECIPE("mass_pretrain", "mass"),
    A_RECIPE("roberta_pretrain", "roberta"),
    A_RECIPE("spanbert_pretrain", "bert"),
    A_RECIPE("transformer_2017", "transformer_2017"),
    A_RECIPE("unilm_pretrain", "unilm"),
    A_RECIPE("xlnet_pretrain", "xlnet"),
  ],
)
def test_recipes_of_pre_training_make_a_step(recipe, architecture):
  files = [
    f"architectures/{architecture}.gin",
    "sizes/tiny.gin",
    f"runs/{recipe}.gin",
  ]
  config.load(files, [*REQUIRED, "BATCH_SIZE=8"])
  shapes_of_step(partitions=1)


@pytest.mark.parametrize("kind", ["evaluate", "infer"])
def test_other_kinds_of_runs(kind):
  files = [
    "architectures/t5_1_1.gin",
    "sizes/tiny.gin",
    "runs/finetune.gin",
    f"runs/{kind}.gin",
  ]
  given = [*REQUIRED[1:], "CHECKPOINT_PATH='x'"]
  config.load(files, given, root=kind)
  assert "CHECKPOINT_PATH = 'x'" in config.operative_config()


def test_an_ensemble_without_a_run():
  files = ["architectures/t5_1_1.gin", "sizes/tiny.gin", "runs/ensemble.gin"]
  given = [*REQUIRED[1:], "CHECKPOINT_PATH=['a', 'b']"]
  config.load(files, given, root="evaluate")
  assert gin.get_bindings("evaluate")["checkpoint_path"] == ["a", "b"]


@pytest.mark.parametrize("kind", ["train", "evaluate", "infer"])
def test_rule_sets(kind):
  """Named after any run file; their sizes are macros."""
  files = ["architectures/t5_1_1.gin", "sizes/tiny.gin", "runs/finetune.gin"]
  bindings = ["FSDP=2", "NUM_PARTITIONS=2", "NUM_SLICES=2", *REQUIRED]
  if kind != "train":
    files.append(f"runs/{kind}.gin")
    bindings[-2] = "CHECKPOINT_PATH='x'"
  for name in rule_sets.SHIPPED:
    shipped = [*files, f"partitioning/{name}.gin"]
    config.load(shipped, bindings, root=kind)
    mesh = gin.get_bindings(kind)["partitioning"].mesh()
    assert tuple(mesh.shape.values()) == (2, 2, 2)


@pytest.mark.slow
@pytest.mark.parametrize(
  "name",
  [
    *("bart_noises", "bloom_adaptation", "flan", "number_texts"),
    "reading_directions",
    *("translation_lengths", "translation_radam"),
  ],
)
def test_steps_of_studies(name, tmp_path):
  """A step of each row and phase, of one group of texts and of classes."""
  study = studies.with_seeds(loading.load_study(name), (0,))
  runs = plan.plan(
    study, loading.load_suite("miniature"), output_dir=tmp_path, prepare=False
  )
  seen = set()
  for run in plan.distinct(runs):
    group = run.group if run.group in ("MNLI", "XSum") else "any"
    if run.command != "train" or (run.row, run.phase, group) in seen:
      continue
    seen.add((run.row, run.phase, group))
    start = ["start"] if run.starts else []
    bound = planned_run.bindings("train", 0, "run", start)
    config.load((), bound, changes=run.changes)
    shapes_of_step()
    gin.clear_config()
  assert len(seen) >= len(study.rows)


TINY_PRETRAINING = [
  "architectures/t5_1_1.gin",
  "sizes/tiny.gin",
  "runs/pretrain.gin",
]
PAIR_PRETRAINING = [
  "architectures/deberta_v3.gin",
  "sizes/bert_tiny.gin",
  "runs/pretrain.gin",
  "objectives/deberta_v3.gin",
]
OPTIMIZERS = sorted(path.stem for path in (GIN / "optimizers").glob("*.gin"))
SCHEDULES = sorted(path.stem for path in (GIN / "schedules").glob("*.gin"))


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name):
  given = ["OPTIMIZER_STATE_DTYPE='bfloat16'", "CLIP_NORM=2.0", *REQUIRED]
  files = PAIR_PRETRAINING if name == "generator_apart" else TINY_PRETRAINING
  config.load([*files, f"optimizers/{name}.gin"], given)
  _, _, state, optimizer = shapes_of_state()
  changes = jax.eval_shape(
    optimizer.update, state.params, state.opt_state, state.params
  )
  assert jax.tree.map(lambda x: (x.shape, x.dtype), changes[1]) == jax.tree.map(
    lambda x: (x.shape, x.dtype), state.opt_state
  )
  moments = [leaf for leaf in jax.tree.leaves(state.opt_state) if leaf.ndim]
  assert {leaf.dtype for leaf in moments} == {jnp.dtype("bfloat16")}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(name):
  """The rate is highest where the warm-up ends, if it then falls."""
  given = ["WARMUP_STEPS=10", "TRAIN_STEPS=100", *REQUIRED]
  if "rsqrt" not in name:
    given.append("LEARNING_RATE=0.1")
  config.load([*TINY_PRETRAINING, f"schedules/{name}.gin"], given)
  schedule = jax.vmap(gin.get_bindings("train")["learning_rate"])
  rates = np.asarray(jax.jit(schedule)(np.arange(101)))
  assert np.argmax(rates) <= 10
  assert np.all(np.diff(rates[10:]) <= 0)
  ends_at_0 = name not in ("constant", "rsqrt")
  assert (rates[100] < 1e-6) == ends_at_0


OBJECTIVES = sorted(path.stem for path in (GIN / "objectives").glob("*.gin"))
# Objectives that are refused with T5's 100 sentinels: the published runs wrote
# ids of real pieces.
OVERRUNNING = ("iid_25", "iid_50")


def _vocabulary(sentinels):
  words = np.arange(32100) % 3 > 0
  return vocabularies.t5(sentinels, 32100, word_starts=words)


@pytest.mark.slow
@pytest.mark.parametrize("name", OBJECTIVES)
def test_objectives(name):
  path = f"objectives/{name}.gin"
  text = (GIN / path).read_text()
  of_encoder = re.search("include '(heads|objectives)/", text) is not None
  kind = ("bert", "bert_tiny") if of_encoder else ("t5_1_1", "tiny")
  if name in ("deberta_v3", "elmo"):
    kind = (name, "bert_tiny")
  files = [f"architectures/{kind[0]}.gin", f"sizes/{kind[1]}.gin"]
  config.load([*files, "runs/pretrain.gin", path], REQUIRED)
  run = gin.get_bindings("train")
  lengths, corrupt = run["task_feature_lengths"], run["corruption"]
  share_cut = corrupt.check(
    lengths, _vocabulary(200 if name in OVERRUNNING else 100)
  )
  # t5's own length cuts one in fifty at 25 %.
  assert share_cut < (0.03 if name == "iid_25" else 0.002)
  if name in OVERRUNNING:
    with pytest.raises(UserError, match="100 sentinel ids"):
      corrupt.check(lengths, _vocabulary(100))
  if corrupt.layout == "encoder_decoder":
    shapes_of_step()
  elif of_encoder:
    run["objective"].check(run["model"])
    shapes_of_step()
    # The others need sentences, or hide nothing.
    if corrupt.unit == "chunk" and hasattr(corrupt, "masking"):
      batch_of_an_encoder(run["converter"], corrupt, lengths)


def batch_of_an_encoder(converter, corrupt, lengths):
  """Makes a batch of random text and looks at its shapes and loss weights."""
  vocabulary = vocabularies.bert(
    size=32000, word_starts=np.arange(32000) < 9000
  )
  tokens = np.random.default_rng(0).integers(
    6, 32000, (8, corrupt.raw_length(lengths)), np.int32
  )
  batch = converter(
    corrupt(tokens, Draws(0, np.arange(8)), vocabulary),
    np.arange(8),
    num_rows=8,
    lengths=lengths,
    packing=False,
    pad_id=vocabulary.pad_id,
  )
  shape = 8, lengths["inputs"]
  for key in ("input_tokens", "target_tokens", "loss_weights"):
    assert batch[f"encoder_{key}"].shape == shape
  share = 0.25 if corrupt.masking.noise.noise_density == 0.25 else 0.15
  weights = batch["encoder_loss_weights"]
  assert weights.mean() == pytest.approx(share, abs=0.003)
  same = batch["encoder_input_tokens"] == batch["encoder_target_tokens"]
  assert same[weights == 0].all() and same[weights == 1].mean() < 0.25


HEADS = sorted(path.stem for path in (GIN / "heads").glob("*.gin"))
# Those that read a text by one of its tokens.
WITH_POOLERS = (
  *("choice", "classes", "number"),
  *("tokens_next_sentence", "tokens_sentence_order"),
)


@pytest.mark.parametrize(
  ("name", "architecture"),
  [
    pytest.param(
      name,
      architecture,
      marks=()
      if architecture == "bert"
      or (name, architecture) in (("classes", "xlnet"), ("classes", "deberta"))
      else pytest.mark.slow,
    )
    for name in HEADS
    for architecture in tiny_models.ENCODERS
    # Encoders differ in what every head reads, and in whether they pool it.
    if name in ("tokens", "classes")
    or architecture in ("bert", "deberta_v3", "xlnet")
    # Two streams have no generator, and DeBERTa's is in its objective's file.
    if name != "replaced_tokens" or architecture == "bert"
  ],
)
def test_heads(name, architecture):
  files = [
    f"architectures/{architecture}.gin",
    "sizes/bert_tiny.gin",
    "runs/finetune.gin",
    f"heads/{name}.gin",
  ]
  config.load(files, REQUIRED)
  run = gin.get_bindings("train")
  run["objective"].check(run["model"])
  model = tiny_models.shallow(run["model"])
  params = state_lib.abstract_params(model)
  terms = jax.eval_shape(
    functools.partial(run["objective"], model), params, shapes_of_batch(run)
  )
  for term in terms.values():
    assert term.total.shape == term.weight.shape == ()
  # Vectors that are not projected have no parameters.
  heads = {each.head for each in run["objective"].losses} - {None}
  assert sorted(params.get("heads", {})) == sorted(heads)
  assert ("pooler" in params) == (
    architecture.startswith(
      ("albert", "bert", "deberta", "modernbert", "unilm", "xlnet")
    )
    and name in WITH_POOLERS
  )


@pytest.mark.parametrize("name", OBJECTIVES)
def test_objectives_are_documented(name):
  assert (
    f"`{name}`" in (GIN.parent / "docs/reference/objectives.md").read_text()
  )


def test_no_file_is_forgotten():
  """A folder that a test above does not read has no gin file."""
  tested = {
    *("architectures", "corpora", "decoding", "objectives", "runs", "sizes"),
    *("heads", "optimizers", "schedules"),
    # tests/architectures/variants_test.py reads the parts.
    *("cleaning", "parts", "studies", "suites"),
    "partitioning",  # tests/rule_sets.py, on 8 devices.
    "peft",  # tests/peft/shipped_test.py
    "t5x",  # tests/oracles/t5x/t5x_training_test.py, by T5X itself.
  }
  others = {p.relative_to(GIN).parts[0] for p in GIN.rglob("*.gin")} - tested
  assert not others
