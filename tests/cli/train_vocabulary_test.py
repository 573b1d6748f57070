import json
import re

import pytest

from transformer_zoo.cli import main as cli
from transformer_zoo.data.vocabularies import Vocabulary


@pytest.fixture
def corpus(tmp_path):
  rows = [{"body": f"number {i} is {i * i} in Ümlaut"} for i in range(200)]
  path = tmp_path / "rows.jsonl"
  path.write_text("\n".join(map(json.dumps, rows)))
  return path


def train(corpus, *options):
  output = corpus.with_name("vocabulary")
  words = ["train-vocabulary", str(corpus), "--output", str(output), *options]
  return cli.main(words), output


def test_the_report_is_printed_and_stored(corpus, capsys):
  options = "--field body --kind wordpiece --size 60 --lower_case --seed 3"
  options += " --max_lines 150 --extra_ids 10 --character_coverage 1"
  code, output = train(corpus, *options.split())
  printed = capsys.readouterr().out
  assert code == 0 and printed == (output / "report.json").read_text()
  report = json.loads(printed)
  assert (report["pieces"], report["size"]) == (60, 70)
  assert (report["lines"], report["lines_learned_from"]) == (200, 150)
  vocabulary = Vocabulary(output)
  assert vocabulary.size == 60
  assert vocabulary.decode(vocabulary.encode("NUMBER")) == "number"


@pytest.mark.parametrize(
  "options, message",
  [
    (
      "--kind bpe --size 90 --field text",
      "line 1 of '.*rows.jsonl' is no JSON",
    ),
    ("--kind bpe --size 9999 --field body", "at most .* pieces, not 9,999"),
    ("--kind bpe", "the following arguments are required: --size"),
    ("--kind bp --size 9", "no kind of vocabulary 'bp'; did you mean 'bpe'"),
  ],
)
def test_errors_are_one_sentence(options, message, corpus, capsys):
  code, output = train(corpus, *options.split())
  assert code == 2 and not output.exists()
  error = capsys.readouterr().err
  assert error.startswith("zoo: error: ") and error.count("\n") == 1
  assert re.search(message, error)
