"""The studies of encoders: rows differ in what their table is about alone."""

import re

import gin
import pytest

from tests.studies import shipped
from transformer_zoo import config
from transformer_zoo.studies import published
from transformer_zoo.studies.design import loading
from transformer_zoo.studies.execution import costs

# Of each study, the settings of pre-training and of fine-tuning that its rows
# differ in.
DIFFERENT = {
  "bert_table5": (
    {"model", "objective", "corruption", "converter"},
    {"model", "converter"},
  ),
  "bert_table6": ({"model"}, {"model"}),
  "bert_table7": ({"model"}, {"model", "trainable", "learning_rate"}),
  "bert_table8": ({"corruption"}, set()),
  "albert_table3": ({"model"}, {"model"}),
  "albert_table4": ({"model"}, {"model"}),
  "albert_table5": ({"model", "objective", "corruption"}, set()),
  "deberta_embedding_sharing": ({"model"}, set()),
  "deberta_positions": ({"model"}, {"model"}),
  "electra_efficiency": (
    {"model", "objective", "corruption"},
    set(),
  ),
  "electra_generator_sizes": ({"model"}, set()),
  "electra_ladder": (
    {"model", "objective", "corruption", "train_steps"},
    set(),
  ),
  "spanbert_table5": (
    {"model", "objective", "corruption", "static_copies"},
    set(),
  ),
  "spanbert_table6": ({"corruption"}, set()),
  "roberta_table1": ({"static_copies"}, set()),
  "roberta_table2": (
    {
      *("model", "objective", "corruption", "batch_size"),
      "task_feature_lengths",
    },
    set(),
  ),
  "roberta_table3": ({"batch_size", "train_steps", "learning_rate"}, set()),
}


def settings_of(run):
  """The settings of a training run as text, functions by their names."""
  return {
    name: re.sub(r" at 0x[0-9a-f]+", "", repr(value))
    for name, value in shipped.loaded(run, bound).items()
  }


def bound():
  settings = gin.get_bindings("train")
  # The schedule is a function whose peak shows in no text.
  if "LEARNING_RATE = " in gin.config_str():
    settings["learning_rate"] = config.value("LEARNING_RATE")
  return settings


# One of two phases, one of a part of the data; the others are slow.
FEW = ("albert_table4", "roberta_table1")


@pytest.mark.parametrize(
  "name",
  [
    pytest.param(name, marks=() if name in FEW else pytest.mark.slow)
    for name in sorted(DIFFERENT)
  ],
)
def test_rows_differ_in_nothing_else(name):
  study, runs = loading.load_study(name), shipped.runs(name, "miniature")
  for phase, expected in zip(
    ("pretrain_encoder", "heads"), DIFFERENT[name], strict=True
  ):
    different = set()
    group = next(r.group for r in runs if r.phase == "heads" and r.scored)
    if group == "masked_loss":
      group = "MNLI"
    chosen = [r for r in runs if r.phase == phase and r.group in ("", group)]
    chosen = [r for r in chosen if not r.alternative]
    chosen = [r for r in chosen if r.part == chosen[0].part]
    assert [run.row for run in chosen] == [row.name for row in study.rows]
    first, *others = map(settings_of, chosen)
    for other in others:
      names = first.keys() | other.keys()
      different |= {n for n in names if first.get(n) != other.get(n)}
    assert different == expected


# Perplexities stand beside losses, whose unit is another one; the test set of
# BERT's table 7 has one row of two; the miniature suite has no tasks of the
# other columns' kind.
LEFT_OUT = {
  *("perplexity", "test_F1", "acc_MLM", "acc_NSP", "acc_SOP", "Average"),
  *("NewsQA_F1", "TriviaQA_F1", "coreference_F1"),
  *("MRPC_F1", "STSB_Pearson", "STSB_Spearman", "QQP_F1", "QQP_accuracy"),
  *("MNLImm", "RTE"),
}
PUBLISHED = [name for name in DIFFERENT if loading.load_study(name).published]


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_columns_are_those_of_the_published_table(name):
  study = loading.load_study(name)
  table = published.load(study.published)
  beside = [column for column in study.columns.values() if column]
  left_out = LEFT_OUT
  if study.published.startswith("spanbert"):
    left_out = left_out | {"GLUE"}
  assert [c for c in table.columns if c not in left_out] == beside
  labels = [row.published for row in study.rows if row.published]
  assert labels == [label for label in table.rows if label in labels]


@pytest.mark.slow
def test_encoders_pre_train_with_equal_flops():
  runs = shipped.runs("encoders_equal_flops", "miniature")
  jobs = costs.jobs(run for run in runs if run.phase == "pretrain_encoder")
  flops = {job.run.row: job.costs.flops for job in jobs}
  assert len(flops) == len(jobs)
  for row, number in flops.items():
    assert number == pytest.approx(flops["bert"], rel=2e-3), row


def test_heads_and_text_see_as_many_rows():
  runs = shipped.runs("heads_or_text", "miniature")
  scored = [run for run in runs if run.scored]
  text, on_t5, on_bert = (
    sorted(
      (run for run in scored if run.row == row),
      key=lambda run: (run.group, run.part),
    )
    for row in ("text_to_text", "heads_on_t5", "heads_on_bert")
  )
  parts = [(run.group, run.part) for run in text]
  assert parts == [(run.group, run.part) for run in on_t5]
  assert parts == [(run.group, run.part) for run in on_bert]
  assert text[0].starts == on_t5[0].starts != on_bert[0].starts
  budgets = set()
  for run in (text[0], on_t5[0], on_bert[0]):
    settings = settings_of(run)
    names = ("train_steps", "batch_size", "packing")
    budgets.add(tuple(settings[name] for name in names))
  assert len(budgets) == 1
  before = [run for run in runs if run.phase.startswith("pretrain")]
  budgets = set()
  for run in before:
    settings = settings_of(run)
    budgets.add((settings["train_steps"], settings["batch_size"]))
  assert len(budgets) == 1
