"""T5 of `transformers` in eager PyTorch, for peers.py: one JSON argument."""

from collections.abc import Callable
import json
import os
import sys
import time

import torch
from transformers import T5Config
from transformers import T5ForConditionalGeneration
from transformers.optimization import Adafactor


def build(work: dict) -> T5ForConditionalGeneration:
  """A T5.1.1 with random weights, float32."""
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
  """Seconds of each step: forward, backward, Adafactor."""
  model = build(work).train()
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
    start = time.perf_counter()
    run()
    if i >= warmup:
      seconds.append(time.perf_counter() - start)
  return seconds


if __name__ == "__main__":
  torch.manual_seed(0)
  torch.set_num_threads(os.cpu_count())
  asked = json.loads(sys.argv[1])
  print(json.dumps({"train": train, "decode": decode}[asked["task"]](asked)))
