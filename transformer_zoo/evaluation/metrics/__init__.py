"""Metrics: `(targets, predictions)` to percentages by name.

A metric is a module-level function, or a `functools.partial` of one with
keyword arguments that JSON can hold, so that manifests can refer to it. A
prediction that is no possible answer counts as wrong and is counted apart
(`answers/invalid_answers.py`). Imports numpy, scikit-learn, sacrebleu and
rouge-score. Begin with `classification.py`; `question_answering.py` has the
rules of the official SQuAD scorers, `text_overlap.py` BLEU and ROUGE.
"""
