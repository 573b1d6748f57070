"""Published recipes: the numbers of their papers stand in their run files.

Written down here a second time, from the sources that each file names: a digit
that changes in a file changes no test that only loads it.
"""

import pytest

from transformer_zoo.config import reading
from transformer_zoo.config import registry

# Recipe -> steps or epochs, rows, highest rate, steps or share of warm-up.
COURSES = {
  "pretrain": (2**19, 128, None, 10_000),
  "finetune": (2**18, 128, 1e-3, None),
  "lm_adaptation": (1_100_000, 2048, None, 10_000),
  "prompt_tuning": (30_000, 32, 0.3, None),
  "t0": (12_200, 1024, 1e-3, None),
  "tfew": (1_000, 8, 3e-3, 60),
  "tfew_pretrain": (100_000, 16, 3e-4, 6_000),
  "transformer_2017": (100_000, 96, None, 4_000),
  "bart_finetune": (20_000, 32, 3e-5, 500),
  "bart_pretrain": (500_000, 8_000, 4e-4, 30_000),
  "mass_pretrain": (125_000, 4_096, 5e-4, 10_000),
  "gpt_1_pretrain": (100, 64, 2.5e-4, 2_000),
  "gpt_3_pretrain": (572_205, 256, 6e-4, 715),
  "gpt_finetune": (3, 32, 6.25e-5, 0.002),
  "albert_pretrain": (125_000, 4096, 1.76e-3, 3_125),
  "bert_finetune": (3, 32, 2e-5, 0.1),
  "bert_pretrain": (1_000_000, 256, 1e-4, 10_000),
  "deberta_v3_pretrain": (1_000_000, 256, 1e-4, 10_000),
  "electra_pretrain": (1_000_000, 128, 5e-4, 10_000),
  "lora_roberta": (30, 16, 5e-4, 0.06),
  "roberta_finetune": (10, 16, 2e-5, 0.06),
  "roberta_pretrain": (500_000, 8_192, 6e-4, 24_000),
  "sbert_nli": (1, 16, 2e-5, 0.1),
  "sbert_stsb": (4, 16, 2e-5, 0.1),
  "simcse": (1, 64, 3e-5, 0.0),
  "simcse_supervised": (3, 512, 5e-5, 0.0),
  "sentence_t5": (540, 512, 1e-3, 54),
  "gtr_pretrain": (800_000, 2_048, 1e-3, 0),
  "gtr_finetune": (20_000, 2_048, 1e-3, 0),
  "spanbert_pretrain": (2_400_000, 256, 1e-4, 10_000),
  "unilm_pretrain": (770_000, 330, 3e-5, 40_000),
  "xlnet_pretrain": (500_000, 8_192, 4e-4, 40_000),
}
# Recipe -> weight decay, b2, epsilon and clipped norm of its optimizer; None
# where the file leaves the optimizer's own.
OPTIMIZERS = {
  "bart_finetune": (0.01, None, 1e-8, 0.1),
  "bart_pretrain": (0.01, 0.98, 1e-6, None),
  "mass_pretrain": (0.01, 0.98, 1e-6, None),
  "gpt_1_pretrain": (0.01, None, None, None),
  "gpt_3_pretrain": (0.1, 0.95, 1e-8, 1.0),
  "gpt_finetune": (0.01, None, 1e-8, 1.0),
  "bert_finetune": (0.01, None, 1e-6, 1.0),
  "bert_pretrain": (0.01, None, 1e-6, 1.0),
  "deberta_v3_pretrain": (0.01, None, 1e-6, None),
  "electra_pretrain": (0.01, None, 1e-6, 1.0),
  "lora_roberta": (0.01, 0.999, 1e-6, None),
  "roberta_finetune": (0.1, 0.98, 1e-6, None),
  "roberta_pretrain": (0.01, 0.98, 1e-6, None),
  "spanbert_pretrain": (0.1, None, 1e-8, 1.0),
  "unilm_pretrain": (0.01, None, None, None),
  "xlnet_pretrain": (0.01, None, 1e-6, None),
}
# What else a paper says.
OTHERS = {
  "prompt_tuning": {
    "adafactor.weight_decay": 1e-5,
    "adafactor.scale_by_parameter": False,
  },
  "albert_pretrain": {"lamb.weight_decay": 0.01, "lamb.epsilon": 1e-6},
  "transformer_2017": {
    "adam.b2": 0.98,
    "adam.epsilon": 1e-9,
    "SequenceToSequence.label_smoothing": 0.1,
    "rsqrt.base": pytest.approx(512**-0.5),
  },
  "bart_finetune": {
    "SequenceToSequence.label_smoothing": 0.1,
    "DecodingOptions.num_beams": 4,
    "DecodingOptions.alpha": 2.0,
    "DecodingOptions.min_length": 56,
    "DecodingOptions.no_repeat_ngram_size": 3,
  },
  "gpt_3_pretrain": {"cosine.final_share": 0.1},
}
# Dropout, where a recipe has another than its architecture's file.
DROPOUT = {
  **dict.fromkeys(("finetune", "t0", "prompt_tuning", "gpt_1_pretrain"), 0.1),
  **dict.fromkeys(("tfew", "tfew_pretrain", "lm_adaptation"), 0.0),
}


@pytest.fixture(params=COURSES)
def bound(request):
  """The recipe, and the number that one of some names has in its run file."""
  registry.load("train")
  read = reading.read_file(f"runs/{request.param}.gin")
  values = {binding.name: binding.value for binding in read}

  def number(*names):
    numbers = (values.get(name) for name in names)
    return next((n for n in numbers if isinstance(n, bool | int | float)), None)

  return request.param, number


def test_the_course_of_a_run_is_the_published_one(bound):
  recipe, number = bound
  assert COURSES[recipe] == (
    number("EPOCHS", "TRAIN_STEPS"),
    number("BATCH_SIZE"),
    number("LEARNING_RATE"),
    number("WARMUP_SHARE", "WARMUP_STEPS"),
  )
  if recipe in DROPOUT:
    assert number("DROPOUT_RATE") == DROPOUT[recipe]


def test_the_optimizer_is_the_published_one(bound):
  recipe, number = bound
  if recipe in OPTIMIZERS:
    assert OPTIMIZERS[recipe] == (
      number("adamw.weight_decay"),
      number("adamw.b2"),
      number("adamw.epsilon"),
      number("CLIP_NORM"),
    )
  for name, value in OTHERS.get(recipe, {}).items():
    assert number(name) == value, name
