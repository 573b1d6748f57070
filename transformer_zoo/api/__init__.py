"""The Python interface: `import transformer_zoo as zoo`, then `zoo.load`.

`loading.py` opens a checkpoint as a `Model` (`model.py`); `runs.py` trains and
evaluates as gin files say, `studies.py` compares, `inputs.py` shows what a
model reads. Commands parse their words and call the same functions. The room
imports all others but `cli`; nothing is imported before it is used.
"""
