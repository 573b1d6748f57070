"""The metrics of the t5 package, in a process of their own.

`python -m tests.oracles.t5.t5_metrics` reads a JSON list of requests {'metric',
'targets', 'predictions', 'each'} from its standard input and writes the list of
their results; with `each`, a request's result is the list of those of its
examples alone.
"""

import json
import os
import sys

from t5.evaluation import metrics


def _multirc(targets, predictions):
  by_question = metrics.mean_group_metric(metrics.all_match)
  return metrics.multirc_f1_over_all_answers(
    targets, predictions
  ) | by_question(targets, predictions)


def _with_tuples(target):
  """JSON has no tuples, and t5 groups by them."""
  if isinstance(target, dict) and isinstance(target.get("group"), list):
    return target | {"group": tuple(target["group"])}
  return target


METRICS = {
  "accuracy": metrics.accuracy,
  "bleu": metrics.bleu,
  "f1_score_with_invalid": metrics.f1_score_with_invalid,
  "matthews_corrcoef": metrics.sklearn_metrics_wrapper(
    "matthews_corrcoef",
    metric_post_process_fn=lambda value: 100 * value,
  ),
  "mean_3class_f1": metrics.mean_multiclass_f1(num_classes=3),
  "multirc": _multirc,
  "pearson_corrcoef": metrics.pearson_corrcoef,
  "rank_classification": metrics.rank_classification,
  "rank_classification_normalized": lambda targets, scores: (
    metrics.rank_classification(
      targets, scores, normalize_by_target_length=True
    )
  ),
  "record": metrics.deduplicate_metric(metrics.squad),
  "rouge": metrics.rouge,
  "sequence_accuracy": metrics.sequence_accuracy,
  "span_squad": metrics.span_squad,
  "spearman_corrcoef": metrics.spearman_corrcoef,
  "squad": metrics.squad,
  "trivia_qa": metrics.trivia_qa,
}


def main() -> None:
  """Answers the requests."""
  # What a library prints must not come into the result.
  output = os.fdopen(os.dup(1), "w", encoding="utf-8")
  os.dup2(2, 1)
  results = []
  for request in json.load(sys.stdin):
    metric = METRICS[request["metric"]]
    targets = [_with_tuples(target) for target in request["targets"]]
    predictions = request["predictions"]
    if request["each"]:
      pairs = zip(targets, predictions, strict=True)
      results.append([_floats(metric([t], [p])) for t, p in pairs])
    else:
      results.append(_floats(metric(targets, predictions)))
  json.dump(results, output)
  output.close()


def _floats(scores):
  return {name: float(value) for name, value in scores.items()}


if __name__ == "__main__":
  main()
