"""GPT with heads against `OpenAIGPTDoubleHeadsModel` of transformers."""

import functools

import gin
import jax
import numpy as np
import pytest

from tests import programs
from tests import tiny_models
from transformer_zoo import config
from transformer_zoo.objectives import encoder

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

VOCABULARY, WIDTH, LAYERS, HEADS, POSITIONS = 48, 24, 2, 4, 16
START, DELIMITER, EXTRACT = range(VOCABULARY, VOCABULARY + 3)
# Two choices of one question, as streams of tokens.
CHOICES = [
  [START, 5, 6, 7, DELIMITER, 8, 9, EXTRACT],
  [START, 5, 6, 7, DELIMITER, 10, 11, EXTRACT],
]


@pytest.fixture(autouse=True)
def clean():
  yield
  gin.clear_config()


def make_model(head):
  sizes = {
    **{"EMBED_DIM": WIDTH, "MLP_DIM": 4 * WIDTH, "NUM_HEADS": HEADS},
    **{"HEAD_DIM": WIDTH // HEADS, "NUM_DECODER_LAYERS": LAYERS},
    **{"VOCAB_SIZE": VOCABULARY, "MAX_POSITIONS": POSITIONS},
  }
  config.load(
    [
      "architectures/gpt_1.gin",
      f"heads/{head}.gin",
      *("parts/gpt_heads.gin", "parts/next_tokens.gin"),
    ],
    [f"{name}={value}" for name, value in sizes.items()],
    root="MODEL",
  )
  return config.value("MODEL")


def params_of(reference):
  """The parameters of the reference under our names."""
  there = {n: t.detach().numpy() for n, t in reference.state_dict().items()}
  table = there["transformer.tokens_embed.weight"]

  def dense(name):
    return {"kernel": there[f"{name}.weight"], "bias": there[f"{name}.bias"]}

  def norm(name):
    return {"scale": there[f"{name}.weight"], "bias": there[f"{name}.bias"]}

  layers = {}
  for i in range(LAYERS):
    name = f"transformer.h.{i}"
    joined = dense(f"{name}.attn.c_attn")
    attention = {
      each: {part: np.split(joined[part], 3, axis=-1)[j] for part in joined}
      for j, each in enumerate(("query", "key", "value"))
    }
    layers[f"layers_{i}"] = {
      "self_attention": {**attention, "out": dense(f"{name}.attn.c_proj")},
      "mlp": {
        "wi": dense(f"{name}.mlp.c_fc"),
        "wo": dense(f"{name}.mlp.c_proj"),
      },
      "post_self_attention_layer_norm": norm(f"{name}.ln_1"),
      "post_mlp_layer_norm": norm(f"{name}.ln_2"),
    }
  summary = "multiple_choice_head.summary"
  return {
    "token_embedder": {
      "embedding": table[:VOCABULARY],
      "new_embedding": table[VOCABULARY:],
    },
    "encoder": {
      "position_embedder": {
        "pos_embedding": there["transformer.positions_embed.weight"]
      },
      **layers,
    },
    "heads": {
      "choice": {
        "out": {
          "kernel": there[f"{summary}.weight"].T,
          "bias": there[f"{summary}.bias"],
        }
      }
    },
  }


def test_choices_and_the_auxiliary_loss_are_the_reference_s():
  torch.manual_seed(0)
  reference = transformers.OpenAIGPTDoubleHeadsModel(
    transformers.OpenAIGPTConfig(
      vocab_size=VOCABULARY + 3,
      n_positions=POSITIONS,
      n_embd=WIDTH,
      n_layer=LAYERS,
      n_head=HEADS,
      afn="gelu",
      initializer_range=0.3,
      summary_first_dropout=0.0,
    )
  ).eval()
  ids = torch.tensor([CHOICES])
  with torch.no_grad():
    expected = reference(
      input_ids=ids,
      mc_token_ids=torch.tensor([[7, 7]]),
      labels=ids,
      mc_labels=torch.tensor([1]),
    )
  length = len(CHOICES[0])
  targets, weights = np.zeros((2, 1, 2 * length), np.int32)
  targets[0, -1] = 1
  weights[0, [length - 1, -1]] = 1
  batch = {
    "encoder_input_tokens": np.array(CHOICES, np.int32).reshape(1, -1),
    "encoder_target_tokens": targets,
    "encoder_loss_weights": weights,
    "encoder_segment_ids": np.repeat([[1, 2]], length, axis=1),
    "encoder_positions": np.tile(np.arange(length), 2)[None],
    "encoder_predicted_places": np.array([[length - 1, 2 * length - 1]]),
  }
  model = make_model("choice")
  objective = encoder.EncoderObjective(
    losses=(encoder.ChoiceLoss(),), auxiliary=(encoder.NextTokenLoss(),)
  )
  terms = jax.jit(functools.partial(objective, model))(
    params_of(reference), batch
  )
  choice, tokens = terms["choice"], terms["tokens"]
  np.testing.assert_allclose(
    choice.total / choice.weight, expected.mc_loss, rtol=2e-5
  )
  assert tokens.weight == 2 * (length - 1)
  np.testing.assert_allclose(
    tokens.total / tokens.weight, expected.loss, rtol=2e-5
  )
  assert tokens.scale == 0.5


def test_the_vectors_of_both_orders_are_added_before_the_head():
  model = make_model("classes")
  params = tiny_models.random_parameters(model)
  first, second = (np.array([row], np.int32) for row in CHOICES)
  both = {
    "encoder_input_tokens": np.concatenate([first, second], axis=1),
    "encoder_segment_ids": np.repeat([[1, 2]], 8, axis=1),
    "encoder_positions": np.tile(np.arange(8), 2)[None],
    "encoder_other_order": np.array([7]),
  }

  def hidden(batch):
    variables = {"params": params}
    return np.asarray(programs.apply(model, variables, batch, method="hidden"))

  alone = [hidden({"encoder_input_tokens": row}) for row in (first, second)]
  found = hidden(both)
  np.testing.assert_allclose(
    found[0, -1], alone[0][0, -1] + alone[1][0, -1], rtol=1e-4, atol=1e-5
  )
  np.testing.assert_allclose(
    found[0, :-1],
    np.concatenate([alone[0][0], alone[1][0, :-1]]),
    rtol=1e-4,
    atol=1e-5,
  )
  none = hidden({**both, "encoder_other_order": np.array([-1])})
  np.testing.assert_allclose(none[0, -1], alone[1][0, -1], rtol=1e-4, atol=1e-5)
