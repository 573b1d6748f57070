"""Questions without passages together (Roberts et al. 2020)."""

import seqio

from tasks.benchmarks import closed_book as _tasks  # noqa: F401 (registers what is mixed)
from transformer_zoo.data.mixing import ExamplesProportional

# To choose what to do: validation is a part of the training questions.
seqio.MixtureRegistry.add(
  "closed_book_qa",
  ["trivia_qa_open", "natural_questions_open", "web_questions_open"],
  default_rate=ExamplesProportional(),
)

# For the final figures.
seqio.MixtureRegistry.add(
  "closed_book_qa_test",
  [
    "trivia_qa_open_test",
    "natural_questions_open_test",
    "web_questions_open_test",
  ],
  default_rate=ExamplesProportional(),
)
