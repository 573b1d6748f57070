"""Models of `transformers` with the weights of ours, by way of a directory.

The directory is written as `zoo convert` writes it; `transformers` has to find
every tensor that it needs, and none besides.
"""

from collections.abc import Mapping
import re
import tempfile
from typing import Any

from flax import traverse_util
import numpy as np
import torch
import transformers

from tests import tiny_t5
from tests.golden import encoders
from tests.golden import variants
from transformer_zoo.interop.huggingface import family_of
from transformer_zoo.interop.huggingface import writing
from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.tensors.links import joined
from transformer_zoo.tensors.links import to_ours
from transformer_zoo.tensors.links import to_theirs


def load(config: Mapping[str, Any], params: dict):
  """Their model, in float32 and without dropout, of our parameters."""
  with tempfile.TemporaryDirectory() as folder:
    writing.write_directory(
      folder, family_of(config), config, _as_tensors(params)
    )
    theirs = open_directory(folder)
  if config["model_type"] == "umt5":
    # Version 5 forgets that the file says no, and by it scales the output of a
    # model whose softmax it has not tied; version 4 and T5X do not.
    theirs.config.tie_word_embeddings = config["tie_word_embeddings"]
  return theirs


def open_directory(folder):
  """Their model of a directory."""
  config = transformers.AutoConfig.from_pretrained(folder)
  model, loaded = class_of(config).from_pretrained(
    folder, attn_implementation="eager", output_loading_info=True
  )
  # The tower of a model whose side of texts is written is drawn anew.
  images = re.compile(r".*\.(vision_tower|multi_modal_projector)\..*")
  assert not any(
    n for kind in loaded.values() for n in kind if not images.fullmatch(str(n))
  ), loaded
  for module in model.modules():
    if isinstance(module, torch.nn.Embedding):
      # A row of padding that gets no gradient is PyTorch's, no model's.
      module.padding_idx = None
  return model.eval()


def class_of(config):
  """The class of an encoder, or the one with a language model's head."""
  is_encoder = family_of({"model_type": config.model_type}).side == "encoder"
  if is_encoder or _has_head(config):
    return getattr(transformers, config.architectures[0])
  if config.is_encoder_decoder:
    return transformers.AutoModelForSeq2SeqLM
  return transformers.AutoModelForCausalLM


def _has_head(config) -> bool:
  """Whether it is a class with a head on an encoder-decoder."""
  ends = ("ForSequenceClassification", "ForQuestionAnswering")
  return any(name.endswith(ends) for name in config.architectures or ())


def build(architecture: str, params: dict, **macros):
  """Their counterpart of `tiny_t5.build(architecture, **macros)`."""
  model = tiny_t5.build(architecture, **macros)
  config = family_of({"model_type": "t5"}).config(model)
  return load({**config, "eos_token_id": 1}, params)


def to_state_dict(theirs, params: dict) -> dict[str, np.ndarray]:
  """Our parameters, or gradients of them, under their names and layout."""
  tensors = to_theirs(_links(theirs), _as_tensors(params))
  return {name: tensor.read() for name, tensor in tensors.items()}


def outputs(config, model, params, batch) -> dict[str, np.ndarray]:
  """What `tests.golden.variants.outputs` says of ours, of their model."""
  theirs = load(config, params)
  if hasattr(theirs, "final_logits_bias"):
    theirs.final_logits_bias.requires_grad_()  # a buffer
  logits, loss = logits_and_loss(theirs, batch, model.pad_id)
  loss.backward()
  real = batch["decoder_target_tokens"] != model.pad_id
  return {
    "logits": logits.detach().numpy()[real],
    "loss": loss.detach().numpy(),
    **variants.gradient_entries(gradients_as_ours(theirs)),
  }


def logits_and_loss(theirs, batch, pad_id: int):
  """Their logits, and the summed loss of the targets; both can go backward."""
  decoder_inputs, targets = (
    torch.tensor(batch[f"decoder_{part}_tokens"], dtype=torch.long)
    for part in ("input", "target")
  )
  if theirs.config.is_encoder_decoder:
    inputs = torch.tensor(batch["encoder_input_tokens"], dtype=torch.long)
    logits = theirs(
      input_ids=inputs,
      attention_mask=(inputs != pad_id).long(),
      decoder_input_ids=decoder_inputs,
    ).logits
  else:
    real = (targets != pad_id).long()
    logits = theirs(input_ids=decoder_inputs, attention_mask=real).logits
  loss = torch.nn.functional.cross_entropy(
    logits.transpose(1, 2), targets, ignore_index=pad_id, reduction="sum"
  )
  return logits, loss


def forward(model, batch, **keywords):
  """Their outputs on one of T5's batches; padding is masked and ignored."""
  inputs = torch.tensor(batch["encoder_input_tokens"], dtype=torch.long)
  targets = torch.tensor(batch["decoder_target_tokens"], dtype=torch.long)
  return model(
    input_ids=inputs,
    attention_mask=(inputs > 0).long(),
    decoder_input_ids=torch.tensor(
      batch["decoder_input_tokens"], dtype=torch.long
    ),
    labels=targets.masked_fill(targets == 0, -100),
    **keywords,
  )


def encoder_answers(
  theirs, batch, pad_id: int, seen_BLL: np.ndarray | None = None
) -> dict[str, torch.Tensor]:
  """Outputs [B, P, K] of an encoder's class by the names of our heads.

  Args:
    theirs: their model.
    batch: a batch of ours.
    pad_id: the token that is padding.
    seen_BLL: True where a query sees a key; all tokens see all if None.
  """
  tokens = torch.tensor(batch["encoder_input_tokens"], dtype=torch.long)
  keywords = {"attention_mask": (tokens != pad_id).long()}
  if seen_BLL is not None:
    # Version 5 reads such masks with an axis of heads, and adds them.
    keywords["attention_mask"] = torch.where(
      torch.tensor(seen_BLL)[:, None], 0.0, torch.finfo(torch.float32).min
    )
  if "encoder_token_types" in batch:
    types = torch.tensor(batch["encoder_token_types"], dtype=torch.long)
    keywords["token_type_ids"] = types
  name = type(theirs).__name__
  if name.endswith("ForMultipleChoice"):
    keywords = {key: value[None] for key, value in keywords.items()}
    return {"choice": theirs(tokens[None], **keywords).logits[0, :, None, None]}
  if "encoder_order" in batch:
    return {"tokens": _in_an_order(theirs, tokens, batch, keywords)}
  found = theirs(tokens, **keywords)
  if name.endswith("Model"):
    answers = {"hidden": found.last_hidden_state}
    if "pooler_output" in found:
      answers["pooled"] = found.pooler_output[:, None]
    return answers
  if name == "ElectraForPreTraining":
    return {"replaced": found.logits[..., None]}
  if name == "AlbertForPreTraining":
    return {
      "tokens": found.prediction_logits,
      "sentence_order": found.sop_logits[:, None],
    }
  if name.endswith("ForPreTraining"):
    return {
      "tokens": found.prediction_logits,
      "next_sentence": found.seq_relationship_logits[:, None],
    }
  if name.endswith(("ForQuestionAnswering", "ForQuestionAnsweringSimple")):
    return {"spans": torch.stack([found.start_logits, found.end_logits], -1)}
  if name.endswith("ForMaskedLM"):
    return {"tokens": found.logits}
  if name.endswith("ForTokenClassification"):
    return {"tags": found.logits}
  heads = {"ForNextSentencePrediction": "next_sentence"}
  kind = name.removeprefix("Bert")
  number = "number" if found.logits.shape[-1] == 1 else "classes"
  return {heads.get(kind, number): found.logits[:, None]}


def _in_an_order(theirs, tokens, batch, keywords) -> torch.Tensor:
  """Logits of XLNet's query stream; the softmax's bias where it has none."""
  order = torch.tensor(batch["encoder_order"])
  places = torch.tensor(batch["encoder_predicted_places"], dtype=torch.long)
  hidden = (order[:, None] >= 0) & (order[:, None] >= order[:, :, None])
  made = theirs(
    tokens,
    perm_mask=hidden.float(),
    target_mapping=torch.nn.functional.one_hot(places, tokens.shape[1]).float(),
    **keywords,
  ).logits
  bias = theirs.lm_loss.bias
  logits = bias.expand(*tokens.shape, -1).clone()
  logits[torch.arange(len(tokens))[:, None], places] = made
  # A place that is not predicted fills a row of places up.
  return torch.where((order >= 0)[..., None], logits, bias)


def encoder_outputs(
  config, model, params, batch, seen_BLL: np.ndarray | None = None
) -> dict[str, np.ndarray]:
  """What `tests.golden.encoders.outputs` says of ours, of their model."""
  theirs = load(config, params)
  answers = encoder_answers(theirs, batch, model.pad_id, seen_BLL)
  real = batch["encoder_input_tokens"] != model.pad_id
  loss = sum(
    (torch.tensor(encoders.signs(name, value.shape, real)) * value).sum()
    for name, value in answers.items()
  )
  loss.backward()
  links = [link for link in family_of(config).links(config) if not
           link.only_written]  # fmt: skip
  prefix = family_of(config).prefix
  gradients = {}
  for link in links:
    name = link.theirs
    if not hasattr(theirs, prefix.removesuffix(".")):  # The bare class.
      name = name.removeprefix(prefix)
    tensor = _find(theirs, name)
    gradient = torch.zeros_like(tensor) if tensor.grad is None else tensor.grad
    gradients[link.theirs] = Tensor.of(gradient.numpy())
  return {
    "logits": encoders.joined(
      {name: value.detach().numpy() for name, value in answers.items()}, real
    ),
    "loss": loss.detach().numpy(),
    **variants.gradient_entries(
      {n: t.read() for n, t in to_ours(links, gradients).items()}
    ),
  }


def generate(
  model, inputs: np.ndarray, max_length: int, **keywords
) -> np.ndarray:
  """Their tokens [rows, max_length], padded, without the start token.

  Greedy unless keywords say otherwise; several of a row lie one below another.
  """
  made = _generate(model, inputs, max_length, **keywords).sequences
  return _padded(made, max_length)


def beam_search(
  model, inputs: np.ndarray, max_length: int, **keywords
) -> tuple[np.ndarray, np.ndarray]:
  """As `generate`, with the scores of the beams."""
  outputs = _generate(model, inputs, max_length, output_scores=True, **keywords)
  return _padded(
    outputs.sequences, max_length
  ), outputs.sequences_scores.numpy()


def greedy(theirs, inputs: np.ndarray, length: int, **keywords):
  """Tokens and logits of a row as they make them with their cache.

  Args:
    theirs: their model.
    inputs: int [M] without padding: what an encoder reads, or a prompt.
    length: the most tokens.
    **keywords: further options of `generate`.

  Returns:
    Tokens [T], T at most `length`, and the logits that each was chosen by,
    [T, V].
  """
  made = theirs.generate(
    torch.tensor(inputs[None], dtype=torch.long),
    max_new_tokens=length,
    do_sample=False,
    num_beams=1,
    output_logits=True,
    return_dict_in_generate=True,
    **keywords,
  )
  logits = torch.cat(made.logits).numpy()
  return made.sequences[0, -len(logits) :].numpy(), logits


def beams(theirs, inputs: np.ndarray, length: int, number: int):
  """All beams of a row, [number, at most length], and their scores."""
  made = theirs.generate(
    torch.tensor(inputs[None], dtype=torch.long),
    max_new_tokens=length,
    do_sample=False,
    num_beams=number,
    num_return_sequences=number,
    output_scores=True,
    return_dict_in_generate=True,
  )
  return made.sequences[:, 1:].numpy(), made.sequences_scores.numpy()


def _generate(model, inputs, max_length, **keywords):
  inputs = torch.tensor(inputs, dtype=torch.long)
  return model.generate(
    input_ids=inputs,
    attention_mask=(inputs > 0).long(),
    max_new_tokens=max_length,
    return_dict_in_generate=True,
    **({"do_sample": False, "num_beams": 1} | keywords),
  )


def _padded(sequences, max_length) -> np.ndarray:
  made = sequences[:, 1:].numpy()
  made = np.pad(made, ((0, 0), (0, max_length - made.shape[1])))
  # Their beam search fills up with EOS where the id of padding is 0.
  ended = np.cumsum(made == 1, axis=1) - (made == 1) > 0
  return np.where(ended, 0, made)


def _links(theirs):
  # Shared parameters are named once: a tied softmax is not among them.
  named = dict([*theirs.named_parameters(), *theirs.named_buffers()])
  config = theirs.config.to_dict()
  family = family_of(config)
  zeros = [name for name, table in family.aliases(config).items() if not table]
  for name in zeros:
    if name in named and not named[name].any():
      del named[name]
  return family.links(family.completed(config, named.keys()))


def gradients_as_ours(theirs) -> dict[str, np.ndarray]:
  """Those that `backward` has left, by the names of our parameters."""
  links = [link for link in _links(theirs) if not link.only_written]
  # An expert that no token came to has none.
  gradients = {
    link.theirs: Tensor.of(
      (torch.zeros_like(found) if found.grad is None else found.grad).numpy()
    )
    for link in links
    for found in (_find(theirs, link.theirs),)
  }
  ours = joined(to_ours(links, gradients))
  return {name: tensor.read() for name, tensor in ours.items()}


def _find(theirs, name: str) -> torch.Tensor:
  *path, last = name.split(".")
  return getattr(theirs.get_submodule(".".join(path)), last)


def _as_tensors(params: dict) -> dict[str, Tensor]:
  flat = traverse_util.flatten_dict(params, sep="/")
  return {name: Tensor.of(np.asarray(leaf)) for name, leaf in flat.items()}
