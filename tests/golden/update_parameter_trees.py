"""Writes the parameter tree of each architecture: path, shape, logical axes.

  .venv/bin/python -m tests.golden.update_parameter_trees

tests/architectures/parameters_test.py compares the models with the files. A
path that moves breaks checkpoints: update with a reason.
"""

import pathlib

from flax import traverse_util

from tests import tiny_models
from transformer_zoo import config
from transformer_zoo.training import state

# One size of each architecture.
SIZES = {
  "albert": "albert_base",
  "bart": "bart_base",
  "bert": "bert_tiny",
  "bloom": "bloom_176b",
  "byt5": "byt5_small",
  "deberta": "deberta_base",
  "deberta_v2": "deberta_v2_xlarge",
  "deberta_v3": "deberta_v3_xsmall",
  "distilbert": "distilbert_base",
  "electra": "electra_small",
  "elmo": "elmo",
  "gemma2": "gemma2_2b",
  "gemma3": "gemma3_1b",
  "gpt_1": "gpt_1",
  "gpt_2": "gpt_2_small",
  "gpt_3": "gpt_3_small",
  "gpt_j": "gpt_j_6b",
  "llama": "llama_1b",
  "llama_encoder_decoder": "t5_1_1_small",
  "lm": "t5_1_0_small",
  "longt5": "t5_1_1_base",
  "mass": "mass_base",
  "mbart": "bart_large",
  "modernbert": "modernbert_base",
  "modernbert_decoder": "modernbert_decoder_150m",
  "mpnet": "mpnet_base",
  "mt5": "t5_1_1_small",
  "olmo2": "olmo2_1b",
  "prefix_lm": "t5_1_0_small",
  "qwen3": "qwen3_0_6b",
  "roberta": "roberta_base",
  "shared": "t5_1_0_small",
  "t5_1_0": "t5_1_0_small",
  "t5_1_1": "t5_1_1_small",
  "t5gemma": "t5gemma_9b_2b",
  "t5gemma2": "t5gemma2_1b",
  "transformer_2017": "transformer_2017_base",
  "umt5": "t5_1_1_small",
  "unilm": "bert_tiny",
  "xlnet": "xlnet_base",
}
# With a pooler, which no head of masked tokens reads, a generator, or the sums
# of blocks that other attention has not.
_MORE = {
  "albert": ["heads/tokens_sentence_order.gin"],
  "bert": ["heads/tokens_next_sentence.gin"],
  "electra": ["heads/replaced_tokens.gin"],
  "longt5": ["parts/attention/transient_global.gin"],
}
TREES = [
  (architecture, scan)
  for architecture in SIZES
  for scan in (False, True)
  if not (scan and architecture in tiny_models.UNSCANNED)
]


def path(architecture: str, scan: bool) -> pathlib.Path:
  """tests/golden/parameters_t5_1_0.txt, or parameters_t5_1_0_scanned.txt."""
  suffix = "_scanned" if scan else ""
  return pathlib.Path(__file__).parent / (
    f"parameters_{architecture}{suffix}.txt"
  )


def model(architecture: str, size: str, *, scan: bool, **macros):
  """The model of sizes/<size>.gin."""
  settings = {"SCAN_LAYERS": scan, **macros}
  config.load(
    [
      f"architectures/{architecture}.gin",
      f"sizes/{size}.gin",
      *_MORE.get(architecture, ()),
    ],
    [f"{name}={value!r}" for name, value in settings.items()],
    root="MODEL",
  )
  return config.value("MODEL")


def lines(model) -> list[str]:
  """One per parameter, in order of their paths."""
  flat = traverse_util.flatten_dict(state.abstract_variables(model), sep="/")
  return [
    f"{name} {'x'.join(map(str, flat[name].unbox().shape))} "
    f"{','.join(map(str, flat[name].names))}"
    for name in sorted(flat)
  ]


def main():
  for architecture, scan in TREES:
    found = lines(model(architecture, SIZES[architecture], scan=scan))
    path(architecture, scan).write_text(
      "".join(f"{line}\n" for line in found), encoding="utf-8"
    )


if __name__ == "__main__":
  main()
