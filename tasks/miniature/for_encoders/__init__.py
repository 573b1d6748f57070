"""Tasks of the miniature world that only encoders are studied on.

The corpus by sentence, and tasks of the kind of CoNLL-2003, QNLI, SQuAD 2.0 and
RACE.
"""
