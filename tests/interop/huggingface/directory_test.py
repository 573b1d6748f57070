"""Hugging Face directories: tied weights, shards, and what is wrong in them."""

import contextlib
import json
import pathlib
import sys

from flax import serialization
from flax import traverse_util
import numpy as np
import pytest

from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import directory
from transformer_zoo.interop.huggingface import FAMILIES
from transformer_zoo.interop.huggingface import family_of
from transformer_zoo.interop.huggingface import writing
from transformer_zoo.tensors import safetensors
from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.tensors.links import to_ours

CONFIG = {
  "model_type": "t5",
  "vocab_size": 11,
  "d_model": 6,
  "d_kv": 4,
  "d_ff": 10,
  "num_layers": 1,
  "num_decoder_layers": 2,
  "num_heads": 3,
}
SHAPES = {
  "shared": (11, 6),
  "q": (12, 6),
  "k": (12, 6),
  "v": (12, 6),
  "o": (6, 12),
  "wi": (10, 6),
  "wo": (6, 10),
  "relative_attention_bias": (32, 3),
}
UNUSED = (
  "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
)


def arrays() -> dict[str, np.ndarray]:
  """Theirs of the model that CONFIG describes."""
  random = np.random.RandomState(0)
  links = family_of(CONFIG).links(CONFIG)
  return {
    link.theirs: random.standard_normal(
      SHAPES.get(link.theirs.split(".")[-2], (6,))
    ).astype(np.float32)
    for link in links
  }


def write(folder, content, config=CONFIG):
  (folder / "config.json").write_text(json.dumps(config))
  tensors = {name: Tensor.of(array) for name, array in content.items()}
  safetensors.write(folder / "model.safetensors", tensors)
  return folder


def test_parameters_are_theirs_turned(tmp_path):
  theirs = arrays()
  found = directory.open_directory(write(tmp_path, theirs)).parameters()
  np.testing.assert_array_equal(
    found["decoder/layers_1/encoder_decoder_attention/query/kernel"].read(),
    theirs["decoder.block.1.layer.1.EncDecAttention.q.weight"].T,
  )
  np.testing.assert_array_equal(
    found["encoder/relpos_bias/rel_embedding"].read(),
    theirs[
      "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    ].T,
  )


@pytest.mark.parametrize("number", [10**6, 2 * 10**9])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.kind)
def test_more_layers_than_tensors(tmp_path, family, number):
  """Refused before anything is built that is as long as the model is deep."""
  config = {"model_type": family.kind}
  layers = family.num_layers(config)
  for change in (
    {"num_hidden_layers": number},
    {"num_hidden_groups": number},  # layers of ALBERT that have parameters
    {"num_decoder_layers": number},
    {"decoder_layers": number},
    {"decoder": {"num_hidden_layers": number}},
  ):
    with contextlib.suppress(UserError):  # It is of another family.
      changed = family.num_layers(config | change)
      config, layers = config | change, changed
  assert layers >= number
  content = {"a": np.zeros(3, np.float32), "b": np.zeros(3, np.float32)}
  with pytest.raises(UserError) as error:
    directory.open_directory(write(tmp_path, content, config))
  assert str(error.value) == (
    f"'{tmp_path}/config.json' asks for {layers} layers, and the files beside "
    "it hold 2 tensors; they are not of one model"
  )


@pytest.mark.parametrize(
  ("name", "value", "what"),
  [
    ("d_kv", 10**9, "numbers of a head"),
    ("d_kv", 33, "numbers of a head"),
    ("d_model", 10**9, "numbers of a token"),
  ],
)
def test_wider_models_than_tensors(tmp_path, name, value, what):
  """Positions would be computed before any shape is compared."""
  config = CONFIG | {name: value}
  with pytest.raises(UserError) as error:
    directory.open_directory(write(tmp_path, arrays(), config))
  assert str(error.value) == (
    f"'{tmp_path}/config.json' asks for {value} {what}, and the files beside "
    "it hold 32 rows at most; they are not of one model"
  )


def test_second_names_and_unused_tensors_are_passed_over(tmp_path):
  theirs = arrays()
  theirs["lm_head.weight"] = theirs["encoder.embed_tokens.weight"] = theirs[
    "shared.weight"
  ]
  theirs[UNUSED] = np.zeros((32, 3), np.float32)
  found = directory.open_directory(write(tmp_path, theirs))
  assert found.tensors.keys() == arrays().keys()
  assert found.config["tie_word_embeddings"]


def test_a_table_under_its_second_name_alone(tmp_path):
  theirs = arrays()
  table = theirs.pop("shared.weight")
  theirs["decoder.embed_tokens.weight"] = table
  found = directory.open_directory(write(tmp_path, theirs)).parameters()
  np.testing.assert_array_equal(found["token_embedder/embedding"].read(), table)


def test_another_matrix_for_the_softmax_is_one_of_its_own(tmp_path):
  theirs = arrays()
  head = theirs["lm_head.weight"] = theirs["shared.weight"] + 1
  found = directory.open_directory(write(tmp_path, theirs))
  assert not found.config["tie_word_embeddings"]
  kernel = found.parameters()["decoder/logits_dense/kernel"]
  np.testing.assert_array_equal(kernel.read(), head.T)


def test_names_without_the_prefix_of_the_whole_class(tmp_path):
  config = {
    "model_type": "gpt2",
    "vocab_size": 7,
    "n_embd": 4,
    "n_layer": 1,
    "n_head": 2,
    "n_positions": 5,
  }
  family = family_of(config)
  names = [link.theirs for link in family.links(config)]
  bare = [name.removeprefix(family.prefix) for name in names]
  assert bare != names
  content = {name: np.zeros((4, 4), np.float32) for name in bare}
  found = directory.open_directory(write(tmp_path, content, config))
  assert set(found.tensors) == set(names)


def test_what_is_missing_left_over_and_misshaped_is_told_together(tmp_path):
  theirs = arrays()
  del theirs["encoder.final_layer_norm.weight"]
  theirs["decoder.block.7.layer.0.layer_norm.weight"] = np.zeros(6, np.float32)
  wide = "encoder.block.0.layer.1.DenseReluDense.wi.weight"
  theirs[wide] = np.zeros((12, 6), np.float32)
  found = directory.open_directory(write(tmp_path, theirs))
  tensors = {name: Tensor.of(array) for name, array in arrays().items()}
  ours = to_ours(family_of(CONFIG).links(CONFIG), tensors)
  with pytest.raises(UserError) as error:
    found.parameters({name: tensor.shape for name, tensor in ours.items()})
  for part in (
    "missing: encoder.final_layer_norm.weight",
    "left over: decoder.block.7.layer.0.layer_norm.weight",
    f"of another shape than config.json says: {wide} (12, 6)",
  ):
    assert part in str(error.value)


@pytest.mark.parametrize(
  ("file", "content", "sentence"),
  [
    ("config.json", "[1]", "is no JSON object"),
    ("config.json", "{", "is no JSON ("),
    ("config.json", "[" * 100_000 + "]" * 100_000, "are nested too deeply"),
    ("config.json", '{"num_layers": ' + "9" * 5000 + "}", "is no JSON ("),
    ("model.safetensors.index.json", "{}", "lacks weight_map; it is a table"),
    (
      "model.safetensors.index.json",
      '{"weight_map": {"a": ["model-1.safetensors"]}}',
      "has weight_map.a=['model-1.safetensors']; it takes a text",
    ),
    (
      "model.safetensors.index.json",
      '{"weight_map": {"a": "model-1.safetensors"}}',
      "lacks shards of its index: model-1.safetensors",
    ),
    (
      "model.safetensors.index.json",
      '{"weight_map": {"a": "../model.safetensors"}}',
      "names '../model.safetensors'; shards lie in the folder itself",
    ),
    (
      "model.safetensors.index.json",
      '{"weight_map": {"a": "/etc/passwd"}}',
      "names '/etc/passwd'; shards lie in the folder itself",
    ),
  ],
)
def test_damaged_descriptions(tmp_path, file, content, sentence):
  (tmp_path / "config.json").write_text(json.dumps(CONFIG))
  (tmp_path / file).write_text(content)
  with pytest.raises(UserError) as error:
    directory.open_directory(tmp_path)
  assert sentence in str(error.value)


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_nested_files_beside_a_vocabulary(tmp_path, name):
  (tmp_path / name).write_text("[" * 100_000 + "]" * 100_000)
  (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n")
  with pytest.raises(UserError, match=rf"{name}' is no JSON object"):
    Vocabulary(tmp_path).check()


@pytest.mark.parametrize(
  "name", [directory.SAFETENSORS, directory.PYTORCH, directory.FLAX]
)
def test_a_file_that_was_not_fetched(name, tmp_path):
  (tmp_path / "config.json").write_text('{"model_type": "t5"}')
  pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
  (tmp_path / name).write_text(pointer)
  with pytest.raises(UserError) as error:
    directory.open_directory(tmp_path)
  assert str(error.value) == (
    f"'{tmp_path / name}' is a pointer of Git LFS and not the file; fetch that "
    "with `git lfs pull`"
  )
  with pytest.raises(UserError, match="pointer of Git LFS and not the file"):
    Vocabulary(tmp_path / name).check()


def test_a_directory_without_weights(tmp_path):
  (tmp_path / "config.json").write_text(json.dumps(CONFIG))
  with pytest.raises(UserError, match="has a config.json and no weights"):
    directory.open_directory(tmp_path)


def test_shards_hold_what_one_file_does(tmp_path):
  parameters = directory.open_directory(write(tmp_path, arrays())).parameters()
  (tmp_path / "many").mkdir()
  writing.write_directory(
    tmp_path / "many",
    family_of(CONFIG),
    CONFIG,
    parameters,
    max_shard_bytes=1000,
  )
  shards = list((tmp_path / "many").glob("model-*.safetensors"))
  assert len(shards) > 2
  index = json.loads(
    (tmp_path / "many" / "model.safetensors.index.json").read_text()
  )
  total = sum(array.nbytes for array in arrays().values())
  assert index["metadata"]["total_size"] == total
  found = directory.open_directory(tmp_path / "many")
  assert found.tensors.keys() == arrays().keys()
  for name, array in arrays().items():
    np.testing.assert_array_equal(found.tensors[name].read(), array)
  shards[0].unlink()
  with pytest.raises(UserError, match="lacks shards of its index"):
    directory.open_directory(tmp_path / "many")


def of_flax(content) -> dict[str, np.ndarray]:
  """The same arrays as the classes for Flax named and laid them out."""
  found = {}
  for name, array in content.items():
    owner = name.removesuffix(".weight").replace(".", "/")
    last = owner.split("/")[-1]
    if last in ("shared", "relative_attention_bias"):
      found[f"{owner}/embedding"] = array
    elif array.ndim == 2:
      found[f"{owner}/kernel"] = array.T
    else:
      found[f"{owner}/weight"] = array
  return found


@pytest.mark.parametrize("shards", [1, 3])
def test_a_flax_file_holds_what_safetensors_do(tmp_path, shards):
  content = of_flax(arrays())
  (tmp_path / "config.json").write_text(json.dumps(CONFIG))
  names = sorted(content)
  places = {}
  for number in range(shards):
    file = directory.FLAX if shards == 1 else f"flax-{number}.msgpack"
    part = {name: content[name] for name in names[number::shards]}
    places |= dict.fromkeys(part, file)
    tree = traverse_util.unflatten_dict(part, sep="/")
    (tmp_path / file).write_bytes(serialization.msgpack_serialize(tree))
  if shards > 1:
    index = tmp_path / f"{directory.FLAX}.index.json"
    index.write_text(json.dumps({"weight_map": places}))
  found = directory.open_directory(tmp_path)
  assert found.tensors.keys() == arrays().keys()
  for name, array in arrays().items():
    np.testing.assert_array_equal(found.tensors[name].read(), array)


@pytest.mark.parametrize(
  ("content", "sentence"),
  [
    (b"", "is no whole file of Flax arrays"),
    (serialization.msgpack_serialize(of_flax(arrays()))[:-1], "no whole file"),
    (b"\x01", "is no file of Flax arrays"),
    (
      serialization.msgpack_serialize({"shared": {"embedding": "x"}}),
      "holds str under 'shared/embedding' and no array",
    ),
  ],
)
def test_damaged_flax_files(tmp_path, content, sentence):
  (tmp_path / "config.json").write_text(json.dumps(CONFIG))
  (tmp_path / directory.FLAX).write_bytes(content)
  with pytest.raises(UserError, match=sentence):
    directory.open_directory(tmp_path)


def index_of(folder, *more):
  """Makes of a directory's one file a shard, and an index with more names."""
  shard = "model-00001-of-00001.safetensors"
  (folder / "model.safetensors").rename(folder / shard)
  index = {"weight_map": dict.fromkeys([*arrays(), *more], shard)}
  (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def test_an_index_may_name_all_places_of_one_table(tmp_path):
  """As flan-t5-xl's does, whose shards have the table once."""
  index_of(
    write(tmp_path, arrays()),
    "encoder.embed_tokens.weight",
    "decoder.embed_tokens.weight",
    UNUSED,
  )
  found = directory.open_directory(tmp_path)
  assert found.tensors.keys() == arrays().keys()
  assert found.parameters()


@pytest.mark.parametrize(
  ("lost", "says"),
  [
    ("lm_head.weight", {"tie_word_embeddings": False}),
    ("encoder.block.9.layer.0.layer_norm.weight", {}),
  ],
)
def test_an_index_that_names_what_is_lost(tmp_path, lost, says):
  index_of(write(tmp_path, arrays(), CONFIG | says), lost)
  with pytest.raises(UserError) as error:
    directory.open_directory(tmp_path)
  assert str(error.value) == (
    f"the index in {str(tmp_path)!r} names tensors that are not in its shards: "
    f"{lost}"
  )


def test_pickled_files_need_pytorch(tmp_path, monkeypatch):
  (tmp_path / "config.json").write_text(json.dumps(CONFIG))
  (tmp_path / "pytorch_model.bin").write_bytes(b"")
  monkeypatch.setitem(sys.modules, "torch", None)
  with pytest.raises(UserError, match="is read by PyTorch, which is not"):
    directory.open_directory(tmp_path)


class Touched:
  """Pickled as a call, which makes a file where it is unpickled."""

  def __init__(self, path):
    self.path = path

  def __reduce__(self):
    return pathlib.Path.touch, (self.path,)


@pytest.mark.parametrize("archive", [True, False])
def test_a_pickle_that_calls_a_function_is_not_obeyed(tmp_path, archive):
  torch = pytest.importorskip("torch")
  (tmp_path / "config.json").write_text(json.dumps(CONFIG))
  touched = tmp_path / "touched"
  torch.save(
    {"shared.weight": torch.zeros(2), "more": Touched(touched)},
    tmp_path / "pytorch_model.bin",
    _use_new_zipfile_serialization=archive,
  )
  with pytest.raises(UserError, match="is no whole file of PyTorch tensors"):
    directory.open_directory(tmp_path)
  assert not touched.exists()
