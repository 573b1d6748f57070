"""Answers: decoded text turned into what a metric compares.

Imports nothing but `errors` and `data.storage.function_references`. Begin with
`post_processors.py`, whose functions have the names of the t5 package.
"""
