"""Values in a config.json: of other types, neutral ones, two that disagree."""

import functools
import itertools
import json

import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import directory
from transformer_zoo.interop.huggingface import FAMILIES
from transformer_zoo.interop.huggingface import family_of

LLAMA_3 = {
  "rope_type": "llama3",
  "factor": 8.0,
  "low_freq_factor": 1.0,
  "high_freq_factor": 4.0,
}
LINEAR = {"rope_type": "linear", "factor": 2.0}
FULL = ["full_attention"] * 32
SLIDING = ["sliding_attention"] * 32


def of_near_layers(**table):
  """Attributes of a Gemma 3 whose layers with a window turn so."""
  return {"rope_parameters": {"sliding_attention": table}}


def bindings(kind, **config):
  config = {"model_type": kind, **config}
  return family_of(config).architecture(config).bindings


def refusal(kind, **config) -> str:
  with pytest.raises(UserError) as error:
    bindings(kind, **config)
  return str(error.value)


@pytest.mark.parametrize(
  ("kind", "name", "value", "takes"),
  [
    ("llama", "rope_scaling", "linear", "a table or null"),
    ("llama", "hidden_act", ["silu"], "a text"),
    ("llama", "vocab_size", None, "a whole number"),
    ("llama", "num_hidden_layers", "32", "a whole number"),
    ("llama", "head_dim", "128", "a whole number or null"),
    ("llama", "tie_word_embeddings", "false", "true or false"),
    ("qwen2", "layer_types", 3, "a list or null"),
    ("openai-gpt", "afn", None, "a text"),
    ("openai-gpt", "n_positions", [512], "a whole number"),
    ("openai-gpt", "tie_word_embeddings", 1, "true or false"),
    ("gpt2", "n_inner", {}, "a whole number or null"),
    ("gpt2", "scale_attn_weights", "true", "true or false"),
    ("mistral", "sliding_window", "4096", "a whole number or null"),
    ("mistral", "rope_parameters", [], "a table or null"),
    ("mistral", "num_key_value_heads", 8.0, "a whole number or null"),
    ("qwen2", "use_sliding_window", 1, "true or false or null"),
    ("qwen2", "rms_norm_eps", 1e39, "a number"),
    ("t5", "feed_forward_proj", None, "a text"),
    ("t5", "num_decoder_layers", "6", "a whole number or null"),
    ("t5", "pad_token_id", "0", "a whole number from -1 to 2147483647 or null"),
    ("bert", "num_labels", 0, "a whole number from 1 to 2147483647 or null"),
    ("bert", "architectures", "Bert", "a list or null"),
    ("gpt2", "n_layer", True, "a whole number"),
    ("gpt_neo", "resid_dropout", "0", "a number"),
    ("bloom", "n_head", None, "a whole number"),
    ("t5", "d_model", 32.0, "a whole number"),
    ("t5", "layer_norm_epsilon", float("nan"), "a number"),
    ("t5", "dropout_rate", float("inf"), "a number"),
    ("llama", "rope_theta", float("nan"), "a number or null"),
    ("bert", "type_vocab_size", "2", "a whole number"),
    ("roberta", "layer_norm_eps", None, "a number"),
    ("xlm-roberta", "classifier_dropout", "0.1", "a number or null"),
    ("distilbert", "activation", 1, "a text"),
    ("distilbert", "dim", 32.0, "a whole number"),
  ],
)
def test_values_of_other_types_are_named(kind, name, value, takes):
  assert refusal(kind, **{name: value}) == (
    f"config.json of a {kind} model has {name}={value!r}; it takes {takes}"
  )


def test_they_are_refused_before_any_file_is_looked_at(tmp_path):
  said = {"model_type": "llama", "tie_word_embeddings": "false"}
  (tmp_path / "config.json").write_text(json.dumps(said))
  with pytest.raises(UserError, match="it takes true or false"):
    directory.open_directory(tmp_path)


@pytest.mark.parametrize(
  ("kind", "name", "parameter"),
  [
    ("llama", "attention_dropout", "attention/Dropout.rate"),
    ("gpt2", "resid_pdrop", "DROPOUT_RATE"),
    ("gpt_neo", "embed_dropout", "embedding/Dropout.rate"),
    ("t5", "dropout_rate", "DROPOUT_RATE"),
    ("marian", "dropout", "DROPOUT_RATE"),
    ("distilbert", "dropout", "DROPOUT_RATE"),
    ("distilbert", "attention_dropout", "attention/Dropout.rate"),
    ("xlnet", "dropout", "DROPOUT_RATE"),
  ],
)
def test_no_dropout_is_none(kind, name, parameter):
  assert bindings(kind, **{name: None})[parameter] == 0.0


def test_an_end_that_is_an_empty_list():
  assert bindings("llama", eos_token_id=[])["DecoderOnly.pad_id"] == 0


@pytest.mark.parametrize(
  ("kind", "name"),
  [
    ("t5", "num_heads"),
    ("t5", "d_model"),
    ("umt5", "num_layers"),
    ("marian", "decoder_attention_heads"),
    ("openai-gpt", "n_head"),
    ("gpt2", "num_attention_heads"),
    ("gpt_neo", "num_heads"),
    ("bloom", "n_embed"),
    ("llama", "num_attention_heads"),
    ("llama", "num_key_value_heads"),
    ("mistral", "num_attention_heads"),
    ("mistral", "num_hidden_layers"),
    ("mistral", "head_dim"),
    ("qwen2", "num_key_value_heads"),
    ("qwen2", "sliding_window"),
    ("bert", "hidden_size"),
    ("roberta", "type_vocab_size"),
    ("distilbert", "n_heads"),
  ],
)
@pytest.mark.parametrize("value", [0, -1, 2**31, 10**30])
def test_whole_numbers_that_no_model_has(kind, name, value):
  assert refusal(kind, **{name: value}) == (
    f"config.json of a {kind} model has {name}={value}; it takes a whole "
    "number from 1 to 2147483647"
  )


@pytest.mark.parametrize(
  ("kind", "name"),
  [
    ("openai-gpt", "n_head"),
    ("gpt2", "n_head"),
    ("gpt_neo", "num_heads"),
    ("bloom", "n_head"),
    ("marian", "decoder_attention_heads"),
    ("bert", "num_attention_heads"),
    ("distilbert", "n_heads"),
  ],
)
@pytest.mark.parametrize("heads", [7, 10**6])
def test_heads_that_do_not_divide_the_width(kind, name, heads):
  """As their classes refuse them."""
  assert refusal(kind, **{name: heads}).endswith(f"no multiple of {heads}")


def _nested(depth):
  return functools.reduce(lambda value, _: [value], range(depth), [])


STRANGE = [
  *(None, True, False, 0, 1, -1, 7, 10**12, 10**400, 0.5, -1.0, 1e308),
  *(float("nan"), float("inf"), "", "12", "\0", "x" * 10**5),
  *([], [1], ["full_attention"], [[["global"], 10**12]], _nested(200)),
  *({}, {"a": {"a": 1}}, {"rope_type": []}, {"rope_type": "linear"}),
  *({"rope_type": "linear", "factor": x} for x in (0, -1, "2", 10**400)),
  {"rope_type": "llama3", "factor": 8, "original_max_position_embeddings": 0},
]
# Of any family; what another has is refused by name.
NAMES = """
activation activation_function architectures afn attention_bias
attention_layers attention_types
attn_pdrop d_ff d_kv d_model decoder_attention_heads decoder_layers
decoder_vocab_size dropout_rate embd_pdrop encoder_layers eos_token_id
feed_forward_proj head_dim hidden_act hidden_size id2label intermediate_size
is_decoder is_encoder_decoder layer_norm_eps layer_norm_epsilon layer_types
max_position_embeddings
max_window_layers mlp_bias n_embd n_head n_inner n_layer n_positions num_heads
num_hidden_layers num_key_value_heads num_layers pad_token_id pruned_heads
quantization_config resid_pdrop rms_norm_eps rope_parameters rope_scaling
rope_theta scale_attn_weights sliding_window tie_word_embeddings
type_vocab_size use_sliding_window vocab_size window_size
""".split()


@pytest.mark.parametrize("kind", [family.kind for family in FAMILIES])
def test_strange_values_end_in_one_sentence(kind):
  """Whatever an attribute is: it is understood, or refused by its name."""
  refused = 0
  for name, value in itertools.product(NAMES, STRANGE):
    config = {"model_type": kind, name: value}
    try:
      family_of(config).num_layers(config)
      family_of(config).architecture(config)
    except UserError as error:
      refused += 1
      assert "\n" not in str(error), name
      assert len(str(error)) < 1000, name
  assert refused > len(NAMES) * len(STRANGE) / 2


def test_whole_numbers_in_the_place_of_real_ones():
  """Arrays of float32 take no whole number of more than 32 bits."""
  epsilon = bindings("llama", rms_norm_eps=10**12)["RMSNorm.epsilon"]
  assert repr(epsilon) == "1000000000000.0"


def test_numbers_that_no_float_holds():
  assert refusal("t5", dropout_rate=10**400).endswith("; it takes a number")
  assert "pad_token_id=4294967296; it takes" in refusal(
    "gpt2", pad_token_id=2**32
  )


@pytest.mark.parametrize(
  ("types", "sentence"),
  [
    ([[["global"], 10**12]], "has attention_types of 1000000000000 layers and"),
    ([[["global", "local"], 11]], "has attention_types of 22 layers and num_l"),
    ([["global", 24]], "has ['global', 24] in attention_types; it takes lists"),
    ([[["global"], "24"]], "has [['global'], '24'] in attention_types; it tak"),
    ([24], "has 24 in attention_types; it takes lists of a list of names and"),
    (
      [[[["global"]], 24]],
      "has attention_types=['global'], which is not built",
    ),
  ],
)
def test_attention_types_that_are_none(types, sentence):
  assert sentence in refusal("gpt_neo", attention_types=types)


def test_attention_layers_overrule_attention_types():
  """As in `transformers` (tests/oracles/families_test.py)."""
  kinds = ["local"] + ["global"] * 23
  windows = bindings("gpt_neo", attention_layers=kinds)["Windows.sizes"]
  assert windows == (256,) + (None,) * 23
  types = [[["local"], 1], [["global"], 23]]
  assert bindings("gpt_neo", attention_types=types)["Windows.sizes"] == windows
  for kinds in ([], ["local"]):
    assert refusal("gpt_neo", attention_layers=kinds) == (
      f"config.json of a gpt_neo model has attention_layers of {len(kinds)} "
      "layers and num_layers=24; they must agree"
    )
  assert refusal("gpt_neo", attention_layers=None).endswith("it takes a list")


@pytest.mark.parametrize(
  ("kind", "config"),
  [
    ("llama", {"sliding_window": None, "use_sliding_window": False}),
    ("llama", {"layer_types": FULL}),
    ("mistral", {"attention_bias": False, "mlp_bias": False}),
    ("qwen2", {"attention_bias": False, "mlp_bias": False}),
    ("qwen2", {"layer_types": FULL}),
    ("gemma2", {"hidden_act": "relu", "sliding_window_pattern": 2}),
    ("gemma2", {"use_bidirectional_attention": False}),
    ("gemma3_text", {"_sliding_window_pattern": 6}),
    ("gemma3_text", {"layer_types": None, "sliding_window_pattern": 6}),
    ("gemma3_text", {"rope_theta": 1e6, "rope_local_base_freq": 1e4}),
    ("gemma3_text", of_near_layers(rope_theta=1e4)),
    ("t5gemma2", {"encoder": {"vision_config": {"a": 1}}}),
    ("t5gemma", {"encoder": None, "decoder": {}, "vocab_size": 7}),
    ("t5gemma", {"decoder": {"cross_attention_hidden_size": 9}}),
    ("t5gemma", {"decoder": {"dropout_rate": 0.1, "tie_word_embeddings": 0}}),
  ],
)
def test_neutral_values_change_nothing(kind, config):
  assert bindings(kind, **config) == bindings(kind)


def test_a_mistral_without_a_window():
  """Its class reads sliding_window alone."""
  alone = bindings("mistral", sliding_window=None)
  assert alone["Windows.sizes"] == (None,)
  more = {"use_sliding_window": False, "layer_types": FULL}
  assert bindings("mistral", sliding_window=None, **more) == alone
  for name, value in more.items():
    assert f"has sliding_window=4096 and {name}={value!r}, and its" in refusal(
      "mistral", **{name: value}
    )


@pytest.mark.parametrize(
  ("kind", "config", "sentence"),
  [
    ("qwen2", {"attention_bias": True}, "attention_bias=True, which is not"),
    ("mistral", {"attention_bias": True}, "attention_bias=True, which is not"),
    ("llama", {"sliding_window": 9}, "sliding_window=9, which is not built"),
    ("llama", {"layer_types": SLIDING}, "allowed: 'full_attention'"),
    (
      "mistral",
      {"layer_types": SLIDING, "sliding_window": None},
      "allowed: 'full_attention'",
    ),
    ("qwen2", {"layer_types": FULL + FULL}, "layer_types; there is one for ea"),
    ("gemma2", {"layer_types": FULL + FULL}, "layer_types; there is one for e"),
    ("gemma2", {"sliding_window": None}, "sliding_window=None; it takes a who"),
    ("gemma2", {"sliding_window_pattern": 3}, "sliding_window_pattern=3, whic"),
    ("gemma2", {"use_bidirectional_attention": True}, "allowed: None, False"),
    ("t5gemma2", {"tie_word_embeddings": False}, "which is not built here"),
    (
      "t5gemma2",
      {"encoder": {"text_config": 3}},
      "has text_config=3; it takes",
    ),
    ("t5gemma2", {"encoder": {"deep": 1}}, "has the attribute 'deep' (1)"),
    (
      "t5gemma2",
      {"decoder": {"hidden_size": 24}},
      "has hidden_size=2304 of its encoder and 24 of its decoder; here both",
    ),
    ("t5gemma", {"encoder": 3}, "config.json of a t5gemma model has encoder=3"),
    (
      "t5gemma",
      {"decoder": {"strange": 1}},
      "config.json of a t5gemma (decoder) model has the attribute 'strange'",
    ),
    (
      "t5gemma",
      {"encoder": {"rms_norm_eps": 0.1}},
      "has rms_norm_eps=0.1 of its encoder and 1e-06 of its decoder; here both",
    ),
    ("t5gemma", {"encoder": {"model_type": "gemma2"}}, "encoder's model_type="),
    ("t5gemma", {"is_encoder_decoder": False}, "which is not built here; allo"),
    (
      "gemma3_text",
      {"attn_logit_softcapping": 50.0},
      "attn_logit_softcapping=50.0, which is not built here; allowed: None",
    ),
    (
      "gemma3_text",
      {"rope_parameters": {"rope_type": "default"}},
      "rope_parameters='rope_type', which is not built here; allowed: 'full_at",
    ),
    (
      "gemma3_text",
      of_near_layers(rope_type="linear", factor=8.0),
      "attribute of sliding_attention='factor', which is not built here",
    ),
    (
      "gemma3_text",
      of_near_layers(rope_type="linear"),
      "sliding_attention rope_type='linear', which is not built here",
    ),
    (
      "gemma3_text",
      {"rope_local_base_freq": 30.0, **of_near_layers(rope_theta=20.0)},
      "rope_local_base_freq=30.0, which is not built here; allowed: 20.0",
    ),
  ],
)
def test_what_is_not_neutral_is_refused(kind, config, sentence):
  assert sentence in refusal(kind, **config)


def test_old_and_new_attributes_of_rotary_positions_may_agree():
  both = {
    "rope_theta": 5e5,
    "rope_scaling": {"type": "linear", "factor": 2},
    "rope_parameters": {**LINEAR, "rope_theta": 500000},
  }
  found = bindings("llama", **both)
  assert (found["Rotary.theta"], found["Rotary.stretch"]) == (5e5, 2.0)
  del both["rope_scaling"]
  assert bindings("llama", **both) == found


@pytest.mark.parametrize(
  "config",
  [
    {"rope_scaling": LINEAR, "rope_parameters": {"rope_type": "default"}},
    {"rope_scaling": LINEAR, "rope_parameters": {**LINEAR, "factor": 4.0}},
    {"rope_theta": 5e5, "rope_parameters": {"rope_theta": 1e4}},
    {"rope_theta": 5e5, "rope_scaling": {**LINEAR, "rope_theta": 1e4}},
  ],
)
def test_old_and_new_attributes_that_disagree(config):
  """`transformers` 4 reads the old ones, 5 all in an order of its own."""
  said = " and ".join(
    f"{name}={config[name]!r}"
    for name in ("rope_theta", "rope_scaling", "rope_parameters")
    if name in config
  )
  assert refusal("llama", **config) == (
    f"config.json of a llama model says of its rotary positions {said}, which "
    "disagree; leave what the model was trained with"
  )


def test_the_length_that_positions_were_trained_with():
  """As `transformers` has it, the model's where nothing is said; never null."""
  longest = {"max_position_embeddings": 9000}
  found = bindings("llama", rope_scaling=LLAMA_3, **longest)
  assert found["Rotary.trained_length"] == 9000
  name = "original_max_position_embeddings"
  assert refusal("llama", rope_scaling={**LLAMA_3, name: None}, **longest) == (
    f"config.json of a llama model has {name}=None; it takes a number"
  )
