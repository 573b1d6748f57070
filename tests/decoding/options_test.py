"""Options that contradict each other are refused with one sentence."""

import gin
import pytest

from transformer_zoo import config
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.errors import UserError

REFUSED = [
  ({"num_beams": 0}, "num_beams=0; it has to be at least 1"),
  ({"num_return": 0}, "num_return=0; it has to be at least 1"),
  ({"max_length": 0}, "max_length=0; it has to be at least 1"),
  ({"min_length": -1}, "min_length=-1; it has to be at least 0"),
  ({"temperature": -0.5}, "temperature=-0.5; it has to be at least 0"),
  (
    {"temperature": 1.0, "top_k": 0},
    "top_k=0; it has to be at least 1",
  ),
  (
    {"temperature": 1.0, "top_p": 1.5},
    "top_p=1.5; it has to be above 0 and at most 1",
  ),
  (
    {"temperature": 1.0, "typical_p": 0.0},
    "typical_p=0.0; it has to be above 0 and at most 1",
  ),
  (
    {"no_repeat_ngram_size": 0},
    "no_repeat_ngram_size=0; it has to be at least 1",
  ),
  (
    {"repetition_penalty": 0.0},
    "repetition_penalty=0.0; it has to be from 1e-30 to 1e+30, and 1 changes "
    "nothing",
  ),
  (
    {"repetition_penalty": 1e39},
    "repetition_penalty=1e+39; it has to be from 1e-30 to 1e+30, and 1 changes "
    "nothing",
  ),
  (
    {"num_beams": 4, "temperature": 0.7},
    "temperature=0.7 with num_beams=4: a beam search draws no tokens; leave "
    "one of the two out",
  ),
  (
    {"num_beams": 2, "num_return": 3},
    "num_return=3 is more than num_beams=2; a beam search has as many outputs "
    "as beams",
  ),
  (
    {"num_return": 2},
    "num_return=2, but greedy search has one output; set a temperature or "
    "num_beams",
  ),
  (
    {"top_k": 5},
    "top_k=5 limits what is drawn, but nothing is drawn; set a temperature "
    "(1.0 leaves the model's distribution) or leave it out",
  ),
  (
    {"num_beams": 4, "top_p": 0.9},
    "top_p=0.9 limits what is drawn, but nothing is drawn; set a temperature "
    "(1.0 leaves the model's distribution) or leave it out",
  ),
  (
    {"alpha": 0.6},
    "alpha=0.6 is a length penalty among beams, but num_beams is 1; set "
    "num_beams or leave alpha out",
  ),
  (
    {"renormalize": True},
    "renormalize changes how beams compare, but num_beams is 1; set num_beams "
    "or leave renormalize out",
  ),
  (
    {"num_beams": 4, "beam_rules": "transformer"},
    "there are no beam_rules 'transformer'; did you mean 'transformers'?",
  ),
  (
    {"num_beams": 4, "beam_rules": 7},
    "there are no beam_rules 7; allowed: 't5x', 'transformers'",
  ),
  (
    {"num_beams": 4, "beam_rules": "transformers", "early_stopping": "always"},
    "early_stopping='always'; allowed: False, True, 'never'",
  ),
  (
    {"num_beams": 4, "early_stopping": True},
    "early_stopping belongs to beam_rules='transformers'; the rules 't5x' stop "
    "where no beam can get better",
  ),
  ({"num_beams": "4"}, "num_beams='4'; it has to be a whole number"),
  ({"num_beams": None}, "num_beams=None; it has to be a whole number"),
  ({"temperature": "1"}, "temperature='1'; it has to be a finite number"),
  (
    {"temperature": float("inf")},
    "temperature=inf; it has to be a finite number",
  ),
  (
    {"num_beams": 2, "alpha": float("nan")},
    "alpha=nan; it has to be a finite number",
  ),
  (
    {"temperature": 1e-45},
    "temperature=1e-45; it has to be 0, which draws nothing, or from 1e-30 to "
    "1e+30",
  ),
  (
    {"temperature": 1e39},
    "temperature=1e+39; it has to be 0, which draws nothing, or from 1e-30 to "
    "1e+30",
  ),
  (
    {"temperature": 1.0, "seed": 2**63},
    "seed=9223372036854775808; it has to fit in 64 bits",
  ),
  ({"forced_end": "no"}, "forced_end='no'; it has to be True or False"),
  ({"end_ids": 5}, "end_ids=5; it has to be a list of ids"),
  ({"forced_prefix": "ab"}, "forced_prefix='ab'; it has to be a list of ids"),
  (
    {"num_beams": 2, "alpha": -50},
    "alpha=-50; it has to be from -10 to 10",
  ),
  (
    {"num_beams": 99_999, "max_length": 100_000},
    "num_beams=99999, num_return=1 and the largest length, 100000: outputs "
    "times length has to be below 2**31; choose smaller ones",
  ),
  (
    {"min_length": 9, "max_length": 8},
    "min_length=9 is more than the largest length, 8",
  ),
  (
    {"forced_prefix": (5, 6, 7), "max_length": 2},
    "forced_prefix has 3 ids, more than the largest length, 2",
  ),
]


@pytest.mark.parametrize(("options", "sentence"), REFUSED)
def test_refusals(options, sentence):
  with pytest.raises(UserError) as error:
    DecodingOptions(**options)
  assert str(error.value) == sentence


def test_length_of_the_targets_is_the_largest_unless_given():
  assert DecodingOptions().with_length(7).max_length == 7
  assert DecodingOptions(max_length=5).with_length(7).max_length == 5
  with pytest.raises(UserError, match="min_length=9 is more than"):
    DecodingOptions(min_length=9).with_length(8)


@pytest.mark.parametrize("kind", ["evaluate", "infer", "train"])
@pytest.mark.parametrize(
  ("name", "options"),
  [
    ("beam_4", DecodingOptions(num_beams=4, alpha=0.6)),
    ("nucleus", DecodingOptions(temperature=1.0, top_p=0.9)),
  ],
)
def test_shipped_options_reach_every_kind_of_run(kind, name, options):
  trained = kind == "train"
  config.load(
    [
      "architectures/t5_1_1.gin",
      "sizes/tiny.gin",
      "runs/finetune.gin",
      *([] if trained else [f"runs/{kind}.gin"]),
      f"decoding/{name}.gin",
    ],
    [
      "MIXTURE_OR_TASK_NAME='task'",
      *(["MODEL_DIR='run'"] if trained else ["CHECKPOINT_PATH='x'"]),
    ],
    root=kind,
  )
  bound = gin.get_bindings(kind)["decoding"]
  gin.clear_config()
  assert bound == options


@pytest.mark.parametrize("ids", [[5, 6], (5, 6)])
def test_ids_are_bound_as_a_list_or_a_tuple(ids):
  names = ("end_ids", "forbidden_ids", "forced_prefix")
  config.load(
    [], [f"DecodingOptions.{n}={ids!r}" for n in names], root="DecodingOptions"
  )
  bound = config.call("DecodingOptions")
  gin.clear_config()
  assert bound == DecodingOptions(**dict.fromkeys(names, (5, 6)))


@pytest.mark.parametrize("search", ["beam_4", "nucleus"])
def test_a_named_search_takes_the_place_of_a_directorys(search):
  """Whether the directory searches with beams or draws."""
  said = {
    "num_beams": 2,
    "beam_rules": "transformers",
    "early_stopping": True,
    "renormalize": True,
    "alpha": 2.0,
  }
  drawn = {"temperature": 0.5, "top_k": 50, "min_p": 0.1, "typical_p": 0.5}
  file = f"gin_configs/decoding/{search}.gin"
  for before in (said, drawn):
    gin.clear_config()
    for name, value in before.items():
      gin.bind_parameter(f"DecodingOptions.{name}", value)
    gin.parse_config_file(file)
    found = gin.get_configurable("DecodingOptions")()
    gin.clear_config()
    gin.parse_config_file(file)
    assert found == gin.get_configurable("DecodingOptions")()
    gin.clear_config()
