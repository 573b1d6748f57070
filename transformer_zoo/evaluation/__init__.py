"""Evaluation: answers out of text, metrics, averages, the evaluator."""
