"""The embedded default suite: a small world, its corpus and its tasks.

Needs no download: everything is a pure function of seeds. From the words up:
`world` (words, facts, the disjoint parts of the splits), `documents` (the
corpus), `examples` (the supervised splits), `facts` and `false_facts` (people
of whom facts are learnt and edited), `probes` (pairs and facts that a model is
asked), `vocabulary`; `corpus`, `supervised` and
`forms` register the SeqIO tasks, `source` is where they read. Further rooms
have tasks for encoders, for writers and in a second language, and taggers.
"""
