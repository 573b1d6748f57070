"""The vocabularies of talu, beside the suite's.

- `own.model`: pieces of talu, which take the place of the suite's or keep what
  both have.
- `extended.model`: the suite's pieces, and behind them pieces of talu alone.

The files were written by

    python -c 'from tasks.miniature.second_language import vocabulary
    vocabulary.train()'

which writes the same bytes each time. Pad is 0, EOS 1, unknown 2, as in the
suite's.
"""

import io
import pathlib

from tasks.miniature import vocabulary as of_suite
from tasks.miniature.second_language import writing

_FOLDER = pathlib.Path(__file__).parent
OWN, EXTENDED = str(_FOLDER / "own.model"), str(_FOLDER / "extended.model")
SIZE = 210
_DOCUMENTS = 6_000
# Letters and signs that only English and the tasks' formats have.
_FORMATS = (
  "abcdefghijklmnopqrstuvwxyz : _ ' 0 1 2 3 4 5 6 7 8 9 ; * , . ? "
  "premise: claim: entailment neutral contradiction yes no nobody knows"
)


def train(folder: str | pathlib.Path = _FOLDER) -> None:
  """Trains the vocabularies and writes their files to a folder."""
  # Slow to load, and only training needs them.
  import sentencepiece
  from sentencepiece import sentencepiece_model_pb2

  lines = writing.documents("talu", seed=1, count=_DOCUMENTS)
  model = io.BytesIO()
  sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=iter([*lines, *[_FORMATS] * 100]),
    model_writer=model,
    model_type="unigram",
    vocab_size=SIZE,
    character_coverage=1.0,
    normalization_rule_name="identity",
    pad_id=0,
    eos_id=1,
    unk_id=2,
    bos_id=-1,
    num_threads=1,
    shuffle_input_sentence=False,
    minloglevel=2,
  )
  own = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
  extended = sentencepiece_model_pb2.ModelProto.FromString(
    pathlib.Path(of_suite.PATH).read_bytes()
  )
  known = {piece.piece for piece in extended.pieces}
  extended.pieces.extend(p for p in own.pieces if p.piece not in known)
  for name, proto in {OWN: own, EXTENDED: extended}.items():
    path = pathlib.Path(folder) / pathlib.Path(name).name
    path.write_bytes(proto.SerializeToString(deterministic=True))
