"""Directories of `peft`, both ways, against the library itself.

Their models have random weights and their methods random numbers, so that each
changes what is computed (make test-oracles).
"""

import json
import pathlib

from flax import traverse_util
import jax
import numpy as np
import pytest
import torch
import transformers

from tests.oracles.pytorch import encoders_test
from tests.oracles.pytorch import huggingface_directories_test as directories
from transformer_zoo import config as zoo_config
from transformer_zoo.checkpoints import bases
from transformer_zoo.checkpoints import converted_run
from transformer_zoo.checkpoints import model_parameters
from transformer_zoo.cli import main as cli
from transformer_zoo.conversion import convert
from transformer_zoo.data.features import prompts
from transformer_zoo.interop.huggingface import directory
from transformer_zoo.tensors import orbax_checkpoints
from transformer_zoo.tensors.lazy_tensors import Tensor

peft = pytest.importorskip("peft")

TOLERANCE = 2e-5
IDS = np.random.RandomState(0).randint(3, 60, (2, 7))
TARGETS = np.random.RandomState(1).randint(3, 60, (2, 5))
SMALL = {
  "vocab_size": 64,
  "hidden_size": 24,
  "num_hidden_layers": 2,
  "num_attention_heads": 4,
  "intermediate_size": 36,
  "max_position_embeddings": 32,
}
BASES = {
  "t5": lambda: transformers.T5ForConditionalGeneration(
    transformers.T5Config(
      vocab_size=64, d_model=24, d_kv=6, d_ff=36, num_layers=2, num_heads=4
    )
  ),
  "gpt2": lambda: transformers.GPT2LMHeadModel(
    transformers.GPT2Config(
      vocab_size=64, n_embd=24, n_layer=2, n_head=4, n_positions=32
    )
  ),
  "llama": lambda: transformers.LlamaForCausalLM(
    transformers.LlamaConfig(**SMALL, num_key_value_heads=4)
  ),
  "bert": lambda: transformers.BertForMaskedLM(
    transformers.BertConfig(**SMALL)
  ),
  "bert_classes": lambda: transformers.BertForSequenceClassification(
    transformers.BertConfig(**SMALL, num_labels=3)
  ),
  "roberta": lambda: transformers.RobertaForMaskedLM(
    transformers.RobertaConfig(**SMALL)
  ),
}
TASKS = {
  "t5": "SEQ_2_SEQ_LM",
  "gpt2": "CAUSAL_LM",
  "llama": "CAUSAL_LM",
  "bert_classes": "SEQ_CLS",
}
METHODS = {
  "lora": lambda: peft.LoraConfig(r=3, lora_alpha=5),
  "rslora": lambda: peft.LoraConfig(r=4, lora_alpha=5, use_rslora=True),
  "dora": lambda: peft.LoraConfig(r=3, lora_alpha=5, use_dora=True),
  "ia3": lambda: peft.IA3Config(),
  "prompt": lambda: peft.PromptTuningConfig(num_virtual_tokens=3),
  "prefix": lambda: peft.PrefixTuningConfig(num_virtual_tokens=3),
}
# Classes of `transformers` 5 that take no keys and values before the first.
WITHOUT_PREFIX = ("bert", "bert_classes", "roberta")


def their_logits(model, kind):
  ids = torch.tensor(IDS)
  arguments = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
  if kind == "t5":
    arguments["decoder_input_ids"] = torch.tensor(TARGETS)
  with torch.no_grad():
    logits = model.eval()(**arguments).logits.numpy()
  return logits if kind == "bert_classes" else logits[:, -IDS.shape[1] :]


def our_logits(folder, kind, prompt_length):
  run = converted_run.open_run(folder)
  flat = {name: tensor.read() for name, tensor in run.parameters().items()}
  params = traverse_util.unflatten_dict(flat, sep="/")
  prompt = np.tile(prompts.FIRST_ID + np.arange(prompt_length), (len(IDS), 1))
  ids = np.concatenate([prompt, IDS], axis=1).astype(np.int32)
  if kind == "t5":
    batch = {"encoder_input_tokens": ids, "decoder_input_tokens": TARGETS}
    batch["decoder_target_tokens"] = np.ones_like(TARGETS)
  elif kind in ("gpt2", "llama"):
    batch = {"decoder_input_tokens": ids}
  else:
    batch = {"encoder_input_tokens": ids}

  found = jax.jit(
    lambda params, batch: run.model.apply(
      {"params": params}, batch, method="all_logits"
    )
  )(params, batch)
  if kind == "bert_classes":
    return np.asarray(found["classes"])[:, 0]
  return np.asarray(found["tokens"])[:, prompt_length * (kind != "t5") :]


# What differs from `lora` in a number, on both layouts of a matrix; and classes
# that differ from BERT in their positions or their head, which prompts meet.
LEFT_OUT = {
  "rslora": ("llama", "bert", "bert_classes", "roberta"),
  "dora": ("bert_classes", "roberta"),
  "ia3": ("roberta",),
  "prefix": WITHOUT_PREFIX,
}


@pytest.mark.parametrize(
  ("method", "kind"),
  [
    (method, kind)
    for method in METHODS
    for kind in BASES
    if kind not in LEFT_OUT.get(method, ())
  ],
)
def test_a_directory_of_theirs_is_read_and_written(
  method, kind, tmp_path, report
):
  torch.manual_seed(0)
  base = BASES[kind]()
  base.save_pretrained(tmp_path / "base")
  settings = METHODS[method]()
  settings.task_type = TASKS.get(kind, "FEATURE_EXTRACTION")
  theirs = peft.get_peft_model(base, settings)
  for _, parameter in theirs.named_parameters():
    if parameter.requires_grad:
      noise = 0.3 * torch.randn_like(parameter)
      parameter.data += noise
  theirs.base_model_prefix = ""
  theirs.save_pretrained(tmp_path / "theirs")
  expected = their_logits(theirs, kind)
  length = 3 if method == "prompt" else 0
  convert.convert(
    tmp_path / "theirs",
    tmp_path / "run",
    base=str(tmp_path / "base"),
    report=lambda line: None,
  )
  found = our_logits(tmp_path / "run", kind, length)
  difference = np.abs(found - expected).max() / np.abs(expected).max()
  report("read", difference)
  assert difference < TOLERANCE
  convert.convert(
    tmp_path / "run",
    tmp_path / "ours",
    to="peft",
    report=lambda line: None,
  )
  again = peft.PeftModel.from_pretrained(
    type(base).from_pretrained(tmp_path / "base"), tmp_path / "ours"
  )
  found = their_logits(again, kind)
  difference = np.abs(found - expected).max() / np.abs(expected).max()
  report("written", difference)
  assert difference < TOLERANCE
  bytes_of_run = sum(
    f.stat().st_size
    for f in pathlib.Path(tmp_path / "run").rglob("*")
    if f.is_file()
  )
  assert bytes_of_run < 400_000


def test_files_of_older_versions(tmp_path):
  """adapter_model.bin beside adapter_config.json."""
  base = BASES["gpt2"]()
  base.save_pretrained(tmp_path / "base")
  settings = peft.LoraConfig(r=3, task_type="CAUSAL_LM")
  theirs = peft.get_peft_model(base, settings)
  found = {}
  for kind, safe in (("bin", False), ("safetensors", True)):
    theirs.save_pretrained(tmp_path / kind, safe_serialization=safe)
    assert (tmp_path / kind / f"adapter_model.{kind}").is_file()
    convert.convert(
      tmp_path / kind, tmp_path / f"run_{kind}", base=str(tmp_path / "base")
    )
    run = converted_run.open_run(tmp_path / f"run_{kind}")
    found[kind] = {n: t.read() for n, t in run.parameters().items()}
  assert found["bin"].keys() == found["safetensors"].keys()
  for name, array in found["bin"].items():
    np.testing.assert_array_equal(array, found["safetensors"][name])


# Heads of ours -> the end of the name of a class of `transformers`.
HEADS = {
  "classes": "ForSequenceClassification",
  "tags": "ForTokenClassification",
  "spans": "ForQuestionAnswering",
}
DISTILLED = {"vocab_size": 64, "dim": 24, "n_layers": 2, "n_heads": 4}


@pytest.mark.parametrize(
  ("base", "head", "method"),
  [
    ("BertForMaskedLM", "classes", "lora"),
    ("BertModel", "classes", "lora"),
    ("BertForMaskedLM", "tags", "ia3"),
    ("BertForMaskedLM", "spans", "dora"),
    ("RobertaForMaskedLM", "classes", "lora"),
    ("ElectraForMaskedLM", "classes", "lora"),
    ("DebertaV2ForMaskedLM", "classes", "lora"),
    ("AlbertForMaskedLM", "classes", "lora"),
    ("DistilBertForMaskedLM", "classes", "lora"),
  ],
)
def test_a_head_that_the_base_lacks(base, head, method, tmp_path, report):
  """As fine-tuning over a published directory makes it."""
  family = base.partition("For")[0].removesuffix("Model")
  torch.manual_seed(0)
  config = getattr(transformers, f"{family}Config")(
    **(DISTILLED if family == "DistilBert" else SMALL)
  )
  theirs = getattr(transformers, base)(config)
  theirs.save_pretrained(tmp_path / "base")
  found = directory.open_directory(tmp_path / "base")
  architecture = found.family.architecture(found.config)
  gin_files = [
    *architecture.gin_files,
    f"heads/{head}.gin",
    f"peft/{method}.gin",
  ]
  bindings = [
    binding
    for binding in architecture.as_overrides()
    if not binding.startswith("Heads.parts")
  ]
  if head != "spans":
    bindings.append("NUM_CLASSES=3")
  model = zoo_config.build("MODEL", gin_files, bindings, allow_unused=True)
  stored = found.parameters()
  shapes = model_parameters.shapes_of(model)
  random = np.random.RandomState(0)
  own = {
    name: Tensor.of(random.normal(0, 0.3, shape).astype(np.float32))
    for name, shape in shapes.items()
    if name not in stored
  }
  (tmp_path / "run").mkdir()
  converted_run.write_run(
    tmp_path / "run",
    gin_files,
    bindings,
    {f"{orbax_checkpoints.PARAMETERS}{n}": t for n, t in own.items()},
    beside=tmp_path / "base",
  )
  bases.Base(
    str(tmp_path / "base"),
    bases.identity(tmp_path / "base"),
    {name: name for name in stored if name in shapes},
  ).write(tmp_path / "run")
  convert.convert(tmp_path / "run", tmp_path / "ours", to="peft")
  labels = {} if head == "spans" else {"num_labels": 3}
  theirs = getattr(transformers, family + HEADS[head]).from_pretrained(
    tmp_path / "base", **labels
  )
  theirs = peft.PeftModel.from_pretrained(theirs, tmp_path / "ours").eval()
  with torch.no_grad():
    expected = theirs(torch.tensor(IDS), attention_mask=torch.ones(2, 7).long())
  if head == "spans":
    ends = expected.start_logits, expected.end_logits
    expected = np.stack([end.numpy() for end in ends], axis=-1)
  else:
    expected = expected.logits.numpy()
  params = {n: t.read() for n, t in {**stored, **own}.items() if n in shapes}
  params = traverse_util.unflatten_dict(params, sep="/")
  batch = {"encoder_input_tokens": IDS}
  found = model.apply({"params": params}, batch, method="all_logits")[head]
  found = np.asarray(found)[:, 0] if head == "classes" else np.asarray(found)
  difference = np.abs(found - expected).max() / np.abs(expected).max()
  report("written", difference)
  assert difference < TOLERANCE


def test_the_class_of_a_text_with_a_prompt(tmp_path, capsys, report):
  """By `zoo infer`, with the names and the tokenizer of the base."""
  names = ["no", "maybe", "yes", "never"]
  base, tokenizer = encoders_test.saved(
    tmp_path / "base",
    "bert_classes",
    encoders_test.save_word_list,
    id2label=dict(enumerate(names)),
  )
  settings = peft.PromptTuningConfig(num_virtual_tokens=3, task_type="SEQ_CLS")
  theirs = peft.get_peft_model(base, settings).eval()
  theirs.prompt_encoder["default"].embedding.weight.data *= 30
  theirs.save_pretrained(tmp_path / "theirs")
  words = ["convert", str(tmp_path / "theirs"), str(tmp_path / "run")]
  assert cli.main([*words, "--base", str(tmp_path / "base")]) == 0
  # The last is as long as positions, less the prompt, allow.
  texts = [*encoders_test.random_texts(4), " ".join(["day"] * 42)]
  capsys.readouterr()
  assert cli.main(["infer", f"--checkpoint={tmp_path / 'run'}", "--json",
                   *texts]) == 0  # fmt: skip
  answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
  for text, answer in zip(texts, answers, strict=True):
    with torch.no_grad():
      logits = theirs(**tokenizer(text, return_tensors="pt")).logits[0]
    expected = torch.softmax(logits, -1).numpy()
    assert list(answer["probabilities"]) == names
    found = np.array(list(answer["probabilities"].values()))
    report("probabilities", np.abs(found - expected).max())
    assert np.abs(found - expected).max() < TOLERANCE


@pytest.mark.parametrize(
  ("method", "name"),
  [
    ("lora", "t5_1_0"),
    ("ia3", "gpt_2"),
    ("prompt", "t5_1_0"),
    ("prompt", "gpt_2"),
  ],
)
def test_texts_are_continued(method, name, tmp_path, shared_data, capsys):
  """Greedily, by `zoo infer`, as the likeliest tokens of theirs."""
  directories.save(tmp_path / "base", shared_data, *directories.MODELS[name])
  settings = METHODS[method]()
  settings.task_type = "CAUSAL_LM" if name == "gpt_2" else "SEQ_2_SEQ_LM"
  theirs = peft.get_peft_model(directories.load(tmp_path / "base"), settings)
  torch.manual_seed(1)
  for _, parameter in theirs.named_parameters():
    if parameter.requires_grad:
      parameter.data += 0.4 * torch.randn_like(parameter)
  theirs.eval().save_pretrained(tmp_path / "theirs")
  words = ["convert", str(tmp_path / "theirs"), str(tmp_path / "run")]
  assert cli.main([*words, "--base", str(tmp_path / "base")]) == 0
  found = directories.inferred(tmp_path / "run", [], capsys)
  tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "base")
  for text, answer in zip(directories.TEXTS, found, strict=True):
    ids = tokenizer(text, return_tensors="pt").input_ids
    made = torch.zeros(1, 0, dtype=torch.long)
    for _ in range(directories.MADE):
      if name == "gpt_2":
        read = {"input_ids": torch.cat([ids, made], dim=1)}
      else:
        begun = torch.nn.functional.pad(made, (1, 0))
        read = {"input_ids": ids, "decoder_input_ids": begun}
      read["attention_mask"] = torch.ones_like(read["input_ids"])
      with torch.no_grad():
        likeliest = theirs(**read).logits[:, -1:].argmax(-1)
      made = torch.cat([made, likeliest], dim=1)
    assert answer == tokenizer.decode(made[0], skip_special_tokens=True)
