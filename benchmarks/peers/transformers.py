"""`transformers` in eager PyTorch, for comparison.py: one JSON argument."""

from collections.abc import Callable
import itertools
import json
import os
import sys
import time

import torch
from transformers import BartConfig
from transformers import BartForConditionalGeneration
from transformers import BertConfig
from transformers import BertForPreTraining
from transformers import BertForSequenceClassification
from transformers import DebertaConfig
from transformers import DebertaForMaskedLM
from transformers import T5Config
from transformers import T5ForConditionalGeneration
from transformers.optimization import Adafactor
from workloads import resident


def build(work: dict) -> torch.nn.Module:
  """A T5.1.1 or a BART with random weights, float32."""
  if work["is_bart"]:
    return BartForConditionalGeneration(
      BartConfig(
        vocab_size=work["vocab_size"],
        d_model=work["d_model"],
        encoder_layers=work["num_encoder_layers"],
        decoder_layers=work["num_decoder_layers"],
        encoder_ffn_dim=work["d_ff"],
        decoder_ffn_dim=work["d_ff"],
        encoder_attention_heads=work["num_heads"],
        decoder_attention_heads=work["num_heads"],
        dropout=work.get("dropout", 0.0),
        eos_token_id=None,
        forced_eos_token_id=None,
      )
    )
  return T5ForConditionalGeneration(
    T5Config(
      vocab_size=work["vocab_size"],
      d_model=work["d_model"],
      d_kv=work["head_dim"],
      d_ff=work["d_ff"],
      num_layers=work["num_encoder_layers"],
      num_decoder_layers=work["num_decoder_layers"],
      num_heads=work["num_heads"],
      dropout_rate=work.get("dropout", 0.0),
      feed_forward_proj="gated-gelu",
      tie_word_embeddings=False,
      decoder_start_token_id=0,
      eos_token_id=None,
    )
  )


def random_tokens(work: dict, length: int) -> torch.Tensor:
  """Ids [batch, length] without padding."""
  return torch.randint(3, work["vocab_size"], (work["batch_size"], length))


def train(work: dict) -> list[float]:
  """Seconds of each step: forward, backward, Adafactor; a BART's AdamW."""
  model = build(work).train()
  if work["is_bart"]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
  else:
    optimizer = Adafactor(
      model.parameters(), lr=1e-2, relative_step=False, warmup_init=False
    )
  inputs = random_tokens(work, work["inputs"])
  targets = random_tokens(work, work["targets"])
  valid = torch.ones_like(inputs)

  def step():
    model(
      input_ids=inputs, attention_mask=valid, labels=targets
    ).loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)

  return timed(step, work["warmup"], work["steps"])


def bert(work: dict) -> BertConfig:
  """A BERT of this size, dropout everywhere as it has by default."""
  return BertConfig(
    vocab_size=work["vocab_size"],
    hidden_size=work["d_model"],
    intermediate_size=work["d_ff"],
    num_hidden_layers=work["num_layers"],
    num_attention_heads=work["num_heads"],
    hidden_act="gelu_new",
    hidden_dropout_prob=work["dropout"],
    attention_probs_dropout_prob=work["dropout"],
  )


def pretrain_bert(work: dict) -> list[float]:
  """Seconds of each step: hidden tokens, next sentence, AdamW."""
  inputs = random_tokens(work, work["inputs"])
  hidden = torch.rand(inputs.shape) < 0.15
  batch = {
    "input_ids": inputs,
    "attention_mask": torch.ones_like(inputs),
    "token_type_ids": torch.zeros_like(inputs),
    "labels": torch.where(hidden, inputs, -100),
    "next_sentence_label": torch.randint(0, 2, (len(inputs),)),
  }
  return fit(BertForPreTraining(bert(work)), [batch], work)


def pretrain_deberta(work: dict) -> list[float]:
  """Seconds of each step of a DeBERTa v1: hidden tokens, AdamW."""
  inputs = random_tokens(work, work["inputs"])
  hidden = torch.rand(inputs.shape) < 0.15
  config = DebertaConfig(
    vocab_size=work["vocab_size"],
    hidden_size=work["d_model"],
    intermediate_size=work["d_ff"],
    num_hidden_layers=work["num_layers"],
    num_attention_heads=work["num_heads"],
    hidden_dropout_prob=work["dropout"],
    attention_probs_dropout_prob=work["dropout"],
    max_position_embeddings=512,
    relative_attention=True,
    max_relative_positions=512,
    position_biased_input=False,
    pos_att_type=["c2p", "p2c"],
    type_vocab_size=0,
  )
  batch = {
    "input_ids": inputs,
    "attention_mask": torch.ones_like(inputs),
    "labels": torch.where(hidden, inputs, -100),
  }
  return fit(DebertaForMaskedLM(config), [batch], work)


def finetune_bert(work: dict) -> list[float]:
  """Seconds of each step on padded pairs: their class, AdamW."""
  batches = []
  for lengths in torch.tensor(work["lengths"]).split(work["batch_size"]):
    inputs = random_tokens(work, work["inputs"])
    valid = torch.arange(work["inputs"]) < lengths[:, None]
    batches.append(
      {
        "input_ids": inputs * valid,
        "attention_mask": valid.long(),
        "token_type_ids": torch.zeros_like(inputs),
        "labels": torch.randint(0, 2, (len(inputs),)),
      }
    )
  return fit(BertForSequenceClassification(bert(work)), batches, work)


def fit(model: torch.nn.Module, batches: list[dict], work: dict) -> list[float]:
  """Seconds of each step: forward, backward, AdamW."""
  model.train()
  optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
  turn = itertools.cycle(batches)

  def step():
    model(**next(turn)).loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)

  return timed(step, work["warmup"], work["steps"])


def decode(work: dict) -> list[float]:
  """Seconds of each batch that is decoded to its full length."""
  model = build(work).eval()
  inputs = random_tokens(work, work["inputs"])
  valid = torch.ones_like(inputs)

  def generate():
    with torch.inference_mode():
      model.generate(
        inputs,
        attention_mask=valid,
        max_new_tokens=work["targets"],
        num_beams=work["num_beams"],
        do_sample=False,
      )

  return timed(generate, 1, work["repeats"])


def timed(run: Callable[[], None], warmup: int, repeats: int) -> list[float]:
  """Seconds of each run after the first ones."""
  seconds = []
  for i in range(warmup + repeats):
    if i == warmup:
      resident.restart()
    start = time.perf_counter()
    run()
    if i >= warmup:
      seconds.append(time.perf_counter() - start)
  return seconds


TASKS = {
  "train": train,
  "decode": decode,
  "bert_small": pretrain_bert,
  "bert_small_mrpc": finetune_bert,
  "deberta_base": pretrain_deberta,
  "deberta_small": pretrain_deberta,
}


if __name__ == "__main__":
  behind_imports = resident.peak_bytes()
  torch.manual_seed(0)
  torch.set_num_threads(len(os.sched_getaffinity(0)))
  asked = json.loads(sys.argv[1])
  seconds = TASKS[asked["task"]](asked)
  beyond = resident.peak_bytes() - behind_imports
  print(json.dumps({"seconds": seconds, "beyond_imports_bytes": beyond}))
