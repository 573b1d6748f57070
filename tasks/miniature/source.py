"""The sources of the suite's SeqIO tasks: lists and generators."""

from collections.abc import Callable
import hashlib
import inspect
import pathlib

import seqio
import tensorflow as tf

from tasks.miniature import facts
from tasks.miniature import vocabulary
from tasks.miniature.documents import domains
from tasks.miniature.examples import splits
from transformer_zoo.data import vocabularies

# Documents of every corpus task; the validation documents follow the others.
NUM_DOCUMENTS = {"train": 100_000, "validation": 600}

_vocabulary = vocabularies.Vocabulary(vocabulary.PATH).to_seqio()
FEATURES = {
  "inputs": seqio.Feature(vocabulary=_vocabulary, add_eos=True),
  "targets": seqio.Feature(vocabulary=_vocabulary, add_eos=True),
}


class GeneratedSource(seqio.FunctionDataSource):
  """A source whose records change when the code of the suite changes."""

  describes_files = True  # There are none: its rows are generated.

  def fingerprint(self) -> str:
    """Returns a hash of the suite's code and of this source's arguments."""
    digest = hashlib.sha256(self._arguments.encode())
    for path in sorted(pathlib.Path(__file__).parent.rglob("*.py")):
      digest.update(path.read_bytes())
    return digest.hexdigest()

  def __init__(self, read: Callable, arguments: str, sizes: dict[str, int]):
    super().__init__(read, splits=tuple(sizes), num_input_examples=sizes)
    self._arguments = arguments


def corpus_source(domain: str) -> GeneratedSource:
  """Returns the source of unlabelled documents `{"text"}` of a domain."""

  def read(split, shuffle_files=False, seed=None):
    del shuffle_files, seed  # Documents are in random order already.
    start = 0 if split == "train" else NUM_DOCUMENTS["train"]

    texts = domains.documents(domain, start=start, count=NUM_DOCUMENTS[split])
    return tf.data.Dataset.from_tensor_slices({"text": list(texts)})

  return GeneratedSource(read, domain, NUM_DOCUMENTS)


def facts_source() -> GeneratedSource:
  """Returns the source of documents `{"text"}` of facts about people."""
  sizes = {"train": 20_000, "validation": 200}

  def read(split, shuffle_files=False, seed=None):
    del shuffle_files, seed
    texts = facts.documents(sizes[split], seed=split == "train")
    return tf.data.Dataset.from_tensor_slices({"text": texts})

  return GeneratedSource(read, "facts", sizes)


def examples_source(
  write: Callable,
  *,
  stream: int,
  inputs: str,
  targets: str,
  own_words: bool = True,
  sizes: dict[str, int] = splits.SIZES,
) -> GeneratedSource:
  """Returns the source of one supervised task, in text-to-text form.

  Args:
    write: the example writer.
    stream: the number of the task's random choices, one per task.
    inputs: the text of the input, with `{field}` of the raw example.
    targets: the text of the target, in the same way.
    own_words: True if the open words of the split are in no other split.
    sizes: split -> number of examples.

  Returns:
    A source of `{"idx", "inputs", "targets"}` and, if the raw example has
    them, `"answers"`. With words of their own, the examples of validation are
    also in the splits `validation_facts` and `validation_combinations`.
  """

  def read(split, shuffle_files=False, seed=None):
    del shuffle_files, seed  # The examples are in random order already.
    whole, _, kind = split.partition("_")
    raw = splits.examples(
      write, stream=stream, split=whole, own_words=own_words, sizes=sizes
    )
    raw = [e for n, e in enumerate(raw) if kind in ("", splits.kind(n))]
    columns = {
      "idx": tf.range(len(raw)),
      "inputs": [inputs.format(**example) for example in raw],
      "targets": [targets.format(**example) for example in raw],
    }
    if "answers" in raw[0]:
      columns["answers"] = tf.ragged.constant([e["answers"] for e in raw])
    return tf.data.Dataset.from_tensor_slices(columns)

  arguments = repr(
    (inspect.getsource(write), stream, inputs, targets, own_words, sizes)
  )
  counts = dict(sizes)
  if own_words:
    kinds = [splits.kind(n) for n in range(sizes["validation"])]
    for kind in ("facts", "combinations"):
      counts[f"validation_{kind}"] = kinds.count(kind)
  return GeneratedSource(read, arguments, counts)
