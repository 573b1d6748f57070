"""The same step by PyTorch's `transformers`, for accelerator.py.

One JSON argument, as accelerator_step.py's, with `compile`: whether by
`torch.compile`. Parameters are float32, products bfloat16 by autocast.
"""

import json
import statistics
import sys
import time

from peers import transformers as peer
import torch
from transformers.optimization import Adafactor

_BLOCKS = 3


def measure(work: dict) -> dict:
  """Speed of a configuration on one device."""
  device = "cuda" if torch.cuda.is_available() else "cpu"
  model = work["model"]
  layers = {
    "num_encoder_layers": model["num_layers"],
    "num_decoder_layers": model["num_layers"],
  }
  sizes = {**model, **layers, "batch_size": work["batch_size"]}
  sizes["is_bart"] = False
  network = peer.build(sizes).to(device).train()
  optimizer = Adafactor(
    network.parameters(), lr=1e-2, relative_step=False, warmup_init=False
  )
  forward = torch.compile(network) if work["compile"] else network
  inputs = peer.random_tokens(sizes, work["inputs"]).to(device)
  targets = peer.random_tokens(sizes, work["targets"]).to(device)
  valid = torch.ones_like(inputs)

  def step():
    with torch.autocast(device, torch.bfloat16):
      loss = forward(
        input_ids=inputs, attention_mask=valid, labels=targets
      ).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)

  def steps(number):
    start = time.perf_counter()
    for _ in range(number):
      step()
    if device == "cuda":
      torch.cuda.synchronize()
    return (time.perf_counter() - start) / number

  compile_seconds = steps(work["warmup"]) * work["warmup"]
  seconds = statistics.median(steps(work["steps"]) for _ in range(_BLOCKS))
  tokens = work["batch_size"] * (work["inputs"] + work["targets"])
  return {
    "seconds_per_step": seconds,
    "tokens_per_second": tokens / seconds,
    "warmup_seconds": compile_seconds,
    "device": torch.cuda.get_device_name() if device == "cuda" else device,
  }


if __name__ == "__main__":
  torch.manual_seed(0)
  print("\n" + json.dumps(measure(json.loads(sys.argv[1]))))
