"""The miniature world: its words, its facts and its grammar.

`lexicon` and `events` are the words, causes and effects; `world` draws facts
and the parts of the splits from a seed; `grammar` makes phrases. Begin with
`world`.
"""
