"""`zoo inspect attention`: what the heads of a model attend to.

tests/oracles/pytorch/encoder_answers_test.py compares with `transformers`.
"""

import json
import pathlib
import re
import types

import numpy as np
import pytest

from tests import tiny_models
from transformer_zoo.architectures.ensemble import Ensemble
from transformer_zoo.data.features import converters
from transformer_zoo.errors import UserError
from transformer_zoo.runs.analysis import attention_page
from transformer_zoo.runs.analysis.attention_maps import AttentionMap
from transformer_zoo.runs.analysis.attention_maps import AttentionMaps
from transformer_zoo.runs.analysis.attention_maps import AttentionReader
from transformer_zoo.runs.answers import encoder_answers


def read(architecture, **macros):
  """The maps of the first random example, and its numbers of tokens."""
  model, converter = tiny_models.build(architecture, **macros)
  model = AttentionMaps().model_of(model)
  params = tiny_models.random_parameters(model)
  examples = tiny_models.random_examples()
  vocabulary = types.SimpleNamespace(
    pad_id=model.pad_id, pieces=lambda: [f"piece{i}" for i in range(64)]
  )
  if isinstance(converter, converters.Encoder):
    rows = encoder_answers.Rows(converter, vocabulary, 12, 1)
    batch = rows([{"inputs": examples["inputs"].values[:6] + 2}])
  else:
    batch = tiny_models.lay_out(converter, examples, packing=False)
  reader = AttentionReader(model, vocabulary, params, lambda *_: batch)
  ((found,),) = reader.answers([{}])
  return found["attention"], examples


@pytest.mark.slow
@pytest.mark.parametrize("scan", [False, True])
def test_every_attention_of_an_encoder_decoder(scan):
  maps, examples = read("t5_1_1", SCAN_LAYERS=scan)
  names = [each.name for each in maps]
  assert names == [
    *(f"encoder/layers_{i}/attention" for i in range(2)),
    *(
      f"decoder/layers_{i}/{kind}"
      for i in range(2)
      for kind in ("self_attention", "encoder_decoder_attention")
    ),
  ]
  sides = {name: side.lengths[0] for name, side in examples.items()}
  for each in maps:
    of_decoder = each.name.startswith("decoder")
    crosses = "encoder_decoder" in each.name
    assert len(each.queries) == sides["targets" if of_decoder else "inputs"]
    assert (
      len(each.keys)
      == sides["targets" if of_decoder and not crosses else "inputs"]
    )
    np.testing.assert_allclose(each.weights_HLM.sum(-1), 1, atol=1e-5)
    assert each.to_itself == (not crosses)
    assert (each.distance_H() is None) == crosses
    if each.name.endswith("self_attention"):
      assert (np.triu(each.weights_HLM, 1) == 0).all()


@pytest.mark.slow
@pytest.mark.parametrize(
  ("architecture", "number"),
  # DeBERTa's mask decoder applies the last layer twice more.
  [
    ("gpt_2", 2),
    ("deberta", 4),
    pytest.param("roberta", 2, marks=pytest.mark.slow),
    pytest.param("albert", 2, marks=pytest.mark.slow),
  ],
)
def test_other_architectures(architecture, number):
  maps, _ = read(architecture)
  assert len({each.name for each in maps}) == number
  for each in maps:
    np.testing.assert_allclose(each.weights_HLM.sum(-1), 1, atol=1e-5)
    assert each.weights_HLM.shape[1:] == (len(each.queries), len(each.keys))


@pytest.mark.slow
def test_the_command_says_what_it_cost(zoo, tmp_path):
  folder = tmp_path / "theirs"
  parameters = tiny_models.write_gpt_2(folder, VOCAB_SIZE=384)
  words = ["inspect", "attention", folder, "so it\tis", "--vocabulary=bytes"]
  words.append(f"--output={tmp_path / 'maps'}")
  code, output, error = zoo(*words)
  assert code == 0, error
  *heads, spent, files = output.splitlines()
  assert len(heads) == 1 + 2 * 4
  written = [pathlib.Path(file) for file in files.split(", ")]
  size = sum(file.stat().st_size for file in written)
  assert re.fullmatch(
    rf"cost: \S+ FLOPs, \d+\.\d\d s, {size:,} bytes written", spent
  )
  code, output, error = zoo(*words, "--json")
  assert code == 0, error
  found = json.loads(output)
  assert len(found["heads"]) == 2 * 4
  kernels = sum(a.size for n, a in parameters.items() if n.endswith("kernel"))
  assert found["cost"]["flops"] > 2 * kernels * len("so it is")


def test_entropy_and_distance():
  weights_HLM = np.array(
    [[[1.0, 0.0], [1.0, 0.0]], [[0.5, 0.5], [0.5, 0.5]]], np.float32
  )
  found = AttentionMap("a", weights_HLM, ("x", "y"), ("x", "y"), True)
  np.testing.assert_allclose(found.entropy_H(), [0, np.log(2)], atol=1e-6)
  np.testing.assert_allclose(found.distance_H(), [0.5, 0.5])


def test_a_page_escapes_what_a_text_has():
  """And holds every weight."""
  weights_HLM = np.array([[[0.25, 0.75]]], np.float32)
  bad = "</script><b>"
  found = AttentionMap("a/b", weights_HLM, (bad,), ("x", "y"), False)
  page = attention_page.render(bad, "runs/first", [found])
  assert bad not in page
  (data,) = re.findall(r'id="data">(.*?)</script>', page, re.DOTALL)
  (saved,) = json.loads(data)
  assert saved["queries"] == [bad] and saved["keys"] == ["x", "y"]
  shown = re.findall("<span>(.*?)</span>", page)
  assert shown == ["x", "y", "&lt;/script&gt;&lt;b&gt;"]  # On the axes.


def test_an_ensemble_is_refused():
  with pytest.raises(UserError, match="no attention in common; name one"):
    AttentionMaps().model_of(Ensemble.of([tiny_models.build("lm")[0]]))
