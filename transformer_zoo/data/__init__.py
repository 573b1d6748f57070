"""Data: prepared record files, and the loader that turns them into batches."""
