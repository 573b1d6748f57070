"""Metrics of decoded texts, of likelihoods, and those refused."""

import functools

import pytest

from transformer_zoo.data.storage import function_references
from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.answers import post_processors
from transformer_zoo.evaluation.metrics import classification

seqio = pytest.importorskip("seqio")


def no_data(split, shuffle_files):
  del split, shuffle_files


def with_aux(targets, predictions, aux_values):
  del targets, predictions, aux_values
  return {}


def with_labels(labels, guesses):
  del labels, guesses
  return {}


@pytest.fixture
def describe(vocabulary):
  def call(*metric_fns, postprocess_fn=None, metric_objs=None):
    task = seqio.Task(
      "zt_scored",
      source=seqio.FunctionDataSource(no_data, splits=("train",)),
      output_features={"targets": seqio.Feature(vocabulary.to_seqio())},
      metric_fns=metric_fns,
      metric_objs=metric_objs,
      postprocess_fn=postprocess_fn,
    )
    return function_references.describe_scoring(task)

  return call


def test_metrics_are_told_apart_by_their_second_parameter(describe):
  normalized = functools.partial(
    classification.rank_classification, length_normalized=True
  )
  found = describe(normalized, classification.accuracy)
  module = "transformer_zoo.evaluation.metrics.classification"
  assert found == manifest.Scoring(
    postprocess=None,
    metrics=({"function": f"{module}:accuracy", "kwargs": {}},),
    score_metrics=(
      {
        "function": f"{module}:rank_classification",
        "kwargs": {"length_normalized": True},
      },
    ),
  )


def test_a_task_without_metrics_is_not_scored(describe):
  assert describe() is None


def test_post_processing_stays_without_metrics(describe):
  """AX has labels at the server alone; its answers are submitted."""
  function = "transformer_zoo.evaluation.answers.post_processors:lower_text"
  assert describe(
    postprocess_fn=post_processors.lower_text
  ) == manifest.Scoring({"function": function, "kwargs": {}}, (), ())


@pytest.mark.parametrize(
  "metric, named",
  [(with_aux, "function with_aux"), (with_labels, r"\('labels', 'guesses'\)")],
)
def test_metrics_of_other_parameters_are_refused(describe, metric, named):
  with pytest.raises(
    UserError,
    match=f"Task 'zt_scored' has a metric that cannot be called .*{named}.*; "
    r"the parameters of a metric are \(targets, predictions\) or \(targets, "
    r"scores\)\.",
  ):
    describe(metric)


def test_metric_objects_are_refused(describe):
  metric = seqio.metrics.PassthroughLegacyMetric
  with pytest.raises(
    UserError,
    match=r"Task 'zt_scored' has metric_objs \(PassthroughLegacyMetric\), "
    "which cannot be written into a manifest; give it functions of ",
  ):
    describe(classification.accuracy, metric_objs=[metric])


@pytest.mark.parametrize(
  "name",
  [
    "transformer_zoo.evaluation.metrics.classification:squad",
    "no_such_module:f",
  ],
)
def test_a_function_that_moved_is_named_with_the_way_out(name):
  with pytest.raises(
    UserError,
    match=f"The prepared data is scored with '{name}', which cannot be imported"
    r" here \(.*\); run `zoo prepare` again",
  ):
    function_references.resolve({"function": name, "kwargs": {}})
