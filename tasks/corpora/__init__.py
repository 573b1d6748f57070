"""Unlabelled text: C4, Wikipedia and text files, under every objective.

Imports SeqIO, corruption and `tasks.sources`. Begin with `unlabelled_text.py`,
which registers a corpus of your own; `c4.py` is T5's.
"""
