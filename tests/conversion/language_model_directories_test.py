"""Hugging Face directories of language models: what begins and ends a text.

Their config.json, generation_config.json and tokenizer_config.json each say
some of it, and do not always agree, as in what is published.
"""

import json

from flax import traverse_util
import pytest
import tokenizers
from tokenizers import models
from tokenizers import pre_tokenizers
from tokenizers import processors

from tests import tiny_models
from transformer_zoo.checkpoints import converted_run
from transformer_zoo.conversion.convert import convert
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import family_of
from transformer_zoo.interop.huggingface import writing
from transformer_zoo.runs.loading import restoration
from transformer_zoo.runs.loading.initial_checkpoint import InitialCheckpoint
from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.training import state

CHAT = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def write_directory(folder, kind, architecture, special, config):
  """Random parameters; words w3, w4, ... behind the special pieces."""
  model, _ = tiny_models.build(architecture, HEAD_DIM=6, MLP_DIM=96)
  family = family_of({"model_type": kind})
  parameters = traverse_util.flatten_dict(
    tiny_models.random_parameters(model), sep="/"
  )
  folder.mkdir()
  writing.write_directory(
    folder,
    family,
    {**family.config(model), **config},
    {name: Tensor.of(array) for name, array in parameters.items()},
  )
  pieces = [*special, *(f"w{i}" for i in range(len(special), 48))]
  tokenizer = tokenizers.Tokenizer(
    models.WordLevel({piece: i for i, piece in enumerate(pieces)}, special[0])
  )
  tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
  tokenizer.add_special_tokens(list(special))
  tokenizer.save(str(folder / "tokenizer.json"))
  return model


@pytest.mark.slow
def test_padding_that_the_files_disagree_on_is_the_vocabularys(tmp_path, infer):
  """Qwen2's configuration has no padding, its tokenizer another than EOS."""
  folder = tmp_path / "theirs"
  said = {"eos_token_id": 2, "pad_token_id": None}
  write_directory(folder, "llama", "llama", CHAT, said)
  stated = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
  (folder / "tokenizer_config.json").write_text(json.dumps(stated))
  vocabulary = Vocabulary(folder)
  assert (vocabulary.eos_id, vocabulary.pad_id) == (2, 0)
  convert(folder, tmp_path / "run", report=lambda line: None)
  found = [infer(place, "w7 w9 w7") for place in (folder, tmp_path / "run")]
  assert found[0] == found[1] and len(found[0]) == 1


def test_the_one_end_of_a_configuration_ends(tmp_path):
  """Where the tokenizer's files do not name it."""
  folder = tmp_path / "theirs"
  said = {"eos_token_id": 2, "pad_token_id": 0}
  model = write_directory(folder, "llama", "llama", CHAT, said)
  assert Vocabulary(folder).eos_id == 0
  told = converted_run.defaults(model, folder, "infer")
  assert "DecodingOptions.end_ids=(2,)" in told
  stated = {"eos_token": {"content": "<|im_end|>", "lstrip": False}}
  (folder / "special_tokens_map.json").write_text(json.dumps(stated))
  copy = folder.rename(tmp_path / "copy")  # Vocabularies are read once.
  assert Vocabulary(copy).eos_id == 2
  told = converted_run.defaults(model, copy, "infer")
  assert not [line for line in told if "end_ids" in line]


@pytest.mark.slow
def test_a_vocabulary_without_any_end(tmp_path, infer):
  """GPT's: texts are scored as they are, and outputs are as long as allowed."""
  folder = tmp_path / "theirs"
  write_directory(folder, "openai-gpt", "gpt_1", ("<unk>",), {})
  assert Vocabulary(folder).eos_id is None
  (scored,) = infer(folder, "--score", "w7 w9\tw4 w5 w6")
  assert scored["target_tokens"] == 3
  (free,) = infer(folder, "w7 w9")
  (held,) = infer(folder, "--gin.DecodingOptions.min_length=3", "w7 w9")
  assert free == held and len(free["prediction"].split()) == 8


def with_another_piece(folder, piece, **stated):
  """Adds a special piece behind the rows of the embedding."""
  path = str(folder / "tokenizer.json")
  tokenizer = tokenizers.Tokenizer.from_file(path)
  tokenizer.add_special_tokens([piece])
  tokenizer.save(path)
  (folder / "tokenizer_config.json").write_text(json.dumps(stated))


@pytest.mark.slow
def test_padding_that_the_embedding_has_no_row_for(tmp_path, infer, capsys):
  """Many copies of Llama 2: <pad> is id 32,000 of 32,000 rows."""
  plain, padded = tmp_path / "plain", tmp_path / "padded"
  for folder in (plain, padded):
    write_directory(folder, "llama", "llama", CHAT, {"eos_token_id": 0})
  with_another_piece(padded, "<pad>", pad_token="<pad>")
  convert(padded, tmp_path / "run", report=lambda line: None)
  assert capsys.readouterr().err == (
    f"passed over: 1 piece (<pad>) of {padded} that the "
    "embedding has no rows for and nothing needs\n"
  )
  assert infer(plain, "w7 w9") == infer(tmp_path / "run", "w7 w9")


@pytest.mark.slow
def test_an_end_that_the_embedding_has_no_row_for(tmp_path, infer, zoo):
  folder = tmp_path / "theirs"
  write_directory(folder, "llama", "llama", CHAT, {"eos_token_id": 0})
  with_another_piece(folder, "<end>", eos_token="<end>")
  code, _, error = zoo("infer", f"--checkpoint={folder}", "w7 w9")
  assert code == 2
  assert "a checkpoint gets further rows by `zoo convert --vocab" in error
  number = Vocabulary(folder).size
  run = tmp_path / "run"
  convert(folder, run, vocabulary_size=number, report=lambda line: None)
  assert infer(run, "w7 w9")


def test_what_a_language_model_was_first_fed_is_fed_again(tmp_path):
  """Rows that begin with padding would be unlike all that Llama has read."""
  folder = tmp_path / "theirs"
  model = write_directory(folder, "llama", "llama", CHAT, {"eos_token_id": 0})
  boxed = state.abstract_variables(model)
  vocabulary = Vocabulary(folder)
  initial = InitialCheckpoint(str(folder), other_fields=["pad_id"])
  # The tokenizer of GPT-2 puts nothing there: whatever is fed, is.
  restoration.open_initial(initial, model, boxed, [vocabulary], start_id=0)
  path = str(folder / "tokenizer.json")
  tokenizer = tokenizers.Tokenizer.from_file(path)
  tokenizer.post_processor = processors.TemplateProcessing(
    single=f"{CHAT[1]} $A", special_tokens=[(CHAT[1], 1)]
  )
  tokenizer.save(path)
  restoration.open_initial(initial, model, boxed, [vocabulary], start_id=1)
  restoration.open_initial(initial, model, boxed, [vocabulary])
  with pytest.raises(UserError) as error:
    restoration.open_initial(initial, model, boxed, [vocabulary], start_id=0)
  assert str(error.value) == (
    f"the decoder of the Hugging Face directory {str(folder)!r} was first fed "
    "id 1, and would be fed 0 here; set LanguageModelFeatures.bos_id=1, or "
    "the bos_id of the features that CONVERTER names"
  )
  run = tmp_path / "run"
  convert(folder, run, report=lambda line: None)
  initial = InitialCheckpoint(str(run))
  restoration.open_initial(initial, model, boxed, [vocabulary], start_id=1)
  with pytest.raises(UserError, match="id 1, and would be fed 0 here"):
    restoration.open_initial(initial, model, boxed, [vocabulary], start_id=0)
