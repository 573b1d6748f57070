"""Answers: decoded text turned into what a metric compares.

Imports `data.storage.function_references` and
`metrics.question_answering`. Begin with `post_processors.py`, whose functions
have the names of the t5 package.
"""
