"""Features: the arrays that a model reads, laid out from trimmed examples.

Imports numpy and `corruption.ragged`. Begin with `converters.py`, which equals
SeqIO's feature converters key by key; `forms.py` makes an encoder's rows of the
pieces of a benchmark's.
"""
