"""The miniature world: what there is, what is true of it, how it is told.

`lexicon` and `events` are the words, causes and effects; `world` draws facts
and the parts of the splits from a seed; `grammar` makes phrases. Begin with
`world`.
"""
