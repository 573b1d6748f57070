"""Switch Transformers: which layers have experts, and tensors by expert."""

from flax import traverse_util
import numpy as np
import pytest

from tests.golden import families
from transformer_zoo import config as zoo_config
from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import directory
from transformer_zoo.interop.huggingface import family_of
from transformer_zoo.interop.huggingface import writing
from transformer_zoo.tensors.lazy_tensors import Tensor

CONFIG = families.CONFIGS["switch_transformers"]


def test_experts_are_one_parameter_here_and_tensors_of_their_own_there(
  tmp_path,
):
  config, model, params, _ = families.setting("switch_transformers")
  family = family_of(config)
  flat = traverse_util.flatten_dict(params, sep="/")
  writing.write_directory(
    tmp_path,
    family,
    family.config(model),
    {name: Tensor.of(array) for name, array in flat.items()},
  )
  found = directory.open_directory(tmp_path)
  name = "decoder.block.1.layer.2.mlp.experts.expert_2.wi.weight"
  kernel = flat["decoder/layers_1/mlp/expert/wi/kernel"]
  np.testing.assert_array_equal(found.tensors[name].read(), kernel[2].T)
  again = found.parameters()
  assert again.keys() == flat.keys()
  for name, array in flat.items():
    np.testing.assert_array_equal(again[name].read(), array, err_msg=name)


@pytest.mark.parametrize(
  ("sparse", "places"), [(6, (1, 3, 5, 7, 9, 11)), (3, (1, 5, 9)), (12, None)]
)
def test_layers_with_experts(sparse, places):
  config = families.with_layers(CONFIG, 12) | {
    "num_sparse_encoder_layers": sparse
  }
  model = families.build(config)
  assert getattr(model.encoder.layer_stack, "places", None) == places
  described = family_of(config).config(model)
  assert described["num_sparse_encoder_layers"] == sparse


@pytest.mark.parametrize(
  ("binding", "said"),
  [
    ("EVALUATION_CAPACITY_FACTOR=2.0", "a fixed number of places"),
    ("decoder/with_other_mlp.places=(2,)", "from the second on, and not in"),
    ("Experts.router=@TopTwoRouter()", "send a token to one expert"),
    ("Experts.expert=@experts.narrowed()", "like the networks of other layers"),
  ],
)
def test_what_theirs_cannot_compute_is_refused(binding, said):
  architecture = family_of(CONFIG).architecture(CONFIG)
  more = [
    "TopTwoRouter.num_experts=4",
    "experts.narrowed.mlp=%MLP",
    "experts.narrowed.by=2",
  ]
  model = zoo_config.build(
    "MODEL",
    architecture.gin_files,
    [*architecture.as_overrides(), *more, binding],
    allow_unused=True,
  )
  with pytest.raises(UserError, match=said):
    family_of(CONFIG).config(model)
