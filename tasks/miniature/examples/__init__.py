"""The raw examples of the supervised tasks.

`single`, `pairs` and `reading` write one example each, about a sentence, a
sentence and a claim, or a text; `splits` draws the splits of a task, which
share no example. Begin with `splits`.
"""
