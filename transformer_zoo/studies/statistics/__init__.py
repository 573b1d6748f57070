"""Conclusions that a study allows (docs/reference/statistics.md)."""

from transformer_zoo.studies.statistics.comparison import compare
from transformer_zoo.studies.statistics.comparison import Comparison
from transformer_zoo.studies.statistics.comparison import Difference
from transformer_zoo.studies.statistics.files import agreements_csv
from transformer_zoo.studies.statistics.files import differences_csv
from transformer_zoo.studies.statistics.findings import Finding
from transformer_zoo.studies.statistics.findings import Verdict
from transformer_zoo.studies.statistics.published_order import Agreement
from transformer_zoo.studies.statistics.published_order import agreement
from transformer_zoo.studies.statistics.published_order import mean_tau
from transformer_zoo.studies.statistics.published_order import MeanTau
from transformer_zoo.studies.statistics.study_resamples import resample
from transformer_zoo.studies.statistics.study_resamples import StudyResamples

__all__ = [
  "Agreement",
  "Comparison",
  "Difference",
  "Finding",
  "MeanTau",
  "StudyResamples",
  "Verdict",
  "agreement",
  "agreements_csv",
  "compare",
  "differences_csv",
  "mean_tau",
  "resample",
]
