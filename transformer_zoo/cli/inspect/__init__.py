"""`zoo inspect`: tasks, mixtures, models and batches, shown as text or JSON.

One file a subject. A file imports what it needs when it runs; begin with
`model.py`.
"""
