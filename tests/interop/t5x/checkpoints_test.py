"""T5X checkpoints: what is read is what was written, under our names."""

import errno
import json

from flax import serialization
from flax import traverse_util
import ml_dtypes
import numpy as np
import orbax.checkpoint as ocp
import pytest

from tests import tiny_models
from tests.interop import t5x_format
from transformer_zoo.checkpoints import checkpoint_sources
from transformer_zoo.errors import UserError
from transformer_zoo.interop.t5x import checkpoints
from transformer_zoo.interop.t5x import index as t5x_index
from transformer_zoo.interop.t5x import links as t5x_links
from transformer_zoo.tensors import links
from transformer_zoo.tensors.lazy_tensors import Tensor

D, F, H, K, N, V = 6, 10, 2, 4, 3, 12
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def numbers(*shape, dtype=np.float32):
  """Numbers that are all different."""
  return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


def values_of(tensors):
  return {name: tensor.read() for name, tensor in tensors.items()}


def assert_equal(ours, expected):
  assert ours.keys() == expected.keys()
  for name, tensor in ours.items():
    assert tensor.shape == expected[name].shape, name
    assert tensor.dtype == expected[name].dtype, name
    np.testing.assert_array_equal(tensor.read(), expected[name], err_msg=name)


def read(folder, target, **options):
  """The parameters of a checkpoint of T5X with these parameters."""
  arrays = {f"target/{name}": array for name, array in target.items()}
  values = {"state/step": np.int32(5)}
  t5x_format.write(folder / "checkpoint_5", arrays, values, **options)
  return checkpoints.open_checkpoint(folder)


def test_parameters_of_looped_layers_have_the_same_names(tmp_path):
  target = {
    "token_embedder/embedding": numbers(V, D),
    "decoder/relpos_bias/rel_embedding": numbers(H, 32),
    "decoder/layers_11/mlp/wi_0/kernel": numbers(D, F),
    "decoder/decoder_norm/scale": numbers(D),
  }
  checkpoint = read(tmp_path, target)
  assert checkpoint.step == 5
  assert not checkpoint.has_optimizer_state
  assert_equal(checkpoint.parameters(), target)


@pytest.mark.parametrize("axis", [0, 1])
def test_layers_that_t5x_scans_become_layers(tmp_path, axis):
  kernel, scale = numbers(N, D, F), numbers(N, D)
  bias = numbers(N, H, 32)
  checkpoint = read(
    tmp_path,
    {
      "token_embedder/embedding": numbers(V, D),
      "encoder/encoder/mlp/wi/kernel": np.moveaxis(kernel, 0, axis),
      "encoder/encoder/pre_mlp_layer_norm/scale": np.moveaxis(scale, 0, axis),
      "encoder/encoder/relpos_bias/rel_embedding": np.moveaxis(bias, 0, axis),
    },
  )
  expected = {"token_embedder/embedding": numbers(V, D)}
  for i in range(N):
    layer = f"encoder/layers_{i}"
    expected[f"{layer}/mlp/wi/kernel"] = kernel[i]
    expected[f"{layer}/pre_mlp_layer_norm/scale"] = scale[i]
    expected[f"{layer}/attention/relpos_bias/rel_embedding"] = bias[i]
  assert_equal(checkpoint.parameters(), expected)


def test_layers_that_a_model_of_ours_scans_under_t5x_lie_on_axis_0(tmp_path):
  kernel = numbers(N, D, F)
  checkpoint = read(tmp_path, {"decoder/layers/mlp/wi/kernel": kernel})
  expected = {f"decoder/layers_{i}/mlp/wi/kernel": kernel[i] for i in range(N)}
  assert_equal(checkpoint.parameters(), expected)


def test_heads_with_an_axis_of_their_own_are_joined(tmp_path):
  """Flaxformer's kernels, scanned and not."""
  query, out = numbers(D, H, K), numbers(H, K, D)
  looped = "decoder/layers_0/self_attention"
  scanned = "encoder/encoder/attention"
  checkpoint = read(
    tmp_path,
    {
      "token_embedder/embedding": numbers(V, D),
      f"{looped}/query/kernel": query,
      f"{looped}/out/kernel": out,
      f"{scanned}/query/kernel": np.stack([query, -query], axis=1),
      f"{scanned}/out/kernel": np.stack([out, -out], axis=1),
    },
  )
  found = values_of(checkpoint.parameters())
  joined_query, joined_out = query.reshape(D, H * K), out.reshape(H * K, D)
  np.testing.assert_array_equal(found[f"{looped}/query/kernel"], joined_query)
  np.testing.assert_array_equal(found[f"{looped}/out/kernel"], joined_out)
  layer = "encoder/layers_1/attention"
  np.testing.assert_array_equal(found[f"{layer}/query/kernel"], -joined_query)
  np.testing.assert_array_equal(found[f"{layer}/out/kernel"], -joined_out)


def test_a_decoder_only_model_has_its_embedder_beside_the_decoder(tmp_path):
  found = read(tmp_path, {"decoder/token_embedder/embedding": numbers(V, D)})
  expected = {"token_embedder/embedding": numbers(V, D)}
  assert_equal(found.parameters(), expected)


def test_bfloat16_is_read_as_it_is_and_as_version_2_wrote_it(tmp_path):
  scale = numbers(D).astype(BFLOAT16)
  new = read(tmp_path / "new", {"decoder/decoder_norm/scale": scale})
  old = read(
    tmp_path / "old",
    {"decoder/decoder_norm/scale": scale.view(np.uint16)},
    version=2,
  )
  for checkpoint in (new, old):
    assert_equal(checkpoint.parameters(), {"decoder/decoder_norm/scale": scale})


def test_arrays_in_the_index_and_from_google_cloud_storage(tmp_path):
  folder = tmp_path / "checkpoint_0"
  target = {"decoder/decoder_norm/scale": numbers(D)}
  inline = {"target/encoder/encoder_norm/scale": -numbers(D)}
  arrays = {f"target/{name}": array for name, array in target.items()}
  t5x_format.write(folder, arrays, inline, driver="gcs")
  target["encoder/encoder_norm/scale"] = -numbers(D)
  found = checkpoints.open_checkpoint(folder / "checkpoint")
  assert_equal(found.parameters(), target)
  assert found.step == 0


@pytest.mark.parametrize("packed", [True, False])
def test_what_the_trainer_saves_through_orbax_is_read(tmp_path, packed):
  scale = numbers(D)
  tree = {
    "target": {"decoder": {"decoder_norm": {"scale": scale}}},
    "state": {"step": np.int32(7), "param_states": {"empty": None}},
  }
  handler = ocp.PyTreeCheckpointHandler(use_ocdbt=packed)
  folder = tmp_path / "gs%3A%2F%2Fbucket" / "checkpoint_7"
  with ocp.Checkpointer(handler) as checkpointer:
    checkpointer.save(folder / "state", tree)
  for path in (folder.parent, checkpoint_sources.locate(folder.parent)):
    checkpoint = checkpoints.open_checkpoint(path)
    assert checkpoint.folder == folder
    assert checkpoint.step == 7
    assert_equal(checkpoint.parameters(), {"decoder/decoder_norm/scale": scale})


def test_of_several_checkpoints_the_newest_is_opened(tmp_path):
  for step in (9, 10):
    checkpoints.write_checkpoint(
      tmp_path, {"decoder/decoder_norm/scale": Tensor.of(numbers(D))}, step=step
    )
  assert checkpoints.open_checkpoint(tmp_path).step == 10
  # One that is not there as a whole does not count, as to T5X.
  (tmp_path / "checkpoint_11").mkdir()
  (tmp_path / "checkpoint_12.tmp-1732000000").mkdir()
  assert checkpoints.open_checkpoint(tmp_path).step == 10
  nine = checkpoints.open_checkpoint(tmp_path / "checkpoint_9")
  assert nine.step == 9


@pytest.mark.parametrize(
  ("architecture", "scanned"),
  [
    ("t5_1_1", False),
    ("t5_1_1", True),
    ("umt5", False),
    ("umt5", True),
    ("lm", False),
    ("gpt_2", False),
  ],
)
def test_what_is_written_is_read_again(tmp_path, architecture, scanned):
  model, _ = tiny_models.build(architecture)
  params = traverse_util.flatten_dict(
    tiny_models.random_parameters(model), sep="/"
  )
  tensors = {name: Tensor.of(array) for name, array in params.items()}
  checkpoints.write_checkpoint(tmp_path, tensors, scanned=scanned)
  found = checkpoints.open_checkpoint(tmp_path)
  assert_equal(found.parameters(), params)
  assert any("/decoder/decoder/" in name for name in found.tensors) == scanned


def test_kernels_of_scanned_layers_have_an_axis_of_heads(tmp_path):
  """As T5X's own network has them: [embed, layers, heads, kv]."""
  model, _ = tiny_models.build("umt5")
  params = traverse_util.flatten_dict(
    tiny_models.random_parameters(model), sep="/"
  )
  checkpoints.write_checkpoint(
    tmp_path, {n: Tensor.of(a) for n, a in params.items()}, scanned=True
  )
  there = checkpoints.open_checkpoint(tmp_path).tensors
  stack = "target/decoder/decoder"
  assert {
    name: there[f"{stack}/{name}"].shape
    for name in (
      "self_attention/query/kernel",
      "encoder_decoder_attention/out/kernel",
      "relpos_bias/rel_embedding",
      "mlp/wo/kernel",
      "pre_mlp_layer_norm/scale",
    )
  } == {
    "self_attention/query/kernel": (24, 2, 4, 8),
    "encoder_decoder_attention/out/kernel": (4, 2, 8, 24),
    "relpos_bias/rel_embedding": (4, 2, 32),
    "mlp/wo/kernel": (36, 2, 24),
    "pre_mlp_layer_norm/scale": (24, 2),
  }


def test_one_layer_is_in_memory_at_a_time_and_each_array_is_read_once():
  names = [f"decoder/layers_{i}/mlp/wi/kernel" for i in range(N)]
  reads = []

  def tensor(name, array):
    def read():
      reads.append(name)
      return array

    return Tensor(array.shape, array.dtype, read)

  (kernel,) = t5x_links.of_theirs({"decoder/decoder/mlp/wi/kernel": (D, N, F)})
  ours = {name: tensor(name, numbers(D, F)) for name in names}
  (theirs,) = links.to_theirs([kernel.link("")], ours).values()
  stacked = theirs.read()
  assert reads == names
  there = tensor("stacked", stacked)
  found = links.to_ours([kernel.link("")], {kernel.theirs: there})
  for name in names:
    np.testing.assert_array_equal(found[name].read(), numbers(D, F))
  assert reads == [*names, "stacked"]


@pytest.mark.parametrize(
  ("shape", "most"), [((7,), 7), ((1024, 24, 512), 5000), ((13, 17), 20)]
)
def test_chunks_divide_an_array_and_are_no_larger_than_asked(shape, most):
  chunk = t5x_index.chunk_shape(shape, most)
  assert np.prod(chunk) <= most
  assert all(size % part == 0 for size, part in zip(shape, chunk, strict=True))


class TestRefusals:
  def test_no_checkpoint(self, tmp_path):
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt"')
    assert not checkpoints.is_checkpoint(tmp_path)
    with pytest.raises(
      UserError, match="no T5X checkpoint in .*checkpoint_<st"
    ):
      checkpoints.open_checkpoint(tmp_path)

  def test_an_old_version(self, tmp_path):
    with pytest.raises(UserError, match="version 1; versions 2 and 3 of T5X"):
      read(tmp_path, {}, version=1)

  def test_a_damaged_index(self, tmp_path):
    read(tmp_path, {"decoder/decoder_norm/scale": numbers(D)})
    index = tmp_path / "checkpoint_5" / "checkpoint"
    index.write_bytes(index.read_bytes()[:40])
    with pytest.raises(UserError, match="checkpoint' is damaged"):
      checkpoints.open_checkpoint(tmp_path)

  @pytest.mark.parametrize(
    ("file", "sentence"),
    [
      (".zarray", "is missing or damaged"),
      # TensorStore reads zeros there.
      ("1", "is incomplete: files are missing"),
    ],
  )
  def test_an_array_of_which_a_file_is_missing(self, tmp_path, file, sentence):
    read(tmp_path, {"decoder/decoder_norm/scale": numbers(D)})
    arrays = tmp_path / "checkpoint_5" / "target.decoder.decoder_norm.scale"
    (arrays / file).unlink()
    with pytest.raises(
      UserError, match=f"'target/decoder/decoder_norm/scale' .* {sentence}"
    ):
      checkpoints.open_checkpoint(tmp_path)

  def test_a_file_of_an_array_that_is_cut_off(self, tmp_path):
    name = "decoder/decoder_norm/scale"
    (scale,) = read(tmp_path, {name: numbers(D)}).parameters().values()
    arrays = tmp_path / "checkpoint_5" / "target.decoder.decoder_norm.scale"
    (arrays / "0").write_bytes((arrays / "0").read_bytes()[:9])
    with pytest.raises(UserError, match=f"array 'target/{name}' .* damaged: "):
      scale.read()

  @pytest.mark.parametrize(
    ("contents", "message"),
    [
      ({"version": 3}, "has no parameters"),
      ({"version": 3, "optimizer": 5}, "has no parameters"),
      ({"version": 3, "optimizer": {"state": {}}}, "has no parameters"),
      (
        {"target": {"a": {"kvstore": 5}}},
        "not say where the array 'target/a'",
      ),
    ],
  )
  def test_an_index_of_something_else(self, tmp_path, contents, message):
    index = serialization.msgpack_serialize(contents)
    (tmp_path / "checkpoint").write_bytes(index)
    with pytest.raises(UserError, match=f"checkpoint' is damaged: .*{message}"):
      checkpoints.open_checkpoint(tmp_path)

  def test_other_variables_of_the_network(self, tmp_path):
    names = ("target/scale", "flax_mutables/batch_stats/mean")
    t5x_format.write(tmp_path, {}, dict.fromkeys(names, numbers(D)))
    with pytest.raises(UserError, match="'flax_mutables/.*neither a parameter"):
      checkpoints.open_checkpoint(tmp_path).parameters()

  def test_a_parameter_of_more_axes_than_ours_have(self, tmp_path):
    fused = {"encoder/layers_0/mlp/wi_fused/kernel": numbers(D, 2, F)}
    with pytest.raises(UserError, match=r"wi_fused/kernel.*\(6, 2, 10\)"):
      read(tmp_path, fused).parameters()

  def test_a_checkpoint_that_is_there(self, tmp_path):
    (tmp_path / "checkpoint_0").mkdir()
    with pytest.raises(UserError, match="checkpoint_0' is there already"):
      checkpoints.write_checkpoint(tmp_path, {})

  def test_layers_that_differ_cannot_be_scanned(self, tmp_path):
    tensors = {
      f"decoder/layers_{i}/mlp/wi/kernel": Tensor.of(numbers(D, F + i))
      for i in range(2)
    }
    with pytest.raises(UserError, match="the layers of this decoder differ"):
      checkpoints.write_checkpoint(tmp_path, tensors, scanned=True)

  def test_layers_without_a_bias_cannot_be_scanned(self, tmp_path):
    out = "decoder/layers_0/self_attention/out/kernel"
    tensors = {out: Tensor.of(numbers(H * K, D))}
    with pytest.raises(UserError, match="biases by distance, .* unscanned"):
      checkpoints.write_checkpoint(tmp_path, tensors, scanned=True)


def test_an_array_of_many_chunks(tmp_path, monkeypatch):
  """They are written a few at a time, also where two axes are cut."""
  monkeypatch.setattr(t5x_index, "CHUNK_BYTES", 48)
  array = np.arange(240, dtype=np.float32).reshape(20, 12)
  written = checkpoints.write_checkpoint(
    tmp_path, {"token_embedder/embedding": Tensor.of(array)}
  )
  (description,) = written.glob("*/.zarray")
  assert json.loads(description.read_text())["chunks"] == [1, 3]
  found = checkpoints.open_checkpoint(written).parameters()
  np.testing.assert_array_equal(found["token_embedder/embedding"].read(), array)


def test_a_full_disk_is_told_as_of_any_other_file(tmp_path, monkeypatch):
  """TensorStore raises a ValueError."""

  def full(shape, chunk):
    raise ValueError("RESOURCE_EXHAUSTED: Error writing local file: No space")

  monkeypatch.setattr(t5x_index, "_parts", full)
  with pytest.raises(OSError, match="No space left") as caught:
    checkpoints.write_checkpoint(
      tmp_path, {"token_embedder/embedding": Tensor.of(numbers(V, D))}
    )
  assert caught.value.errno == errno.ENOSPC
