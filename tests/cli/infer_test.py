"""`zoo infer` with its model replaced."""

import io
import types

from transformer_zoo import config
from transformer_zoo.cli import checkpoint_arguments
from transformer_zoo.cli import main


def test_all_adapters_answer_what_is_read_once(monkeypatch, capsys):
  stdin = types.SimpleNamespace(
    buffer=io.BytesIO(b"red\nblue\n"), isatty=lambda: False
  )
  monkeypatch.setattr("sys.stdin", stdin)
  monkeypatch.setattr(
    checkpoint_arguments,
    "of_each_adapter",
    lambda arguments: (
      (text.partition("=")[0], arguments) for text in arguments.adapter
    ),
  )
  monkeypatch.setattr(checkpoint_arguments, "load_for_inference", lambda *_: ())
  inference = types.SimpleNamespace(
    answers=lambda examples, **_: [
      {**example, "prediction": example["inputs"], "score": 0.0}
      for example in examples
    ]
  )
  monkeypatch.setattr(config, "call", lambda _: inference)
  words = ["infer", "--checkpoint=.", "--adapter=one=a", "--adapter=two=b"]
  assert not main.main(words)
  assert capsys.readouterr().out.splitlines() == [
    *("adapter one:", "red", "blue"),
    *("adapter two:", "red", "blue"),
  ]
