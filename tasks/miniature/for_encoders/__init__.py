"""Tasks of the miniature world that only encoders are studied on.

The corpus by sentence, and tasks of the kind of CoNLL-2003, QNLI, SQuAD 2.0 and
RACE. They stand in a folder of their own because the data of the
suite is marked by the code beside `tasks/miniature/source.py`.
"""
