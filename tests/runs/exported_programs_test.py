"""Exported programs, run in a process that has JAX alone."""

import functools
import json
import pathlib
import re
import subprocess
import sys

import jax
import numpy as np
import pytest

from tests import quick_compilation
from tests import tiny_models
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data.features import converters
from transformer_zoo.data.features import prompts
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.decoding.generate import generate
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.decoding.options import GREEDY
from transformer_zoo.errors import UserError
from transformer_zoo.runs import exported_programs
from transformer_zoo.runs.answers import scoring

ROOT = pathlib.Path(__file__).parents[2]
LENGTHS = {"inputs": 16, "targets": 8}
IDS = {"start_id": 0, "eos_id": 1, "pad_id": 0}
BYTES = Vocabulary("bytes", extra_ids=0)
BLOCK = """
import json, pathlib, sys

BLOCKED = {"transformer_zoo", "flax", "optax", "orbax", "gin", "seqio"}

class Block:
  def find_spec(self, name, path=None, target=None):
    if name.partition(".")[0] in BLOCKED:
      raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Block())
"""
# Its arguments: the folder of the programs, and of .npz files with inputs whose
# names begin with that of a program; outputs lie beside the inputs then.
SCRIPT = """
import jax
from jax import export
import numpy as np
from safetensors.numpy import load_file

folder, arrays = map(pathlib.Path, sys.argv[1:3])
manifest = json.loads((folder / "manifest.json").read_text())
weights = load_file(folder / manifest["weights"]["file"])
assert list(weights) == manifest["weights"]["names"]
for name, described in manifest["programs"].items():
  program = export.deserialize((folder / described["file"]).read_bytes())
  run = jax.jit(program.call)
  for path in sorted(arrays.glob(f"{name}_*.npz")):
    outputs = run(weights, dict(np.load(path)))
    assert outputs.keys() == described["outputs"].keys()
    np.savez(path.with_name(f"made_by_{path.name}"), **outputs)
assert not BLOCKED & {name.partition(".")[0] for name in sys.modules}
"""


def python_alone(script, *words, cwd):
  """Returns what a script prints where JAX is, and nothing of ours."""
  done = subprocess.run(
    [sys.executable, "-c", BLOCK + script, *map(str, words)],
    env=quick_compilation.environment(1),
    cwd=cwd,
    capture_output=True,
    text=True,
  )
  assert done.returncode == 0, done.stderr
  return done.stdout


def run_alone(folder, inputs):
  """Returns the outputs of programs, in a process that has JAX alone.

  Args:
    folder: The folder of the programs.
    inputs: (the name of a program, its inputs) in order.
  """
  place = folder.with_name("arrays")
  place.mkdir()
  files = [f"{name}_{i}.npz" for i, (name, _) in enumerate(inputs)]
  for file, (_, arrays) in zip(files, inputs, strict=True):
    np.savez(place / file, **arrays)
  python_alone(SCRIPT, folder, place, cwd=folder)
  return [dict(np.load(place / f"made_by_{file}")) for file in files]


def texts(rows, width, seed):
  """Padded ids that end in EOS, and their numbers; the first row is full."""
  random = np.random.RandomState(seed)
  lengths = random.randint(1, width + 1, rows)
  lengths[0] = width
  ids = random.randint(3, 48, (rows, width))
  ids[np.arange(rows), lengths - 1] = 1
  ids[np.arange(width)[None] >= lengths[:, None]] = 0
  return ids.astype(np.int32), lengths.astype(np.int32)


def laid_out(converter, inputs, targets):
  """What a converter makes of (padded ids, lengths) twice."""
  sides = {"inputs": inputs, "targets": targets}
  return converter(
    {
      name: Ragged.of([row[:n] for row, n in zip(*side, strict=True)])
      for name, side in sides.items()
    },
    np.arange(len(inputs[0])),
    num_rows=len(inputs[0]),
    lengths={name: ids.shape[1] for name, (ids, _) in sides.items()},
    packing=False,
    pad_id=0,
  )


BEAMS = DecodingOptions(
  num_beams=2, num_return=2, start_before_prompt=False, forced_prefix=(5,)
)
OPTIONS = {
  "t5_1_1": GREEDY,
  "gpt_2": BEAMS,
  "prefix_lm": DecodingOptions(temperature=1.0, top_k=5),
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), OPTIONS.items())
def test_texts_and_their_scores_are_ours(name, options, tmp_path):
  model, converter = tiny_models.build(name)
  params = tiny_models.random_parameters(model)
  exported_programs.write(
    tmp_path / "exported",
    model,
    params,
    BYTES,
    converter=converter,
    lengths=LENGTHS,
    decoding=options,
    report=print,
  )
  # Two batch sizes, and the least and the largest width.
  widths = {2: 1, 4: 16}
  sides = [(texts(rows, widths[rows], 0), texts(rows, 5, 1)) for rows in widths]
  asked = []
  for (ids, lengths), (target_ids, target_lengths) in sides:
    inputs = {"inputs": ids, "input_lengths": lengths}
    targets = {"targets": target_ids, "target_lengths": target_lengths}
    numbers = {"example_ids": np.arange(len(ids), dtype=np.int32) + 3}
    drawn = numbers if options.sampled else {}
    asked += [("generate", inputs | drawn), ("score", inputs | targets)]
  made = run_alone(tmp_path / "exported", asked)
  expected = jax.jit(
    functools.partial(generate, model, max_length=8, options=options, **IDS)
  )
  sums = scoring.make_example_sums(model, options)
  for i, (inputs, targets) in enumerate(sides):
    of_search, of_targets = made[2 * i : 2 * i + 2]
    outputs = expected(
      params,
      inputs_BM=inputs[0],
      lengths_B=inputs[1],
      example_ids_B=np.arange(len(inputs[0]), dtype=np.int32) + 3,
    )
    np.testing.assert_array_equal(of_search["tokens"], outputs.tokens)
    np.testing.assert_allclose(of_search["scores"], outputs.scores, atol=1e-5)
    np.testing.assert_allclose(
      of_search["log_likelihoods"], outputs.log_likelihoods, atol=1e-5
    )
    found = sums(
      params, laid_out(converters.with_inputs(converter), inputs, targets)
    )
    np.testing.assert_allclose(
      of_targets["log_likelihood"], -found["loss_sum"], rtol=1e-5
    )
    np.testing.assert_array_equal(of_targets["target_tokens"], targets[1])


# The last of them is built for the length of its rows.
ENCODERS = {
  "bert": (("../heads/classes.gin",), "classes"),
  "roberta": ((), "tokens"),
  "deberta_v3": (("../heads/spans.gin",), "spans"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "parts_and_head"), ENCODERS.items())
def test_logits_of_a_head_are_ours(name, parts_and_head, tmp_path):
  parts, head = parts_and_head
  model, converter = tiny_models.build(name, *parts)
  params = tiny_models.random_parameters(model)
  said = []
  exported_programs.write(
    tmp_path / "exported",
    model,
    params,
    BYTES,
    converter=converter,
    lengths={"inputs": 12},
    class_names=["no", "yes"],
    report=said.append,
  )
  manifest = json.loads((tmp_path / "exported" / "manifest.json").read_text())
  assert manifest["classes"] == ["no", "yes"]
  assert manifest["head"] == head
  features = manifest["programs"]["logits"]["inputs"]
  is_open = "l" in features["encoder_input_tokens"]["shape"]
  assert is_open == (name != "deberta_v3")
  assert is_open != (
    f"{tmp_path / 'exported'}: rows of logits have 12 tokens, because the "
    "model needs to know their length" in said
  )
  batches = []
  for rows in (2, 3):
    ids, _ = texts(rows, 4 * rows if is_open else 12, rows)
    types = (np.arange(ids.shape[1]) > 3).astype(np.int32)
    batch = {"encoder_input_tokens": ids}
    if "encoder_token_types" in features:
      batch["encoder_token_types"] = np.where(ids > 0, types, 0)
    batches.append(batch)
  made = run_alone(
    tmp_path / "exported", [("logits", batch) for batch in batches]
  )
  expected = jax.jit(
    functools.partial(scoring.head_logits, model, converter, head)
  )
  for outputs, batch in zip(made, batches, strict=True):
    np.testing.assert_allclose(
      outputs["logits"], expected(params, batch), atol=1e-5
    )


@pytest.mark.slow
def test_the_guide_answers_as_zoo_infer_does(finished, infer, zoo, tmp_path):
  folder = tmp_path / "exports" / "fine"
  folder.parent.mkdir()
  code, output, error = zoo("export", finished, folder, "--platforms=cpu")
  assert code == 0, error
  assert re.fullmatch(
    f"{folder}: generate and score for cpu, [\\d,]+ parameters",
    output.splitlines()[-1],
  )
  guide = (ROOT / "docs/guides/export.md").read_text(encoding="utf-8")
  (block,) = re.findall(r"```python\n(.*?)```", guide, re.S)
  vocabulary = Vocabulary(folder / "vocabulary")
  questions = ["red car sees house", "green boat", "blue"]
  ids = json.dumps([vocabulary.encode(text) for text in questions])
  script = f"{block}\nprint(write(json.loads(sys.argv[1])))"
  rows = json.loads(python_alone(script, ids, cwd=tmp_path))
  answers = [answer["prediction"] for answer in infer(finished, *questions)]
  assert [vocabulary.decode(row) for row in rows] == answers


FROM_TEXT = DecodingOptions(start_before_prompt=False)
PREFIX = converters.PrefixLanguageModel(bos_id=7)
CONVERTERS = {
  "encoder_decoder": converters.EncoderDecoder(bos_id=7),
  "continued": converters.LanguageModel(bos_id=7).with_inputs(),
  "weighted": converters.PrefixLanguageModel(loss_on_targets_only=False),
  "prompted": prompts.prompted(converters.EncoderDecoder(), 3),
  "prompted_prefix": prompts.prompted(PREFIX, 3),
}


@pytest.mark.parametrize("name", CONVERTERS)
def test_programs_lay_texts_out_as_converters_do(name):
  converter = CONVERTERS[name]
  inputs, targets = texts(3, 6, 0), texts(3, 4, 1)
  batch = exported_programs.laid_out(converter, 0, *inputs, *targets)
  expected = laid_out(converter, inputs, targets)
  assert batch.keys() == expected.keys()
  for feature, array in expected.items():
    np.testing.assert_array_equal(batch[feature], array, err_msg=feature)


def test_positions_bound_what_programs_read():
  """The position of the last token that is made is not needed."""
  model, converter = tiny_models.build("gpt_2", MAX_POSITIONS=12)
  make = functools.partial(
    exported_programs.text_programs, model, decoding=FROM_TEXT, ids=IDS
  )
  programs = make(converter, LENGTHS)
  assert programs["generate"].longest == {"l": 5}
  assert programs["score"].longest == {"l": 12, "t": 8}
  assert programs["score"].most_tokens == 13
  prompted = make(prompts.prompted(converter, 3), LENGTHS)
  assert prompted["generate"].longest == {"l": 2}
  assert prompted["score"].most_tokens == 10
  with pytest.raises(UserError) as error:
    make(converter, {"inputs": 16, "targets": 13})
  assert str(error.value) == (
    "outputs of up to 13 tokens leave no position for their inputs: the model "
    "has 12; choose a smaller DecodingOptions.max_length or "
    "TASK_FEATURE_LENGTHS"
  )


MASKED = converters.Encoder()
PLACED = converters.EncoderDecoder(original_positions=True)


@pytest.mark.parametrize(
  ("changes", "sentence"),
  [
    (
      {"folder": "."},
      "'.' is there already; name another folder, or remove it",
    ),
    (
      {"folder": "gs://bucket/model"},
      "'gs://bucket/model' is a URL, and programs are written into folders of "
      "this machine; name one, and copy it there",
    ),
    (
      {"platforms": ["cpu", "gpu"]},
      "platforms are gpu; choose some of cpu, cuda, rocm, tpu",
    ),
    (
      {"platforms": []},
      "platforms are none; choose some of cpu, cuda, rocm, tpu",
    ),
    (
      {"lengths": {"inputs": 12}},
      "TASK_FEATURE_LENGTHS={'inputs': 12} has to give 'targets' 1 token or "
      "more",
    ),
    (
      {"of": ("bert", "../heads/classes.gin"), "converter": MASKED},
      "the model has no head 'tokens'; it has 'classes': choose heads and "
      "objective by one file of gin_configs/heads/, after the file of the run",
    ),
    (
      {"of": ("bert",), "converter": prompts.prompted(MASKED, 3)},
      "a prompt of trained vectors precedes the rows of this encoder, which a "
      "program cannot be given as ids; export a model without one",
    ),
    (
      {"of": ("bert",), "converter": converters.Encoder(orders=True)},
      "EncoderFeatures.orders is True: the model predicts tokens in a drawn "
      "order, which a program is not given; choose a head by one file of "
      "gin_configs/heads/",
    ),
    (
      {"converter": PLACED},
      "EncoderDecoderFeatures.original_positions is True, and a program does "
      "not know where targets stand in a text; set it to False",
    ),
    (
      {"of": ("unilm",), "converter": converters.Unified()},
      "rows of Unified are not laid out by a program; rows of "
      "EncoderDecoderFeatures, LanguageModelFeatures and "
      "PrefixLanguageModelFeatures are",
    ),
  ],
)
def test_refusals(changes, sentence, tmp_path):
  """Nothing is written and no parameter is read."""
  model, converter = tiny_models.build(*changes.pop("of", ("t5_1_1",)))
  arguments = {
    "folder": tmp_path / "exported",
    "converter": converter,
    "lengths": LENGTHS,
    "decoding": GREEDY,
    "scorer": None,
    "platforms": exported_programs.PLATFORMS,
  }
  with pytest.raises(UserError) as error:
    exported_programs.check(model=model, **arguments | changes)
  assert str(error.value) == sentence
  assert not list(tmp_path.iterdir())
