"""Records what the classes of `transformers` compute, as goldens.

Of T5 logits, loss, greedy tokens and beams; of every family logits, loss and
gradient.

After `make test-oracles` has installed torch and transformers:

  .venv/bin/python -m tests.oracles.pytorch.make_goldens

Weights and batches come from seeds (tests/golden). What this writes is compared
with our models by tests/architectures/t5_golden_test.py and
families_golden_test.py, and by tests/decoding/t5_beams_golden_test.py.
"""

import numpy as np
import torch
import transformers

from tests import tiny_t5
from tests.golden import elmo
from tests.golden import encoders
from tests.golden import families
from tests.golden import t5
from tests.golden import t5_beams
from tests.golden import variants
from tests.oracles.pytorch import huggingface
from tests.oracles.pytorch import reference_elmo


def record_beams():
  """Writes tests/golden/t5_beams.npz."""
  _, params, inputs = t5_beams.setting(t5_beams.RECORDED)
  theirs = huggingface.build("t5_1_1", params, **t5_beams.SIZES)
  recorded = {"checksum": t5_beams.checksum(params, inputs)}
  for way in t5_beams.WAYS:
    tokens, scores = huggingface.beam_search(
      theirs, inputs, t5_beams.MADE, **t5_beams.their_options(way)
    )
    recorded[f"{way}/tokens"] = tokens.astype(np.int32)
    recorded[f"{way}/scores"] = scores
  np.savez_compressed(t5_beams.PATH, **recorded)


def record_families():
  """Writes tests/golden/families."""
  families.FOLDER.mkdir(exist_ok=True)
  for name in families.RECORDED:
    config, model, params, batch = families.setting(name)
    outputs = huggingface.outputs(config, model, params, batch)
    variants.record(families.path(name), params, batch, outputs)
  for name in encoders.RECORDED:
    config, model, params, batch = encoders.setting(name)
    outputs = huggingface.encoder_outputs(config, model, params, batch)
    variants.record(encoders.path(name), params, batch, outputs)
  _, _, params = elmo.setting()
  outputs = reference_elmo.outputs(params)
  variants.record(elmo.PATH, params, elmo.BATCH, outputs)


def main():
  record_families()
  record_beams()
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
