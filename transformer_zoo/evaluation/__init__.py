"""Evaluation: answers out of decoded text, metrics, averages, the evaluator.

Imports numpy, scikit-learn and `data`; models reach it as functions. Begin with
`evaluator.py`; `answers/` turns texts into answers, `metrics/` answers into
numbers, `averages.py` numbers into the averages of papers.
"""
