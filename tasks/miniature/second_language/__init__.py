"""Text and tasks in talu, the second language of the miniature world.

Language models are adapted to it (Yong and Nikoulina 2022): a corpus of it, a
corpus of English without a word of it, entailment in both, and vocabularies for
both.
"""
