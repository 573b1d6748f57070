"""The unlabelled text of the suite, by domain.

`chronicle` writes the documents about the world, `review` opinions and news,
`noise` the litter of the web; `domains` mixes them. Begin with `domains`.
"""
