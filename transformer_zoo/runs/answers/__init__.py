"""Answers of models to texts: generated, scored, by heads, as vectors.

Imports `decoding`, `evaluation` and the other files of `runs`. Begin with
`scoring.py`, the functions that evaluation and inference share, and
`answering.py`; `encoder_answers.py` is their counterpart for encoders.
"""
