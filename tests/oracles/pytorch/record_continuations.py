"""Records what GPT-2 and Llama of `transformers` make of prompts, as goldens.

.venv/bin/python -m tests.oracles.pytorch.record_continuations

tests/decoding/continuations_golden_test.py compares ours with it.
"""

import numpy as np

from tests.golden import continuations
from tests.oracles.pytorch import continuations as theirs


def main():
  for architecture in continuations.ARCHITECTURES:
    model = theirs.build(architecture)
    recorded = {"checksum": continuations.checksum(architecture)}
    for way in continuations.WAYS:
      tokens, scores = theirs.generate(model, way, continuations.RECORDED)
      recorded[f"{way}/tokens"] = tokens
      if scores is not None:
        recorded[f"{way}/scores"] = scores
    np.savez_compressed(continuations.path(architecture), **recorded)


if __name__ == "__main__":
  main()
