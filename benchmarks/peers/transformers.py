"""`transformers` in PyTorch, for comparison.py: one JSON argument.

Beside the work it has the choices of `comparison.PEERS`: `compile`, whether by
`torch.compile`; `masked_places`, whether an encoder computes logits at masked
places alone; `group_by_length`, whether batches are of pairs of similar
lengths.
"""

import itertools
import json
import os
import sys

import torch
from transformers import AutoConfig
from transformers import AutoModelForCausalLM
from transformers import AutoModelForSeq2SeqLM
from transformers import BartConfig
from transformers import BartForConditionalGeneration
from transformers import BertConfig
from transformers import BertForPreTraining
from transformers import BertForSequenceClassification
from transformers import DebertaConfig
from transformers import DebertaForMaskedLM
from transformers import DebertaV2Config
from transformers import DebertaV2ForSequenceClassification
from transformers import T5Config
from transformers import T5ForConditionalGeneration
from transformers.optimization import Adafactor
from workloads import resident
from workloads import timing


def build(work: dict) -> torch.nn.Module:
  """A model with random weights in float32: of a config, a T5.1.1, a BART."""
  if "config" in work:
    config = AutoConfig.for_model(**work["config"])
    of_kind = (
      AutoModelForSeq2SeqLM
      if config.is_encoder_decoder
      else AutoModelForCausalLM
    )
    model = of_kind.from_config(config)
    model.generation_config.eos_token_id = None
    return model
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
  config = T5Config(
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
  # T5Config takes the argument for the scale of the decoder's outputs and ties
  # the embeddings of every T5.
  config.tie_word_embeddings = False
  return T5ForConditionalGeneration(config)


def random_tokens(work: dict, length: int) -> torch.Tensor:
  """Ids [batch, length] without padding."""
  return torch.randint(3, work["vocab_size"], (work["batch_size"], length))


def train(work: dict) -> dict:
  """Figures of each step: forward, backward, Adafactor for T5, else AdamW."""
  model = build(work)
  if not model.config.is_encoder_decoder:
    row = random_tokens(work, work["inputs"] + work["targets"])
    return fit(model, [{"input_ids": row, "labels": row}], work)
  is_t5 = not work.get("is_bart", True)
  return fit(
    model, [t5_batch(work)], work, adafactor(model, 1e-2) if is_t5 else None
  )


def t5_batch(work: dict) -> dict:
  """One batch of full rows."""
  inputs = random_tokens(work, work["inputs"])
  return {
    "input_ids": inputs,
    "attention_mask": torch.ones_like(inputs),
    "labels": random_tokens(work, work["targets"]),
  }


def adafactor(model: torch.nn.Module, rate: float) -> Adafactor:
  """The Adafactor of `transformers`, of the parameters that are trained."""
  return Adafactor(
    [p for p in model.parameters() if p.requires_grad],
    lr=rate,
    relative_step=False,
    warmup_init=False,
  )


def masked_batch(work: dict) -> dict:
  """Full rows, 15 % of whose tokens are masked."""
  inputs = random_tokens(work, work["inputs"])
  masked = torch.rand(inputs.shape) < 0.15
  return {
    "input_ids": inputs,
    "attention_mask": torch.ones_like(inputs),
    "labels": torch.where(masked, inputs, -100),
  }


def at_masked_places(model: torch.nn.Module, head: str, batch: dict) -> dict:
  """Makes a head compute logits at masked places alone.

  Args:
    model: The model whose hidden states go into the head.
    head: The path of the head, whose only argument they are.
    batch: The batch; its places are those of every step.

  Returns:
    The batch with the labels of these places.
  """
  labels = batch["labels"].flatten()
  places = torch.nonzero(labels != -100).flatten()

  def gather(module, arguments):
    del module
    (hidden,) = arguments
    return hidden.flatten(0, 1)[places]

  model.get_submodule(head).register_forward_pre_hook(gather)
  return batch | {"labels": labels[places]}


def pretrain_bert(work: dict) -> dict:
  """Figures of each step: masked tokens, next sentence, AdamW."""
  batch = masked_batch(work)
  rows = len(batch["input_ids"])
  batch |= {
    "token_type_ids": torch.zeros_like(batch["input_ids"]),
    "next_sentence_label": torch.randint(0, 2, (rows,)),
  }
  model = BertForPreTraining(bert(work))
  if work.get("masked_places"):
    batch = at_masked_places(model, "cls.predictions", batch)
  return fit(model, [batch], work)


def bert(work: dict) -> BertConfig:
  """A BERT of this size, dropout everywhere as it has by default."""
  return BertConfig(
    vocab_size=work["vocab_size"],
    hidden_act="gelu_new",
    **sizes(work),
  )


def sizes(work: dict) -> dict:
  """The size of an encoder in the words of its configuration."""
  return {
    "hidden_size": work["d_model"],
    "intermediate_size": work["d_ff"],
    "num_hidden_layers": work["num_layers"],
    "num_attention_heads": work["num_heads"],
    "hidden_dropout_prob": work["dropout"],
    "attention_probs_dropout_prob": work["dropout"],
  }


# Of every DeBERTa.
_DEBERTA = {
  "max_position_embeddings": 512,
  "relative_attention": True,
  "position_biased_input": False,
  "pos_att_type": ["c2p", "p2c"],
  "type_vocab_size": 0,
}


def pretrain_deberta(work: dict) -> dict:
  """Figures of each step of a DeBERTa v1: masked tokens, AdamW.

  Its class has the head of BERT and no mask decoder, which ours computes.
  """
  config = DebertaConfig(
    vocab_size=work["vocab_size"],
    max_relative_positions=512,
    **sizes(work),
    **_DEBERTA,
  )
  model, batch = DebertaForMaskedLM(config), masked_batch(work)
  if work.get("masked_places"):
    batch = at_masked_places(model, "cls", batch)
  return fit(model, [batch], work)


def finetune_deberta(work: dict) -> dict:
  """Figures of each step of a DeBERTa v3 on full rows: their class, AdamW."""
  config = DebertaV2Config(
    vocab_size=work["vocab_size"],
    position_buckets=256,
    norm_rel_ebd="layer_norm",
    share_att_key=True,
    **sizes(work),
    **_DEBERTA,
  )
  return fit(DebertaV2ForSequenceClassification(config), pairs(work), work)


def finetune_bert(work: dict) -> dict:
  """Figures of each step on padded pairs: their class, AdamW."""
  return fit(BertForSequenceClassification(bert(work)), pairs(work), work)


def pairs(work: dict) -> list[dict]:
  """Batches of pairs with a class each, padded to the longest of the batch."""
  lengths = torch.tensor(work["lengths"])
  if work.get("group_by_length"):
    lengths = lengths.sort().values
  batches = []
  for some in lengths.split(work["batch_size"]):
    inputs = random_tokens(work, int(some.max()))
    valid = torch.arange(inputs.shape[1]) < some[:, None]
    batches.append(
      {
        "input_ids": inputs * valid,
        "attention_mask": valid.long(),
        "token_type_ids": torch.zeros_like(inputs),
        "labels": torch.randint(0, 2, (len(inputs),)),
      }
    )
  return batches


def fit(
  model: torch.nn.Module,
  batches: list[dict],
  work: dict,
  optimizer: torch.optim.Optimizer | None = None,
) -> dict:
  """Figures of each step: forward, backward, AdamW or the given optimizer."""
  model.train()
  optimizer = optimizer or torch.optim.AdamW(
    model.parameters(), lr=1e-4, fused=True
  )
  forward = torch.compile(model) if work.get("compile") else model
  turn = itertools.cycle(batches)

  def step():
    forward(**next(turn)).loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)

  # The warm-up goes once over all batches, and so over all shapes.
  warmup = max(work["warmup"], len(batches) if work.get("compile") else 0)
  return timing.timed(step, warmup, work["steps"])


def decode(work: dict) -> dict:
  """Figures of each batch that is decoded to its full length."""
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

  return timing.timed(generate, 1, work["repeats"])


# By task, the function and which choices it has.
TASKS = {
  "train": (train, {"compile"}),
  "decode": (decode, set()),
  "bert_small": (pretrain_bert, {"compile", "masked_places"}),
  "bert_small_mrpc": (finetune_bert, {"compile", "group_by_length"}),
  "deberta_small": (pretrain_deberta, {"compile", "masked_places"}),
  "deberta_v3_small": (finetune_deberta, {"compile"}),
}
_CHOICES = {"compile", "masked_places", "group_by_length"}


def prepare() -> None:
  """Seeds PyTorch, uses all cores, and flushes denormals as XLA does."""
  torch.manual_seed(0)
  torch.set_num_threads(len(os.sched_getaffinity(0)))
  torch.set_flush_denormal(True)


def main():
  """Measures the task of the argument and prints its figures."""
  behind_imports = resident.peak_bytes()
  prepare()
  work = json.loads(sys.argv[1])
  measure, choices = TASKS[work["task"]]
  if unknown := sorted(_CHOICES & work.keys() - choices):
    sys.exit(f"{work['task']} has no {', '.join(unknown)}")
  found = measure(work)
  beyond = found["peak_bytes"] - behind_imports
  print(json.dumps(found | {"beyond_imports_bytes": beyond}))


if __name__ == "__main__":
  main()
