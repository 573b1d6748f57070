"""Files of text documents, and tasks over them, for tests."""

import gzip
import json
import random

import seqio

from tasks.corpora import unlabelled_text

NAMES = ("a.jsonl", "b.jsonl.gz", "c.txt", "d.jsonl", "e.jsonl.gz")
SENTENCES = (
  "The cat sat on a mat. Dogs bark!  ",
  "Ünï the cat sat;\tand 3 dogs\u00a0bark. Why? ",
  "on a mat while dogs bark\n\nMr. Ünï sat. ",
  "\u2003ﬁve cats … 猫。犬が吠える。 ",
)


def write_files(folder, number=40):
  """Writes five files; the documents of c.txt have no line breaks."""
  folder.mkdir(exist_ok=True)
  rng = random.Random(0)
  texts = {}
  for place, name in enumerate(NAMES):
    texts[name] = [
      f"{place} {i} " + "".join(rng.choices(SENTENCES, k=rng.randint(1, 9)))
      for i in range(number * (place + 1))
    ]
    if name.endswith(".txt"):
      texts[name] = [" ".join(text.split()) for text in texts[name]]
      content = "\n".join(texts[name])
    else:
      content = "".join(json.dumps({"text": t}) + "\n" for t in texts[name])
    data = content.encode()
    (folder / name).write_bytes(
      gzip.compress(data) if name.endswith(".gz") else data
    )
  return [text for name in NAMES for text in texts[name]]


def register(name, folder, vocabulary, **kwargs):
  """Registers a task of a split 'train' over all files of a folder."""
  feature = seqio.Feature(vocabulary.to_seqio(), required=False)
  return unlabelled_text.register_text_task(
    name,
    {"train": str(folder / "*")},
    output_features={"inputs": feature, "targets": feature},
    **kwargs,
  )
