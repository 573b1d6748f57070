"""Model editing: where a model keeps a fact, and how to write another there.

Imports `peft.substitution` and `data.vocabularies`. Begin with `rome.py` (a
rank-one edit of one layer), `memit.py` (many facts in several) and `edits.py`
(the file of edits); `benchmarks.py` reads facts, `tracing.py` finds the layers,
`scores.py` and `fluency.py` measure edits. docs/guides/editing.md is the guide.
"""
