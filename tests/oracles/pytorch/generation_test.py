"""Outputs of every family for a padded batch, live: make test-oracles.

`zoo infer` on a directory and on its converted run, and `generate` of
`transformers` on the directory that a run becomes, say what `generate` says of
the directory that `transformers` saved.
"""

import json
import shutil

from flax import traverse_util
import numpy as np
import pytest
import tokenizers
from tokenizers import models
from tokenizers import pre_tokenizers
from tokenizers import processors
import torch
import transformers

from tests.golden import families
from tests.oracles.pytorch import huggingface
from transformer_zoo.checkpoints import converted_run
from transformer_zoo.cli import main as cli
from transformer_zoo.interop.huggingface import family_of
from transformer_zoo.tensors.lazy_tensors import Tensor

MADE = 10
TEXTS = [" ".join(f"w{i}" for i in ids) for ids in (
  [7], [9, 21, 3, 3, 14, 30, 8, 25, 11], [5, 12], [33, 4, 17, 28, 6],
)]  # fmt: skip
# Name -> (our options, theirs).
WAYS = {
  "greedy": ({}, {}),
  "constrained_beams": (
    {
      "num_beams": 4,
      "beam_rules": "transformers",
      "alpha": 0.6,
      "no_repeat_ngram_size": 2,
      "min_length": 5,
    },
    {
      "num_beams": 4,
      "length_penalty": 0.6,
      "no_repeat_ngram_size": 2,
      "min_new_tokens": 4,
    },
  ),
  "bart_summaries": (
    {
      "num_beams": 4,
      "beam_rules": "transformers",
      "alpha": 2.0,
      "no_repeat_ngram_size": 3,
      "min_length": 4,
      "max_length": 9,
      "forced_prefix": (9,),
      "forced_end": True,
      "early_stopping": True,
    },
    {
      "num_beams": 4,
      "length_penalty": 2.0,
      "no_repeat_ngram_size": 3,
      "min_new_tokens": 3,
      "max_new_tokens": 9,
      "forced_bos_token_id": 9,
      "forced_eos_token_id": 1,
      "early_stopping": True,
    },
  ),
}
LLAMAS = ("llama", "mistral")
# No tokenizer.json has the ids of both of its sides.
TWO_VOCABULARIES = "marian_two_vocabularies", "t5gemma_other_options"
NAMES = [name for name in families.CONFIGS if name not in TWO_VOCABULARIES]
TYPES = {name: families.CONFIGS[name]["model_type"] for name in NAMES}
# Beams meet the caches of each family; its options are beside them in
# families_test.py and in the greedy way.
ONE = {kind: name for name, kind in reversed(TYPES.items())}
ONE_OF_EACH = ONE.values()
T5S = ("t5", "mt5", "umt5", "switch_transformers", "longt5")
ENCODER_DECODERS = (*T5S, "bart", "mbart", "marian", "t5gemma", "t5gemma2")
CASES = [
  (name, way)
  for name in NAMES
  for way in WAYS
  if way == "greedy" or name in ONE_OF_EACH
  # A language model's first token is its prompt's.
  if way != "bart_summaries" or TYPES[name] in ENCODER_DECODERS
]


def write_tokenizer(folder, config) -> None:
  """Words; EOS behind what an encoder reads, BOS before a Llama's prompt."""
  pieces = [f"w{i}" for i in range(config["vocab_size"])]
  special = {"pad_token": config["pad_token_id"], "eos_token": 1}
  special["bos_token"] = 0 if config["pad_token_id"] else 2
  names = {"pad_token": "<pad>", "eos_token": "</s>", "bos_token": "<s>"}
  for role, i in special.items():
    pieces[i] = names[role]
  tokenizer = tokenizers.Tokenizer(
    # What it reads but has not is a word too, as no output is left out.
    models.WordLevel({piece: i for i, piece in enumerate(pieces)}, pieces[3])
  )
  tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
  tokenizer.add_special_tokens(list(names.values()))
  whole = {
    **dict.fromkeys(LLAMAS, "<s> $A"),
    **dict.fromkeys(("bart", "mbart"), "<s> $A </s>"),
    **dict.fromkeys((*T5S, "marian", "t5gemma", "t5gemma2"), "$A </s>"),
  }.get(config["model_type"])
  if whole:
    tokenizer.post_processor = processors.TemplateProcessing(
      single=whole, special_tokens=[("<s>", special["bos_token"]), ("</s>", 1)]
    )
  tokenizer.save(str(folder / "tokenizer.json"))
  said = {"tokenizer_class": "PreTrainedTokenizerFast", **names}
  (folder / "tokenizer_config.json").write_text(json.dumps(said))


@pytest.fixture(scope="module")
def folders(request, tmp_path_factory):
  """What they save, a run of it, and directories of it and of a new run."""
  config, model, params, _ = families.setting(request.param)
  if "expert_capacity" in config:
    # Theirs gives places to padding, and drops tokens while it writes.
    config = {**config, "expert_capacity": 64}
  root = tmp_path_factory.mktemp(request.param)
  saved, run, back, own, new = (
    root / name for name in ("saved", "run", "back", "own", "new")
  )
  huggingface.load(config, params).save_pretrained(saved)
  write_tokenizer(saved, config)
  assert cli.main(["convert", str(saved), str(run)]) == 0
  assert cli.main(["convert", str(run), str(back)]) == 0
  # As if it had been trained here.
  architecture = family_of(config).architecture(config)
  converted_run.write_run(
    own,
    architecture.gin_files,
    architecture.as_overrides(),
    {
      f"params/{name}": Tensor.of(np.asarray(leaf))
      for name, leaf in traverse_util.flatten_dict(params, sep="/").items()
    },
  )
  if TYPES[request.param] in ENCODER_DECODERS:
    with open(own / "config.gin", "a", encoding="utf-8") as file:
      start = config["decoder_start_token_id"]
      file.write(f"EncoderDecoderFeatures.bos_id = {start}\n")
  vocabulary = f"--vocabulary={saved / 'tokenizer.json'}"
  assert cli.main(["convert", str(own), str(new), vocabulary]) == 0
  return {"saved": saved, "run": run, "back": back, "new": new}


def generated(folder, texts=TEXTS, **options) -> list[str]:
  """What their classes make of a padded batch."""
  model = huggingface.open_directory(folder)
  said = json.loads((folder / "config.json").read_text())
  if model.config.model_type == "umt5":
    model.config.tie_word_embeddings = said["tie_word_embeddings"]
  has_encoder = model.config.is_encoder_decoder
  # By name: of any Qwen 2, AutoTokenizer makes a byte-level BPE.
  tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(
    folder, padding_side="right" if has_encoder else "left"
  )
  batch = tokenizer(texts, return_tensors="pt", padding=True)
  batch.pop("token_type_ids", None)
  with torch.no_grad():
    made = model.generate(
      **batch,
      do_sample=False,
      pad_token_id=tokenizer.pad_token_id,
      eos_token_id=tokenizer.eos_token_id,
      # Version 5.23 makes as many caches as the encoder has layers.
      use_cache=not has_encoder,
      **{"max_new_tokens": MADE, **options},
    )
  made = made[:, 1 if has_encoder else batch.input_ids.shape[1] :]
  return tokenizer.batch_decode(made, skip_special_tokens=True)


def inferred(folder, options, capsys) -> list[str]:
  lengths = f"--gin.TASK_FEATURE_LENGTHS={{'inputs': 16, 'targets': {MADE}}}"
  words = [f"--gin.DecodingOptions.{k}={v!r}" for k, v in options.items()]
  capsys.readouterr()
  words = ["infer", f"--checkpoint={folder}", "--json", lengths, *words]
  assert cli.main([*words, *TEXTS]) == 0
  lines = capsys.readouterr().out.splitlines()
  return [json.loads(line)["prediction"] for line in lines]


@pytest.mark.parametrize("folders, way", CASES, indirect=["folders"], ids=str)
def test_outputs(folders, way, capsys):
  ours, theirs = WAYS[way]
  expected = generated(folders["saved"], **theirs)
  assert inferred(folders["run"], ours, capsys) == expected
  if way == "greedy":  # The directories hold the same model.
    assert inferred(folders["saved"], ours, capsys) == expected
    for folder in ("back", "new"):
      assert generated(folders[folder], **theirs) == expected


# Of a generation_config.json. A forced first token comes behind a prompt of one
# token alone, whatever the padding beside it.
FORCED = [
  {"forced_bos_token_id": 9},
  {"forced_eos_token_id": 1},
  {"forced_eos_token_id": 8, "num_beams": 2},
  {"forced_bos_token_id": 9, "forced_eos_token_id": 8, "num_beams": 2},
  {"forced_bos_token_id": 9, "num_beams": 3, "repetition_penalty": 1.5},
]


@pytest.mark.parametrize(
  ("folders", "said"),
  [
    *((ONE["gpt2"], said) for said in FORCED),
    (ONE["llama"], FORCED[3]),
    (ONE["bart"], FORCED[3]),
  ],
  indirect=["folders"],
  ids=str,
)
def test_forced_tokens_of_a_directory(folders, said, tmp_path, capsys):
  shutil.copytree(folders["saved"], tmp_path / "saved")
  path = tmp_path / "saved" / "generation_config.json"
  content = json.loads(path.read_text()) | {"max_new_tokens": MADE, **said}
  path.write_text(json.dumps(content))
  expected = [generated(tmp_path / "saved", [text])[0] for text in TEXTS]
  found = inferred(tmp_path / "saved", {}, capsys)
  assert found == expected
