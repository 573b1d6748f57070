"""Encoders as their config.json has them: every class, every option.

tests/oracles/pytorch/encoders_test.py compares each live with its class of
`transformers`; what RECORDED computed is compared without PyTorch by
tests/architectures/encoders_golden_test.py. No two sizes of a model agree.
"""

import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.golden import families
from tests.golden import variants

_BERT = {
  "model_type": "bert",
  "vocab_size": 45,
  "hidden_size": 30,
  "num_hidden_layers": 3,
  "num_attention_heads": 5,
  "intermediate_size": 44,
  "max_position_embeddings": 29,
  "type_vocab_size": 3,
  "pad_token_id": 0,
}
_ROBERTA = {
  **_BERT,
  "model_type": "roberta",
  "type_vocab_size": 1,
  "pad_token_id": 1,
  "layer_norm_eps": 1e-5,
}
_DISTILBERT = {
  "model_type": "distilbert",
  "vocab_size": 45,
  "dim": 30,
  "n_layers": 2,
  "n_heads": 3,
  "hidden_dim": 44,
  "max_position_embeddings": 29,
  "pad_token_id": 0,
}
_DEBERTA = {
  "model_type": "deberta",
  "vocab_size": 45,
  "hidden_size": 30,
  "num_hidden_layers": 3,
  "num_attention_heads": 5,
  "intermediate_size": 44,
  "max_position_embeddings": 29,
  "relative_attention": True,
  # Fewer than tokens: the first and the last row stand for several distances.
  "max_relative_positions": 13,
  "position_biased_input": False,
  "pos_att_type": ["c2p", "p2c"],
  "pad_token_id": 0,
}
_DEBERTA_2 = {
  **_DEBERTA,
  "model_type": "deberta-v2",
  "position_buckets": 6,
  "max_relative_positions": 19,
  "norm_rel_ebd": "layer_norm",
  "share_att_key": True,
}
_MPNET = {
  "model_type": "mpnet",
  "vocab_size": 45,
  "hidden_size": 30,
  "num_hidden_layers": 3,
  "num_attention_heads": 5,
  "intermediate_size": 44,
  "max_position_embeddings": 29,
  "pad_token_id": 1,
}
_XLNET = {
  "model_type": "xlnet",
  "vocab_size": 45,
  "d_model": 30,
  "n_layer": 3,
  "n_head": 5,
  "d_inner": 44,
  "pad_token_id": 2,
}
_MODERNBERT = {
  "model_type": "modernbert",
  "vocab_size": 45,
  "hidden_size": 30,
  "num_hidden_layers": 5,
  "num_attention_heads": 5,
  "intermediate_size": 44,
  "local_attention": 6,
  "global_rope_theta": 500.0,
  "local_rope_theta": 20.0,
  "pad_token_id": 2,
}
_ALBERT = {
  **_BERT,
  "model_type": "albert",
  "embedding_size": 14,
  "num_hidden_layers": 4,
}
_BART = {
  "model_type": "bart",
  "vocab_size": 45,
  "d_model": 30,
  "encoder_layers": 3,
  "encoder_ffn_dim": 44,
  "encoder_attention_heads": 5,
  "decoder_layers": 2,
  "decoder_ffn_dim": 40,
  "decoder_attention_heads": 6,
  "max_position_embeddings": 29,
  "pad_token_id": 1,
  "eos_token_id": 2,
}
_ELECTRA = {
  **_BERT,
  "model_type": "electra",
  "embedding_size": 14,
}


def _labels(number: int) -> dict[str, Any]:
  return {"id2label": {str(i): f"LABEL_{i}" for i in range(number)}}


def _of(config, name, **changes) -> dict[str, Any]:
  return {**config, "architectures": [name], **changes}


CONFIGS: dict[str, dict[str, Any]] = {
  "bert": _of(_BERT, "BertModel"),
  "bert_masked": _of(
    _BERT, "BertForMaskedLM", hidden_act="gelu_new", layer_norm_eps=1e-3
  ),
  "bert_pre_training": _of(_BERT, "BertForPreTraining"),
  "bert_untied": _of(
    _BERT,
    "BertForPreTraining",
    hidden_act="silu",
    tie_word_embeddings=False,
  ),
  "bert_next_sentence": _of(_BERT, "BertForNextSentencePrediction"),
  "bert_classes": _of(
    _BERT, "BertForSequenceClassification", hidden_act="relu", **_labels(4)
  ),
  "bert_number": _of(_BERT, "BertForSequenceClassification", **_labels(1)),
  "bert_tags": _of(_BERT, "BertForTokenClassification", **_labels(7)),
  "bert_spans": _of(_BERT, "BertForQuestionAnswering"),
  "bert_choice": _of(_BERT, "BertForMultipleChoice"),
  "roberta": _of(_ROBERTA, "RobertaModel"),
  "roberta_masked": _of(_ROBERTA, "RobertaForMaskedLM", hidden_act="relu"),
  "roberta_zero_types": _of(
    _ROBERTA, "RobertaForMaskedLM", zero_token_types=True, pad_token_id=3
  ),
  "roberta_classes": _of(
    _ROBERTA, "RobertaForSequenceClassification", **_labels(3)
  ),
  "roberta_number": _of(
    _ROBERTA, "RobertaForSequenceClassification", **_labels(1)
  ),
  "roberta_tags": _of(_ROBERTA, "RobertaForTokenClassification", **_labels(7)),
  "roberta_spans": _of(_ROBERTA, "RobertaForQuestionAnswering"),
  "roberta_choice": _of(_ROBERTA, "RobertaForMultipleChoice"),
  "xlm_roberta_masked": _of(
    _ROBERTA,
    "XLMRobertaForMaskedLM",
    model_type="xlm-roberta",
    tie_word_embeddings=False,
  ),
  "xlm_roberta_classes": _of(
    _ROBERTA,
    "XLMRobertaForSequenceClassification",
    model_type="xlm-roberta",
    **_labels(3),
  ),
  "xlm_roberta_tags": _of(
    _ROBERTA,
    "XLMRobertaForTokenClassification",
    model_type="xlm-roberta",
    **_labels(7),
  ),
  "distilbert": _of(_DISTILBERT, "DistilBertModel"),
  "distilbert_masked": _of(
    _DISTILBERT, "DistilBertForMaskedLM", activation="relu"
  ),
  "distilbert_untied": _of(
    _DISTILBERT, "DistilBertForMaskedLM", tie_word_embeddings=False
  ),
  "distilbert_classes": _of(
    _DISTILBERT, "DistilBertForSequenceClassification", **_labels(3)
  ),
  "distilbert_tags": _of(
    _DISTILBERT, "DistilBertForTokenClassification", **_labels(7)
  ),
  "distilbert_spans": _of(_DISTILBERT, "DistilBertForQuestionAnswering"),
  "distilbert_choice": _of(_DISTILBERT, "DistilBertForMultipleChoice"),
  "deberta": _of(_DEBERTA, "DebertaModel"),
  "deberta_masked": _of(_DEBERTA, "DebertaForMaskedLM", hidden_act="relu"),
  "deberta_positions": _of(
    _DEBERTA,
    "DebertaForMaskedLM",
    legacy=False,
    position_biased_input=True,
    max_relative_positions=-1,
  ),
  "deberta_content_to_position": _of(
    _DEBERTA, "DebertaForQuestionAnswering", pos_att_type="c2p"
  ),
  "deberta_position_to_content": _of(
    _DEBERTA,
    "DebertaForTokenClassification",
    pos_att_type=["p2c"],
    **_labels(7),
  ),
  "deberta_contents": _of(
    _DEBERTA,
    "DebertaModel",
    relative_attention=False,
    pos_att_type=None,
    position_biased_input=True,
  ),
  "deberta_classes": _of(
    _DEBERTA, "DebertaForSequenceClassification", **_labels(4)
  ),
  "deberta_2": _of(_DEBERTA_2, "DebertaV2Model"),
  "deberta_2_masked": _of(_DEBERTA_2, "DebertaV2ForMaskedLM", legacy=False),
  "deberta_2_untied": _of(
    _DEBERTA_2, "DebertaV2ForMaskedLM", tie_word_embeddings=False
  ),
  "deberta_2_convolution": _of(
    _DEBERTA_2,
    "DebertaV2ForMaskedLM",
    conv_kernel_size=3,
    conv_act="gelu",
    position_biased_input=True,
  ),
  "deberta_2_own_projections": _of(
    _DEBERTA_2,
    "DebertaV2Model",
    share_att_key=False,
    norm_rel_ebd="none",
    position_buckets=-1,
    max_relative_positions=-1,
  ),
  "deberta_2_position_to_content": _of(
    _DEBERTA_2, "DebertaV2Model", share_att_key=False, pos_att_type="p2c"
  ),
  "deberta_2_contents": _of(
    _DEBERTA_2, "DebertaV2Model", relative_attention=False, pos_att_type=[]
  ),
  "deberta_2_number": _of(
    _DEBERTA_2,
    "DebertaV2ForSequenceClassification",
    pooler_hidden_act="tanh",
    **_labels(1),
  ),
  "deberta_2_tags": _of(
    _DEBERTA_2, "DebertaV2ForTokenClassification", **_labels(7)
  ),
  "deberta_2_spans": _of(_DEBERTA_2, "DebertaV2ForQuestionAnswering"),
  "deberta_2_choice": _of(_DEBERTA_2, "DebertaV2ForMultipleChoice"),
  "xlnet": _of(_XLNET, "XLNetModel"),
  # In two streams.
  "xlnet_tokens": _of(
    _XLNET, "XLNetLMHeadModel", ff_activation="relu", clamp_len=7
  ),
  "xlnet_untied": _of(
    _XLNET, "XLNetLMHeadModel", tie_word_embeddings=False, layer_norm_eps=1e-3
  ),
  "xlnet_classes": _of(
    _XLNET,
    "XLNetForSequenceClassification",
    summary_type="first",
    **_labels(4),
  ),
  "xlnet_tags": _of(_XLNET, "XLNetForTokenClassification", **_labels(7)),
  "xlnet_spans": _of(_XLNET, "XLNetForQuestionAnsweringSimple"),
  "xlnet_choice": _of(_XLNET, "XLNetForMultipleChoice", summary_type="first"),
  "modernbert": _of(_MODERNBERT, "ModernBertModel"),
  "modernbert_masked": _of(
    _MODERNBERT,
    "ModernBertForMaskedLM",
    hidden_activation="relu",
    norm_bias=True,
    attention_bias=True,
    mlp_bias=True,
    classifier_bias=True,
    layer_types=["sliding_attention", "full_attention"] * 2
    + ["sliding_attention"],
  ),
  "modernbert_untied": _of(
    _MODERNBERT,
    "ModernBertForMaskedLM",
    tie_word_embeddings=False,
    decoder_bias=False,
    norm_eps=1e-3,
  ),
  "modernbert_classes": _of(
    _MODERNBERT,
    "ModernBertForSequenceClassification",
    classifier_activation="relu",
    **_labels(4),
  ),
  "modernbert_mean": _of(
    _MODERNBERT,
    "ModernBertForSequenceClassification",
    classifier_pooling="mean",
    **_labels(3),
  ),
  "modernbert_mean_choice": _of(
    _MODERNBERT, "ModernBertForMultipleChoice", classifier_pooling="mean"
  ),
  "modernbert_tags": _of(
    _MODERNBERT, "ModernBertForTokenClassification", **_labels(7)
  ),
  "modernbert_spans": _of(_MODERNBERT, "ModernBertForQuestionAnswering"),
  "modernbert_choice": _of(_MODERNBERT, "ModernBertForMultipleChoice"),
  "mpnet": _of(_MPNET, "MPNetModel"),
  "mpnet_masked": _of(
    _MPNET, "MPNetForMaskedLM", hidden_act="relu", layer_norm_eps=1e-3
  ),
  "mpnet_untied": _of(_MPNET, "MPNetForMaskedLM", tie_word_embeddings=False),
  "mpnet_classes": _of(_MPNET, "MPNetForSequenceClassification", **_labels(3)),
  "mpnet_tags": _of(_MPNET, "MPNetForTokenClassification", **_labels(7)),
  "mpnet_spans": _of(_MPNET, "MPNetForQuestionAnswering"),
  "mpnet_choice": _of(_MPNET, "MPNetForMultipleChoice"),
  "albert": _of(_ALBERT, "AlbertModel"),
  "albert_groups": _of(
    _ALBERT, "AlbertModel", num_hidden_groups=2, hidden_act="relu"
  ),
  "albert_pre_training": _of(
    _ALBERT, "AlbertForPreTraining", num_hidden_groups=4
  ),
  "albert_masked": _of(_ALBERT, "AlbertForMaskedLM", embedding_size=30),
  "albert_untied": _of(
    _ALBERT,
    "AlbertForMaskedLM",
    tie_word_embeddings=False,
    layer_norm_eps=1e-3,
  ),
  "albert_classes": _of(
    _ALBERT, "AlbertForSequenceClassification", **_labels(4)
  ),
  "albert_number": _of(
    _ALBERT, "AlbertForSequenceClassification", **_labels(1)
  ),
  "albert_tags": _of(_ALBERT, "AlbertForTokenClassification", **_labels(7)),
  "albert_spans": _of(_ALBERT, "AlbertForQuestionAnswering"),
  "albert_choice": _of(_ALBERT, "AlbertForMultipleChoice"),
  "bart_classes": _of(_BART, "BartForSequenceClassification", **_labels(4)),
  "bart_number": _of(
    _BART,
    "BartForSequenceClassification",
    decoder_start_token_id=3,
    activation_function="relu",
    **_labels(1),
  ),
  "bart_spans": _of(_BART, "BartForQuestionAnswering"),
  "mbart_classes": _of(
    _BART,
    "MBartForSequenceClassification",
    model_type="mbart",
    scale_embedding=True,
    **_labels(3),
  ),
  "mbart_spans": _of(_BART, "MBartForQuestionAnswering", model_type="mbart"),
  "electra": _of(_ELECTRA, "ElectraModel", hidden_act="gelu_new"),
  "electra_wide": _of(_ELECTRA, "ElectraModel", embedding_size=30),
  "electra_generator": _of(_ELECTRA, "ElectraForMaskedLM", hidden_act="silu"),
  "electra_generator_untied": _of(
    _ELECTRA, "ElectraForMaskedLM", tie_word_embeddings=False
  ),
  "electra_discriminator": _of(_ELECTRA, "ElectraForPreTraining"),
  "electra_classes": _of(
    _ELECTRA, "ElectraForSequenceClassification", **_labels(4)
  ),
  "electra_number": _of(
    _ELECTRA, "ElectraForSequenceClassification", **_labels(1)
  ),
  "electra_tags": _of(_ELECTRA, "ElectraForTokenClassification", **_labels(7)),
  "electra_spans": _of(_ELECTRA, "ElectraForQuestionAnswering"),
  "electra_choice": _of(_ELECTRA, "ElectraForMultipleChoice"),
}
# Every family with its head of tokens, and every other kind of head.
RECORDED = (
  "bert", "bert_pre_training", "bert_spans", "roberta_masked",
  "roberta_classes", "xlm_roberta_masked", "distilbert_choice",
  "deberta_masked", "deberta_2_convolution", "xlnet_tokens", "mpnet_masked",
  "modernbert_masked",
  "albert_pre_training", "electra_generator", "electra_discriminator",
)  # fmt: skip


def shallow(name: str) -> dict[str, Any]:
  """A config.json of one layer, or of all whose layers differ."""
  config = CONFIGS[name]
  differ = config["model_type"] in ("albert", "modernbert")
  return config if differ else families.with_layers(config, 1)


def path(name: str) -> pathlib.Path:
  """tests/golden/families/<name>.npz."""
  return families.path(name)


def setting(name: str):
  """Returns config, model, weights and batch; nothing of them is recorded."""
  config = CONFIGS[name]
  model = families.build(config)
  return config, model, families.weights(model), batch_for(model)


def batch_for(model) -> dict[str, np.ndarray]:
  """Rows of random lengths, shorter ones padded with the model's padding."""
  random = np.random.RandomState(0)
  tokens = random.randint(4, 45, (4, 23)).astype(np.int32)
  for row, length in zip(tokens, (23, 17, 9, 2), strict=True):
    row[length:] = model.pad_id
  if hasattr(model, "reader"):  # The only EOS ends each text.
    for row, length in zip(tokens, (23, 17, 9, 2), strict=True):
      row[length - 1] = 2
  batch = {"encoder_input_tokens": tokens}
  if model.token_type_embedder is not None:
    types = random.randint(0, model.token_type_embedder.num_types, (4, 23))
    batch["encoder_token_types"] = types.astype(np.int32)
  if model.offers.direction == "permuted":
    types = random.randint(0, 2, (4, 23))
    batch["encoder_token_types"] = types.astype(np.int32)
    if "tokens" in model.heads.parts:
      batch |= _in_an_order(tokens != model.pad_id, random)
  return batch


def _in_an_order(real: np.ndarray, random) -> dict[str, np.ndarray]:
  """An order of the first token and of a third of the others."""
  predicted = real & (random.rand(*real.shape) < 1 / 3)
  predicted[:, 0] = True
  drawn = np.where(predicted, random.rand(*real.shape), 2)
  order = np.where(predicted, np.argsort(np.argsort(drawn)), -1)
  places = np.argsort(~predicted, axis=1, kind="stable")
  return {
    "encoder_order": order.astype(np.int32),
    "encoder_predicted_places": places[:, : predicted.sum(axis=1).max()],
  }


def outputs(model, params, batch, *, gradient=True) -> dict[str, np.ndarray]:
  """What heads say at tokens, a sum of it, the sum's gradient by parameter.

  Without heads, what the layers and the pooler end in. The sum has random
  weights, so that each number that a class computes is seen in the gradient.
  """
  value, found, slopes = variants.computed(
    _total, model, params, batch, gradient
  )
  real = batch["encoder_input_tokens"] != model.pad_id
  return {"logits": joined(found, real), "loss": value, **slopes}


def _total(params, model, batch):
  real = batch["encoder_input_tokens"] != model.pad_id
  found = model.apply({"params": params}, batch, method=_answers)
  return sum(
    jnp.sum(signs(name, value.shape, real) * value)
    for name, value in found.items()
  ), found


def _answers(model, batch) -> dict[str, jax.Array]:
  found = model.all_logits(batch)
  if not found:
    found["hidden"] = model.hidden(batch)
    if model.pooler is not None:
      found["pooled"] = model.pooler(found["hidden"][:, :1])
  return found


def signs(name: str, shape, real):
  """Random weights of an output [B, P, K]; 0 at padding."""
  random = np.random.RandomState(len(name))
  drawn = random.standard_normal(shape).astype(np.float32)
  return drawn * real[:, : shape[1], None]


def joined(found, real: np.ndarray) -> np.ndarray:
  """All outputs at tokens, one below another, each of its own scale."""
  return np.concatenate(
    [
      np.asarray(found[name])[real[:, : found[name].shape[1]]].reshape(-1)
      for name in sorted(found)
    ]
  )
