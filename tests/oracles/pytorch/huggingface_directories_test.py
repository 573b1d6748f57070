"""Directories of `transformers`, converted and back, live: make test-oracles.

`transformers` saves a model, `zoo convert` makes a run of it and a directory of
that, `zoo infer` answers as their `generate` does.
"""

import json
import shutil

import pytest
import torch
import transformers

from tests import marian_vocabulary
from transformer_zoo.cli import main as cli
from transformer_zoo.interop.huggingface import directory
from transformer_zoo.interop.huggingface import FAMILIES
from transformer_zoo.interop.huggingface import family_of
from transformer_zoo.interop.huggingface import pytorch_files
from transformer_zoo.tensors import safetensors

TEXTS = ["translate English to German: That is good.", "summarize: a b c d e"]
MADE = 12
GREEDY = []
FREELY = "--gin.DecodingOptions.forbidden_ids=()"
BEAMS = [
  "--gin.DecodingOptions.num_beams=4",
  "--gin.DecodingOptions.beam_rules='transformers'",
]


def t5(**options):
  config = transformers.T5Config(
    vocab_size=32128,
    d_model=32,
    d_kv=16,
    d_ff=48,
    num_layers=2,
    num_heads=3,
    decoder_start_token_id=0,
    **options,
  )
  return transformers.T5ForConditionalGeneration(config)


def untied(**options):
  """T5.1.1, whose softmax has a matrix of its own."""
  model = t5(
    feed_forward_proj="gated-gelu", tie_word_embeddings=False, **options
  )
  weight = model.lm_head.weight
  model.lm_head.weight = torch.nn.Parameter(torch.empty_like(weight))
  return model


def gpt2():
  return transformers.GPT2LMHeadModel(
    transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=64)
  )


T5_FILES = {"t5_cc_all_32000/sentencepiece.model": "spiece.model"}
GPT_2_FILES = {
  "gpt2_50257/vocab.json": "vocab.json",
  "gpt2_50257/merges.txt": "merges.txt",
}
MODELS = {
  "t5_1_0": (t5, T5_FILES, "T5Tokenizer"),
  "t5_1_1": (untied, T5_FILES, "T5Tokenizer"),
  "gpt_2": (gpt2, GPT_2_FILES, "GPT2Tokenizer"),
}


def save(folder, shared_data, make, files, kind):
  """A directory of a model with random weights, and its tokenizer's files."""
  torch.manual_seed(0)
  model = make().eval()
  for name, parameter in model.named_parameters():
    scale = 1.0 if "norm" in name or "ln_" in name else 0.3
    parameter.data = scale * torch.randn_like(parameter)
  model.save_pretrained(folder, max_shard_size="1MB")
  for source, target in files.items():
    shutil.copy(shared_data / "vocab" / source, folder / target)
  (folder / "tokenizer_config.json").write_text(
    json.dumps({"tokenizer_class": kind, "eos_token": model_end(kind)})
  )
  return model


def model_end(kind):
  return "</s>" if kind == "T5Tokenizer" else "<|endoftext|>"


def load(folder):
  config = transformers.AutoConfig.from_pretrained(folder)
  cls = (
    transformers.AutoModelForSeq2SeqLM
    if config.is_encoder_decoder
    else transformers.AutoModelForCausalLM
  )
  model, loaded = cls.from_pretrained(folder, output_loading_info=True)
  assert not any(loaded.values()), loaded
  return model.eval()


def save_marian(folder):
  """One that forbids its padding, which is often the likeliest."""
  folder.mkdir(exist_ok=True)
  ids = marian_vocabulary.write(folder)
  padding = ids["<pad>"]
  torch.manual_seed(0)
  model = transformers.MarianMTModel(
    transformers.MarianConfig(
      vocab_size=len(ids),
      d_model=32,
      encoder_layers=2,
      decoder_layers=2,
      encoder_attention_heads=4,
      decoder_attention_heads=4,
      encoder_ffn_dim=48,
      decoder_ffn_dim=48,
      activation_function="swish",
      scale_embedding=True,
      pad_token_id=padding,
      eos_token_id=ids["</s>"],
      decoder_start_token_id=padding,
      forced_eos_token_id=None,
    )
  )
  for name, parameter in model.named_parameters():
    if "norm" not in name:
      # What a token is counts less than what the layers make of it.
      scale = 0.2 if "shared" in name else 1.0
      parameter.data = scale * torch.randn_like(parameter)
  model.final_logits_bias[0, padding] = 3.0
  model.generation_config.bad_words_ids = [[padding]]
  model.generation_config.forced_eos_token_id = None
  model.save_pretrained(folder)
  tokenizer = {"tokenizer_class": "MarianTokenizer"}
  (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))


def generated(folder, text, **options):
  """What their pipeline makes of a text: the new part of it."""
  model = load(folder)
  tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
  inputs = tokenizer(text, return_tensors="pt")
  made = model.generate(
    **inputs,
    max_new_tokens=MADE,
    do_sample=False,
    pad_token_id=model.config.pad_token_id or 0,
    **options,
  )[0]
  if not model.config.is_encoder_decoder:
    made = made[inputs.input_ids.shape[1] :]
  return tokenizer.decode(made, skip_special_tokens=True)


def inferred(checkpoint, options, capsys, texts=TEXTS):
  """What `zoo infer` says, and the score of the best output."""
  capsys.readouterr()
  lengths = f"--gin.TASK_FEATURE_LENGTHS={{'inputs': 32, 'targets': {MADE}}}"
  words = ["infer", "--checkpoint", str(checkpoint), "--json", lengths]
  assert cli.main([*words, *options, *texts]) == 0
  lines = capsys.readouterr().out.splitlines()
  return [json.loads(line)["prediction"] for line in lines]


@pytest.mark.parametrize("name", MODELS)
def test_there_and_back(name, tmp_path, shared_data, capsys):
  theirs, run, back = (tmp_path / part for part in ("theirs", "run", "back"))
  model = save(theirs, shared_data, *MODELS[name])
  assert cli.main(["convert", str(theirs), str(run)]) == 0
  assert cli.main(["convert", str(run), str(back)]) == 0
  again = load(back).state_dict()
  for key, value in model.state_dict().items():
    assert torch.equal(again[key], value), key
  for options, ours in (({}, GREEDY), ({"num_beams": 4}, BEAMS)):
    expected = [generated(theirs, text, **options) for text in TEXTS]
    assert [generated(back, text, **options) for text in TEXTS] == expected
    assert inferred(run, ours, capsys) == expected
    assert all(expected)


def test_marian(tmp_path, capsys):
  """Its vocabulary and its forbidden padding come from the directory."""
  theirs, run, back = (tmp_path / part for part in ("theirs", "run", "back"))
  save_marian(theirs)
  assert cli.main(["convert", str(theirs), str(run)]) == 0
  assert cli.main(["convert", str(run), str(back)]) == 0
  texts = [">>fra<< the small house is red", *marian_vocabulary.SOURCES, "漢"]
  for options, ours in (({}, GREEDY), ({"num_beams": 4}, BEAMS)):
    expected = [generated(theirs, text, **options) for text in texts]
    assert [generated(back, text, **options) for text in texts] == expected
    for checkpoint in (theirs, run) if ours == GREEDY else (run,):
      assert inferred(checkpoint, ours, capsys, texts) == expected
    assert all(expected)
    if ours == GREEDY:
      assert inferred(run, [FREELY], capsys, texts) != expected


@pytest.mark.parametrize(
  "said",
  [
    {"num_beams": 3, "early_stopping": True},
    {"num_beams": 4, "renormalize_logits": True},
    {"num_beams": 2, "length_penalty": 0.5, "forced_bos_token_id": 5},
    {"min_length": 4, "no_repeat_ngram_size": 2},
    {"repetition_penalty": 1.5},
    {"num_beams": 3, "repetition_penalty": 1.2},
  ],
)
def test_marian_as_its_directory_says(said, tmp_path, capsys):
  """Without any option, as `generate` without any."""
  save_marian(tmp_path)
  path = tmp_path / "generation_config.json"
  content = json.loads(path.read_text())
  content |= {**said, "forced_eos_token_id": content["eos_token_id"]}
  path.write_text(json.dumps({**content, "max_length": MADE}))
  model = load(tmp_path)
  tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
  texts = [">>fra<< the small house is red", *marian_vocabulary.SOURCES]
  made = [
    model.generate(**tokenizer(text, return_tensors="pt"))[0] for text in texts
  ]
  # Some have no room for more.
  assert max(map(len, made)) == MADE
  capsys.readouterr()
  words = ["infer", "--checkpoint", str(tmp_path), "--json", *texts]
  assert cli.main(words) == 0
  answers = capsys.readouterr().out.splitlines()
  assert [json.loads(line)["prediction"] for line in answers] == [
    tokenizer.decode(ids, skip_special_tokens=True) for ids in made
  ]


@pytest.mark.parametrize("kind", [f.kind for f in FAMILIES])
def test_every_attribute_of_their_configurations_is_known(kind):
  """Nothing that their classes say of themselves, or of generation."""
  config = transformers.CONFIG_MAPPING[kind]().to_dict()
  generation = transformers.GenerationConfig().to_dict()
  del generation["_from_model_config"]  # Is of that class alone.
  family = family_of(config)
  ids = {name: config.get(name) for name in ("pad_token_id", "eos_token_id")}
  expected = family.architecture({"model_type": kind, **ids})
  assert family.architecture({**generation, **config}) == expected


@pytest.mark.parametrize("kept_as_archive", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_files_of_pytorch(kept_as_archive, dtype, tmp_path):
  """Those of PyTorch since 1.6 and before; tied weights are in them twice."""
  torch.manual_seed(0)
  model = t5().to(dtype)
  model.config.save_pretrained(tmp_path)
  torch.save(
    model.state_dict(),
    tmp_path / directory.PYTORCH,
    _use_new_zipfile_serialization=kept_as_archive,
  )
  found = directory.open_directory(tmp_path)
  model.save_pretrained(tmp_path / "safe")
  expected = safetensors.read(tmp_path / "safe" / directory.SAFETENSORS)
  assert found.tensors.keys() == expected.keys()
  for name, tensor in expected.items():
    assert found.tensors[name].dtype == tensor.dtype
    assert (found.tensors[name].read() == tensor.read()).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_parameters_in_a_file_of_pytorch(dtype, tmp_path):
  """What a module's own parameters are: tensors that require a gradient."""
  model = t5().to(dtype)
  model.config.save_pretrained(tmp_path)
  state = dict(model.named_parameters())
  assert all(parameter.requires_grad for parameter in state.values())
  torch.save(state, tmp_path / directory.PYTORCH)
  found = directory.open_directory(tmp_path)
  for name, tensor in found.tensors.items():
    read = tensor.read().astype("float32")
    assert (read == state[name].detach().float().numpy()).all()


@pytest.mark.parametrize("kept_as_archive", [True, False])
def test_tensors_of_every_form_in_a_file_of_pytorch(kept_as_archive, tmp_path):
  table = torch.arange(60.0).reshape(12, 5)
  state = {
    "whole": table,
    "rows": table[3:7],
    "transposed": table.T,
    "strided": table[::2, 1::2],
    "repeated": torch.tensor([1.0, 2.0]).expand(3, 2),
    "empty": torch.zeros(0, 3),
    "scalar": torch.tensor(3.5),
    "bfloat16": torch.randn(4, 6).to(torch.bfloat16),
    "float16": torch.randn(7).half(),
    "float64": torch.randn(3).double(),
    "int64": torch.arange(5),
    "bool": torch.tensor([True, False]),
  }
  path = tmp_path / directory.PYTORCH
  torch.save(state, path, _use_new_zipfile_serialization=kept_as_archive)
  found = pytorch_files.read(path)
  assert list(found) == list(state)
  for name, expected in state.items():
    read = found[name].read()
    assert str(read.dtype) == str(expected.dtype).removeprefix("torch.")
    assert read.astype("float64").tolist() == expected.double().tolist(), name


def test_shards_of_pytorch(tmp_path):
  """As large checkpoints of 2021 to 2023 were published."""
  model = t5()
  model.config.save_pretrained(tmp_path)
  state = model.state_dict()
  names = {0: "pytorch_model-00001-of-00002.bin",
           1: "pytorch_model-00002-of-00002.bin"}  # fmt: skip
  places = {name: names[i % 2] for i, name in enumerate(state)}
  for file in names.values():
    shard = {name: state[name] for name in state if places[name] == file}
    torch.save(shard, tmp_path / file)
  index = tmp_path / f"{directory.PYTORCH}{directory.INDEX}"
  index.write_text(json.dumps({"metadata": {}, "weight_map": places}))
  found = directory.open_directory(tmp_path)
  assert found.config["tie_word_embeddings"]
  for name, tensor in found.tensors.items():
    assert (tensor.read() == state[name].numpy()).all()
  (tmp_path / names[1]).unlink()
  with pytest.raises(ValueError, match=f"shards of its index: {names[1]}"):
    directory.open_directory(tmp_path)


def test_a_pickle_is_not_executed(tmp_path):
  class Harmful:
    def __reduce__(self):
      return (tmp_path / "executed").write_text, ("",)

  t5().config.save_pretrained(tmp_path)
  torch.save({"a": Harmful()}, tmp_path / directory.PYTORCH)
  with pytest.raises(ValueError, match="no whole file of PyTorch tensors"):
    directory.open_directory(tmp_path)
  assert not (tmp_path / "executed").exists()


def test_a_truncated_file_of_pytorch(tmp_path):
  model = t5()
  model.config.save_pretrained(tmp_path)
  path = tmp_path / directory.PYTORCH
  torch.save(model.state_dict(), path)
  path.write_bytes(path.read_bytes()[:-1000])
  with pytest.raises(ValueError, match="no whole file of PyTorch tensors"):
    directory.open_directory(tmp_path)


def test_our_safetensors_are_theirs(tmp_path):
  """Byte by byte."""
  model = untied()
  model.save_pretrained(tmp_path)
  path = tmp_path / directory.SAFETENSORS
  tensors = safetensors.read(path)
  safetensors.write(
    tmp_path / "ours", {name: tensors[name] for name in sorted(tensors)}
  )
  assert (tmp_path / "ours").read_bytes() == path.read_bytes()
