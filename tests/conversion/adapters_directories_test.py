"""Directories of the library `adapters`, as it saved them and computed.

tests/oracles/pytorch/record_adapters.py made tests/golden/adapters.
"""

import json
import pathlib
import shutil

from flax import traverse_util
import jax
import numpy as np
import pytest

from transformer_zoo.checkpoints import converted_run
from transformer_zoo.conversion import convert
from transformer_zoo.errors import UserError
from transformer_zoo.peft import adapters
from transformer_zoo.tensors import safetensors

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "adapters"
CASES = (
  *("bert_houlsby", "bert_pfeiffer"),
  *("t5_houlsby", "t5_houlsby_cross", "t5_pfeiffer"),
)
TOLERANCE = 2e-5


def to_run(source, target, base):
  convert.convert(source, target, base=str(base), report=lambda line: None)


def our_logits(folder, recorded):
  run = converted_run.open_run(folder)
  params = traverse_util.unflatten_dict(
    {name: tensor.read() for name, tensor in run.parameters().items()}, sep="/"
  )
  batch = {"encoder_input_tokens": recorded["ids"].astype(np.int32)}
  if run.model.offers.has_decoder:
    targets = recorded["targets"].astype(np.int32)
    batch |= {"decoder_input_tokens": targets}
    batch |= {"decoder_target_tokens": np.ones_like(targets)}
  return jax.jit(
    lambda params, batch: run.model.apply(
      {"params": params}, batch, method=lambda m, b: m.logits(m.hidden(b))
    )
  )(params, batch)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_directory_is_read_and_written(case, tmp_path):
  base = tmp_path / "base"
  shutil.copytree(GOLDEN / case.partition("_")[0], base)
  to_run(GOLDEN / case, tmp_path / "run", base)
  recorded = np.load(GOLDEN / case / "outputs.npz")
  found, expected = our_logits(tmp_path / "run", recorded), recorded["logits"]
  assert np.abs(found - expected).max() < TOLERANCE * np.abs(expected).max()
  convert.convert(
    tmp_path / "run", tmp_path / "again", to="adapters", report=lambda s: None
  )
  theirs, ours = (
    {
      name.replace(".adapters.task.", ".adapters.adapter."): tensor.read()
      for name, tensor in safetensors.read(
        folder / "adapter.safetensors"
      ).items()
    }
    for folder in (GOLDEN / case, tmp_path / "again")
  )
  assert ours.keys() == theirs.keys()
  for name, array in theirs.items():
    np.testing.assert_array_equal(ours[name], array)
  said, written = (
    json.loads((folder / "adapter_config.json").read_text())
    for folder in (GOLDEN / case, tmp_path / "again")
  )
  before, after = said.pop("config"), written.pop("config")
  for name, value in after.items():
    if name == "reduction_factor":
      hidden = len(next(a for n, a in ours.items() if "down.0.bias" in n))
      assert int(said["hidden_size"] // value) == hidden
    elif name != "non_linearity" or value != "silu":
      assert before[name] == value, name
  assert written["model_name"] == str(base)
  for name in ("hidden_size", "model_class", "model_type"):
    assert said[name] == written[name]


def test_a_reduction_factor_gives_back_the_hidden_units():
  for width in (48, 64, 768):
    for hidden in range(1, width + 1):
      factor = adapters.reduction_factor(width, hidden)
      assert int(width // factor) == hidden


def changed(tmp_path, case="t5_pfeiffer", **settings):
  folder = tmp_path / "changed"
  shutil.copytree(GOLDEN / case, folder)
  path = folder / "adapter_config.json"
  said = json.loads(path.read_text())
  said["config"] |= settings
  path.write_text(json.dumps(said))
  return folder


@pytest.mark.parametrize(
  ("settings", "sentence"),
  [
    (
      {"is_parallel": True},
      "is_parallel = True, which is not read here; known: False",
    ),
    ({"ln_after": True}, "ln_after = True, which is not read here; known"),
    ({"scaling": "learned"}, "scaling = 'learned', which is not read here"),
    ({"inv_adapter": "nice"}, "inv_adapter = 'nice', which is not read here"),
    ({"leave_out": [0]}, r"leave_out = \[0\], which is not read here"),
    ({"residual_before_ln": "post_add"}, "residual_before_ln = 'post_add'"),
    ({"mh_adapter": True}, "original_ln_before = True and adapters behind"),
    ({"non_linearity": "leakyrelu"}, "non_linearity = 'leakyrelu', which is"),
    ({"gate": 3}, "the setting 'gate' .3., which is not understood here"),
    ({"architecture": "lora"}, "the architecture 'lora' of `adapters`"),
  ],
)
def test_what_is_not_built_is_refused_by_name(settings, sentence, tmp_path):
  folder = changed(tmp_path, **settings)
  with pytest.raises(UserError, match=sentence):
    to_run(folder, tmp_path / "run", GOLDEN / "t5")


@pytest.mark.parametrize(
  ("case", "base"), [("bert_pfeiffer", "t5"), ("t5_houlsby", "bert")]
)
def test_another_base(case, base, tmp_path):
  with pytest.raises(UserError, match="is of another base"):
    to_run(GOLDEN / case, tmp_path / "run", GOLDEN / base)


def test_a_directory_without_tensors(tmp_path):
  folder = changed(tmp_path)
  (folder / "adapter.safetensors").unlink()
  with pytest.raises(UserError, match="has neither adapter.safetensors nor"):
    to_run(folder, tmp_path / "run", GOLDEN / "t5")


@pytest.mark.slow
def test_pytorchs_file(tmp_path):
  torch = pytest.importorskip("torch")
  folder = changed(tmp_path)
  path = folder / "adapter.safetensors"
  tensors = {n: t.read() for n, t in safetensors.read(path).items()}
  torch.save(
    {name: torch.tensor(array) for name, array in tensors.items()},
    folder / "pytorch_adapter.bin",
  )
  path.unlink()
  to_run(folder, tmp_path / "of_bin", GOLDEN / "t5")
  to_run(GOLDEN / "t5_pfeiffer", tmp_path / "run", GOLDEN / "t5")
  one, other = (
    converted_run.open_run(tmp_path / name).parameters()
    for name in ("of_bin", "run")
  )
  for name, tensor in one.items():
    np.testing.assert_array_equal(tensor.read(), other[name].read())
