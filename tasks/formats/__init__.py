"""Formats: raw examples as T5's texts, shared by several benchmarks.

Imports TensorFlow and nothing of `tasks.benchmarks`. Begin with
`labelled_text.py`; every file is one kind of example.
"""
