"""Directories of `peft`, written and read here; refusals by name.

tests/oracles/pytorch/peft_directories_test.py compares with the library.
"""

import json
import math

import numpy as np
import pytest

from tests import tiny_models
from transformer_zoo import config
from transformer_zoo.checkpoints import converted_run
from transformer_zoo.conversion import convert
from transformer_zoo.errors import UserError
from transformer_zoo.tensors import safetensors
from transformer_zoo.tensors.lazy_tensors import Tensor

LORA = {
  "peft_type": "LORA",
  "r": 2,
  "lora_alpha": 3,
  "target_modules": ["c_attn"],
  # As library versions write what is not asked for.
  "use_rslora": False,
  "corda_config": None,
  "a_setting_of_the_future": None,
}
MODULE = "base_model.model.transformer.h.{}.{}"


def write(folder, said, tensors):
  folder.mkdir()
  (folder / "adapter_config.json").write_text(json.dumps(said))
  random = np.random.RandomState(0)
  safetensors.write(
    folder / "adapter_model.safetensors",
    {
      name: Tensor.of(random.standard_normal(shape).astype(np.float32))
      for name, shape in tensors.items()
    },
  )


def lora_tensors(*modules, rank=2, width=24, features=72):
  return {
    f"{MODULE.format(layer, module)}.lora_{part}.weight": shape
    for layer in range(2)
    for module in modules
    for part, shape in (("A", (rank, width)), ("B", (features, rank)))
  }


def read(tmp_path, said, tensors):
  tiny_models.write_gpt_2(tmp_path / "base")
  write(tmp_path / "theirs", said, tensors)
  convert.convert(
    tmp_path / "theirs",
    tmp_path / "run",
    base=str(tmp_path / "base"),
    report=lambda line: None,
  )
  return tmp_path / "run"


METHODS = {
  "lora": (LORA, lora_tensors("attn.c_attn")),
  "dora": (
    {**LORA, "use_dora": True},
    lora_tensors("attn.c_attn")
    | {
      f"{MODULE.format(layer, 'attn.c_attn')}.lora_magnitude_vector": (72,)
      for layer in range(2)
    },
  ),
  "ia3": (
    {"peft_type": "IA3", "target_modules": ["c_attn"]},
    {
      f"{MODULE.format(layer, 'attn.c_attn')}.ia3_l": (72, 1)
      for layer in range(2)
    },
  ),
  "prompt": (
    {"peft_type": "PROMPT_TUNING", "num_virtual_tokens": 3},
    {"prompt_embeddings": (3, 24)},
  ),
  "prefix": (
    {"peft_type": "PREFIX_TUNING", "num_virtual_tokens": 3},
    {"prompt_embeddings": (3, 2 * 2 * 24)},
  ),
}


@pytest.mark.parametrize("method", METHODS)
def test_there_and_back_changes_no_number(method, tmp_path):
  run = read(tmp_path, *METHODS[method])
  lines = []
  convert.convert(run, tmp_path / "again", to="peft", report=lines.append)
  theirs, ours = (
    safetensors.read(tmp_path / name / "adapter_model.safetensors")
    for name in ("theirs", "again")
  )
  number = sum(math.prod(tensor.shape) for tensor in ours.values())
  assert f": {number:,} parameters in {len(ours)} tensors," in lines[-1]
  if method == "lora":  # Three of ours are one of theirs, of the ranks' sum.
    product = lambda of, place: (  # noqa: E731
      of[f"{place}.lora_B.weight"].read() @ of[f"{place}.lora_A.weight"].read()
    )
    for layer in range(2):
      place = MODULE.format(layer, "attn.c_attn")
      said = json.loads((tmp_path / "again/adapter_config.json").read_text())
      np.testing.assert_allclose(
        product(ours, place) * said["lora_alpha"] / said["r"],
        product(theirs, place) * LORA["lora_alpha"] / LORA["r"],
        rtol=1e-5,
        atol=1e-6,
      )
    return
  assert theirs.keys() == ours.keys()
  for name, tensor in theirs.items():
    if method == "dora" and "magnitude" not in name:
      continue
    np.testing.assert_allclose(ours[name].read(), tensor.read(), rtol=1e-6)


def test_a_layer_that_is_left_out_changes_nothing(tmp_path):
  tensors = lora_tensors("attn.c_attn")
  first = {name: shape for name, shape in tensors.items() if ".h.0." in name}
  run = read(tmp_path, {**LORA, "layers_to_transform": [0]}, first)
  parameters = converted_run.open_run(run).parameters()
  assert parameters["decoder/layers_0/self_attention/key/lora_b"].read().any()
  other = parameters["decoder/layers_1/self_attention/key/lora_b"].read()
  assert not other.any()


def test_the_scale_of_rank_stabilized_lora(tmp_path):
  run = read(tmp_path, {**LORA, "use_rslora": True}, METHODS["lora"][1])
  alpha = config.build("LORA_ALPHA", [str(run / "config.gin")])
  assert alpha == pytest.approx(3 * 2**0.5)


@pytest.mark.parametrize(
  ("settings", "sentence"),
  [
    ({"peft_type": "LOHA"}, "the peft_type 'LOHA', which is not read here; k"),
    ({"bias": "all"}, "bias = 'all', which is not read here; known: 'none'"),
    ({"init_lora_weights": "pissa_niter_4"}, "init_lora_weights = 'pissa_nite"),
    ({"rank_pattern": {"c_attn": 4}}, "rank_pattern = {'c_attn': 4}, which is"),
    (
      {"kasa_config": {"beta": 1}},
      "the setting 'kasa_config' .*, which is not understood here; remove it",
    ),
    ({"r": None}, "r = None in adapter_config.json, where a number above 0"),
    ({"r": True}, "adapter_config.json' has r=True; it takes a whole number"),
    ({"lora_alpha": "8"}, "config.json' has lora_alpha='8'; it takes a number"),
    (
      {"base_model_name_or_path": 5},
      "has base_model_name_or_path=5; it takes a text or null",
    ),
    ({"lora_dropout": 1}, "lora_dropout = 1 in adapter_config.json, where a s"),
    ({"use_rslora": "no"}, "use_rslora = 'no', which is not read here; known"),
    (
      {"r": 10**9},
      r"lora_A.weight has the shape \(2, 24\), and by adapter_config.json "
      r"\(r = 1000000000, lora_alpha = 3\) and this base it has \(1000000000,",
    ),
  ],
)
def test_what_is_not_read_is_refused_by_name(settings, sentence, tmp_path):
  with pytest.raises(UserError, match=sentence):
    read(tmp_path, {**LORA, **settings}, METHODS["lora"][1])
  assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
  ("tensors", "sentence"),
  [
    (
      lora_tensors("attn.c_attn", width=20),
      r"is of another base, None, or damaged: its .*c_attn.lora_A.weight has "
      r"the shape \(2, 20\), and by .* it has \(2, 24\)",
    ),
    (
      {**lora_tensors("attn.c_attn"), f"{MODULE.format(0, 'attn.c_attn')}."
       "lora_A.weight": ()},
      r"lora_A.weight has the shape \(\), and by adapter_config.json",
    ),
    (
      {**lora_tensors("attn.c_attn"), f"{MODULE.format(0, 'ln')}.x": (2,)},
      "modules that no method is read for here .*: transformer.h.0.ln.x belong",
    ),
    (
      {**lora_tensors("attn.c_attn"), "base_model.model.lm_head.lora_A.weight":
       (2, 24), "base_model.model.lm_head.lora_B.weight": (48, 2)},
      "lm_head.lora_A.weight.* merge it in `peft` .* and convert that dir",
    ),
    ({}, "has no tensor of the method LORA"),
    (
      {n: s for n, s in lora_tensors("attn.c_attn").items() if "1" not in n
       or "lora_A" in n},
      "lacks the tensor transformer.h.1.attn.c_attn.lora_B.weight",
    ),
  ],
)  # fmt: skip
def test_tensors_of_another_base(tensors, sentence, tmp_path):
  with pytest.raises(UserError, match=sentence):
    read(tmp_path, LORA, tensors)


def test_a_prompt_that_leaves_no_position(tmp_path):
  said = {"peft_type": "PROMPT_TUNING", "num_virtual_tokens": 1024}
  sentence = (
    "a prompt of 1024 vectors leaves no place for a text: the model has"
  )
  with pytest.raises(UserError, match=sentence):
    read(tmp_path, said, {"prompt_embeddings": (1024, 24)})


def test_a_directory_without_tensors(tmp_path):
  write(tmp_path / "empty", LORA, {})
  (tmp_path / "empty" / "adapter_model.safetensors").unlink()
  tiny_models.write_gpt_2(tmp_path / "base")
  with pytest.raises(UserError, match="has neither adapter_model.safetens"):
    convert.convert(
      tmp_path / "empty", tmp_path / "run", base=str(tmp_path / "base")
    )


@pytest.mark.parametrize(
  ("options", "names"),
  [
    ({"to": "huggingface", "merge": True}, "--to, --merge"),
    ({"vocabulary_path": "v", "extra_ids": 0}, "--vocabulary, --extra_ids"),
    (
      {"vocabulary_size": 48, "positions": 9, "average": 2},
      "--vocabulary_size, --positions, --average",
    ),
    (
      {"dtype": "float32", "max_shard_bytes": 9, "scanned": True},
      "--dtype, --max_shard_size, --scanned",
    ),
    (
      {"gin_files": ["a.gin"], "bindings": ["LORA_RANK=3", "A.b=1"]},
      "--gin_file, --gin.LORA_RANK, --gin.A.b",
    ),
  ],
)
def test_options_that_a_method_has_no_use_for(options, names, tmp_path):
  write(tmp_path / "theirs", *METHODS["lora"])
  with pytest.raises(UserError, match=f"leave out {names} and convert that"):
    convert.convert(tmp_path / "theirs", tmp_path / "run", **options)


@pytest.mark.parametrize("to", ["peft", "adapters"])
@pytest.mark.parametrize("option", ["vocabulary_size", "positions"])
def test_a_method_alone_is_not_resized(to, option, tmp_path):
  run = read(tmp_path, *METHODS["lora"])
  sentence = f"--{option} is 40, which means nothing .* in the format '{to}'"
  with pytest.raises(UserError, match=sentence):
    convert.convert(run, tmp_path / "again", to=to, **{option: 40})
  assert not (tmp_path / "again").exists()
