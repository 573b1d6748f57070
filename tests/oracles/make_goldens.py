"""Records logits, loss and greedy tokens of PyTorch's T5 as goldens.

After `make test-oracles` has installed torch and transformers:

  .venv/bin/python -m tests.oracles.make_goldens

The weights and the batch come from seeds (tests/golden/t5.py); the fast test
tests/architectures/t5_golden_test.py compares our model with what this writes.
"""

import numpy as np
import torch
import transformers

from tests import tiny_t5
from tests.golden import t5
from tests.oracles import huggingface


def main():
  for architecture in tiny_t5.ARCHITECTURES:
    _, params, batch = t5.setting(architecture)
    theirs = huggingface.build(architecture, params, **t5.SIZES)
    with torch.no_grad():
      outputs = huggingface.forward(theirs, batch)
    real = batch["decoder_target_tokens"] > 0
    np.savez_compressed(
      t5.path(architecture),
      checksum=t5.checksum(params, batch),
      real_logits=outputs.logits.numpy()[real],
      loss=outputs.loss.numpy(),
      generated=huggingface.generate(
        theirs, batch["encoder_input_tokens"], t5.GENERATED
      ).astype(np.int32),
      made_with=f"torch {torch.__version__}, "
      f"transformers {transformers.__version__}",
    )
    size = t5.path(architecture).stat().st_size
    print(f"{t5.path(architecture).name}: {size:,} bytes")


if __name__ == "__main__":
  main()
