"""The embedded default suite: a small world, its corpus and its tasks.

Needs no download: everything is a pure function of seeds. From the words up:
`lexicon` and `events` (the words, causes and effects), `world` (facts and the
disjoint parts of the splits), `grammar`, `chronicle`, `review` and `noise` (the
kinds of documents), `documents` (the corpus), `examples_single`,
`examples_pairs`, `examples_reading` and `examples` (the supervised splits),
`vocabulary`; `corpus` and `supervised` register the SeqIO tasks, and `source`
is where they read.
"""
