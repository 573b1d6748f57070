"""BERT, RoBERTa and DistilBERT with every head, live: make test-oracles.

What some of the classes compute is recorded by
tests/oracles/pytorch/make_goldens.py.
"""

from flax import traverse_util
import numpy as np
import pytest
import torch
import transformers

from tests import tiny_t5
from tests.golden import encoders
from tests.golden import families
from tests.oracles.pytorch import huggingface
from transformer_zoo.interop.huggingface import directory
from transformer_zoo.interop.huggingface import family_of

LOGITS_TOLERANCE = 2e-5
GRADIENT_TOLERANCE = 1e-4

every_config = pytest.mark.parametrize("name", encoders.CONFIGS)


@every_config
def test_outputs_and_gradient_of_every_parameter(name, report):
  """Of our model, and of theirs as we describe it."""
  _, model, params, batch = encoders.setting(name)
  found = encoders.outputs(model, params, batch)
  described = family_of(encoders.CONFIGS[name]).config(model)
  theirs = huggingface.encoder_outputs(described, model, params, batch)
  assert set(found) == set(theirs)
  largest = {entry: np.abs(value).max() for entry, value in theirs.items()}
  # A bias of all keys cancels in the softmax: what is left of its gradient is
  # rounding, on both sides.
  most = max(v for k, v in largest.items() if k.startswith("gradient/"))
  for entry in [entry for entry in theirs if entry.endswith("key/bias")]:
    assert np.abs(found.pop(entry)).max() < 1e-6 * most
    assert np.abs(theirs.pop(entry)).max() < 1e-6 * most
  differences = {
    entry: np.abs(found[entry] - theirs[entry]).max() / largest[entry]
    for entry in theirs
  }
  logits = differences.pop("logits")
  del differences["loss"]
  worst = max(differences, key=differences.get)
  report("logits", logits)
  report(worst, differences[worst])
  assert logits < LOGITS_TOLERANCE
  assert differences[worst] < GRADIENT_TOLERANCE, worst


@every_config
def test_a_model_that_they_draw_is_read(name, tmp_path, report):
  """Their initial weights and their way of saving, read from the directory."""
  config = {k: v for k, v in encoders.CONFIGS[name].items() if k[0] != "_"}
  torch.manual_seed(0)
  config = transformers.AutoConfig.for_model(**config)
  theirs = huggingface.class_of(config)(config).eval()
  theirs.save_pretrained(tmp_path)
  found = directory.open_directory(tmp_path)
  assert found.config["architectures"] == config.architectures
  model = families.build(found.config)
  params = traverse_util.unflatten_dict(
    {n: np.array(t.read()) for n, t in found.parameters().items()}, sep="/"
  )
  batch = encoders.batch_for(model)
  with torch.no_grad():
    answers = huggingface.encoder_answers(theirs, batch, model.pad_id)
  real = batch["encoder_input_tokens"] != model.pad_id
  difference = tiny_t5.largest_difference(
    encoders.outputs(model, params, batch)["logits"],
    encoders.joined({n: v.numpy() for n, v in answers.items()}, real),
  )
  report("logits", difference)
  assert difference < LOGITS_TOLERANCE


def test_files_of_2019(tmp_path):
  """A .bin of a bare class without its prefix, with gamma and beta."""
  config = transformers.AutoConfig.for_model(**encoders.CONFIGS["bert"])
  theirs = transformers.BertModel(config)
  old = {
    name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
      "LayerNorm.bias", "LayerNorm.beta"
    ): value
    for name, value in theirs.state_dict().items()
  }
  assert old.keys() != theirs.state_dict().keys()
  old["embeddings.position_ids"] = torch.arange(29)[None]
  config.save_pretrained(tmp_path)
  torch.save(old, tmp_path / directory.PYTORCH)
  found = directory.open_directory(tmp_path)
  state = {f"bert.{name}": value for name, value in theirs.state_dict().items()}
  assert found.tensors.keys() == state.keys()
  for name, tensor in found.tensors.items():
    assert (tensor.read() == state[name].numpy()).all()
