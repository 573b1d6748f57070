"""The last steps of every text-to-text task, from strings to token ids."""

import seqio

# What a task lists after its formatting, as the tasks of the t5 package do:
# prepared and cached examples are whole, and trimming leaves room for EOS.
TOKENIZED = (
  seqio.preprocessors.tokenize,
  seqio.CacheDatasetPlaceholder(),
  seqio.preprocessors.append_eos_after_trim,
)
