"""Metrics: `(targets, predictions)` to percentages by name.

Imports numpy, scikit-learn, sacrebleu and rouge-score. Begin with
`classification.py`; `question_answering.py` has the rules of the official
SQuAD scorers, `text_overlap.py` BLEU and ROUGE.
"""
