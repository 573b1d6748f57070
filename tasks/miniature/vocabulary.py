"""The SentencePiece vocabulary of the miniature suite.

`vocabulary.model` beside this file was written by

    python -c 'from tasks.miniature import vocabulary
    vocabulary.train_vocabulary()'

which writes the same bytes each time: the text, its order, the number of
threads and the trainer's settings are fixed (a test trains it again). Pad is
0, EOS 1, unknown 2; there is no BOS. The 100 sentinels are not in the file.
"""

import io
import os
import pathlib
import tempfile

from tasks.miniature.documents.domains import documents

PATH = str(pathlib.Path(__file__).with_name("vocabulary.model"))
SIZE = 1_564
_DOCUMENTS = {
  "chronicle": 12_000,
  "review": 4_000,
  "chronicle_unfiltered": 200,
}
# Words and signs that only the tasks' formats use, so that they can be spelt.
_FORMATS = (
  "cola sst2 nli copa wsc wic squad summarize translate mini_ "
  "sentence: sentence1: sentence2: premise: hypothesis: question: context: "
  "effect: or word: text: referent: which english to talu: * ; ? "
  "unacceptable acceptable negative positive "
  "entailment neutral contradiction 0 1 2 3 4 5 6 7 8 9 . anna's"
)

# Source and target code points: typographic signs become ASCII.
_RULES = "2019\t27\n201C\t22\n201D\t22\nA0\t20\n"


def train_vocabulary(path: str = PATH) -> None:
  """Trains the vocabulary and writes its model file to `path`."""
  # Slow to load, and only training needs them.
  import sentencepiece
  from sentencepiece import sentencepiece_model_pb2

  lines = [
    text
    for domain, count in _DOCUMENTS.items()
    for text in documents(domain, seed=1, count=count)
  ]
  lines += [_FORMATS] * 1_000
  model = io.BytesIO()
  with tempfile.TemporaryDirectory() as folder:
    rules = os.path.join(folder, "rules.tsv")
    pathlib.Path(rules).write_text(_RULES)
    sentencepiece.SentencePieceTrainer.train(
      sentence_iterator=iter(lines),
      model_writer=model,
      model_type="unigram",
      vocab_size=SIZE,
      character_coverage=1.0,
      normalization_rule_tsv=rules,
      pad_id=0,
      eos_id=1,
      unk_id=2,
      bos_id=-1,
      num_threads=1,
      shuffle_input_sentence=False,
      minloglevel=2,
    )
  proto = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
  # Of the rules' file, the model keeps the compiled rules and not the path.
  proto.normalizer_spec.ClearField("normalization_rule_tsv")
  proto.normalizer_spec.name = "miniature"
  pathlib.Path(path).write_bytes(proto.SerializeToString(deterministic=True))
