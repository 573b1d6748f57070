"""C4 as JSON Lines, as on the Hugging Face hub (allenai/c4), in a data folder.

    c4/en/c4-train.00000-of-01024.json.gz, c4/realnewslike/c4-validation....gz
    {"text": "Beginners BBQ Class ...", "timestamp": "2019-...", "url": ...}
    -> 'Beginners BBQ <extra_id_0> Place ...', '<extra_id_0> Class Taking ...'

The variants of Raffel et al. 2020, table 8, without TFDS. Of each, those files
are read that are there: some of them are a truncated corpus.
"""

from tasks.corpora.unlabelled_text import register_text_task

# Clean English text.
register_text_task(
  "c4_json_lines_span_corruption",
  {
    "train": "c4/en/c4-train.*.json.gz",
    "validation": "c4/en/c4-validation.*.json.gz",
  },
)

# Without the cleaning rules.
register_text_task(
  "c4_noclean_json_lines_span_corruption",
  {
    "train": "c4/en.noclean/c4-train.*.json.gz",
    "validation": "c4/en.noclean/c4-validation.*.json.gz",
  },
)

# With the rules but the one about bad words.
register_text_task(
  "c4_noblocklist_json_lines_span_corruption",
  {
    "train": "c4/en.noblocklist/c4-train.*.json.gz",
    "validation": "c4/en.noblocklist/c4-validation.*.json.gz",
  },
)

# Pages of news sites alone.
register_text_task(
  "c4_realnewslike_json_lines_span_corruption",
  {
    "train": "c4/realnewslike/c4-train.*.json.gz",
    "validation": "c4/realnewslike/c4-validation.*.json.gz",
  },
)

# Pages that Reddit links to alone; not on the hub, but `zoo clean` makes them.
register_text_task(
  "c4_webtextlike_json_lines_span_corruption",
  {
    "train": "c4/webtextlike/c4-train.*.json.gz",
    "validation": "c4/webtextlike/c4-validation.*.json.gz",
  },
)
