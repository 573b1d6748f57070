"""A step of `peft` over `transformers`, for peft_step.py: one JSON argument.

The work of a T5 (`comparison.work_of`), `method`, the name of a method, without
which all parameters are trained, and `prompt_length`.
"""

import json
import sys

from peers import transformers
import peft

_METHODS = {
  "lora": lambda work: peft.LoraConfig(r=8, lora_alpha=8),
  "ia3": lambda work: peft.IA3Config(),
  "prompt": lambda work: peft.PromptTuningConfig(
    num_virtual_tokens=work["prompt_length"]
  ),
}


def measure(work: dict) -> dict:
  """Figures of each step: forward, backward, Adafactor."""
  model = transformers.build(work)
  if "method" in work:
    settings = _METHODS[work["method"]](work)
    settings.task_type = "SEQ_2_SEQ_LM"
    model = peft.get_peft_model(model, settings)
  optimizer = transformers.adafactor(model, 1e-3)
  batch = transformers.t5_batch(work)
  return transformers.fit(model, [batch], work, optimizer)


if __name__ == "__main__":
  transformers.prepare()
  print(json.dumps(measure(json.loads(sys.argv[1]))))
