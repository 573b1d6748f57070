"""Modules of users may import from where things stood in earlier versions."""

import importlib

import pytest

pytest.importorskip("seqio")


@pytest.mark.parametrize(
  ("module", "name"),
  [
    ("tasks.few_shot", "register_few_shot"),
    ("tasks.prompted", "register_prompts"),
    ("tasks.rows", "RowFiles"),
    ("tasks.text_to_text", "TextToTextTask"),
    ("tasks.unlabelled_text", "register_text_task"),
  ],
)
def test_earlier_names(module, name):
  assert hasattr(importlib.import_module(module), name)
