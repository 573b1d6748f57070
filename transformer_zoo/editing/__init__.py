"""Model editing: where a model keeps a fact, and how to write another there.

Imports `peft.substitution` and `data.vocabularies`. Begin with `rome.py` (a
rank-one edit of one layer) and `edits.py` (the file of an edit); `tracing.py`
finds the layers, `scores.py` measures edits. docs/guides/editing.md is the
guide.
"""
