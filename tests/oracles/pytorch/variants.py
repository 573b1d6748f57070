"""The independent implementations of tests/golden/variants.py.

`expected(name)` gives what `tests.golden.variants.outputs` gives of ours: from
oracles/pytorch/reference_transformer.py where `transformers` has no class, from
the class otherwise.
"""

from flax import traverse_util
import numpy as np
import torch
import transformers

from tests import tiny_models
from tests.golden import variants
from tests.oracles.pytorch import reference_parts
from tests.oracles.pytorch import reference_transformer
from tests.oracles.pytorch.variant_classes import CLASSES
from transformer_zoo.tensors.links import AsIs
from transformer_zoo.tensors.links import Link
from transformer_zoo.tensors.links import Transposed

LAYERS = tiny_models.TINY["NUM_DECODER_LAYERS"]


def expected(name: str) -> dict[str, np.ndarray]:
  """Logits at the tokens, the summed loss, its gradient by parameter."""
  if name in variants.WITHOUT_CLASS:
    return _of_definitions(name)
  return _of_class(name)


def _of_definitions(name):
  """One example after the other."""
  model, params, _ = variants.setting(name)
  weights = {
    key: torch.tensor(value, requires_grad=True)
    for key, value in traverse_util.flatten_dict(params, sep="/").items()
  }
  attention = model.decoder.transformer.layer_stack.layer.self_attention
  sizes = reference_parts.Sizes(
    num_layers=LAYERS,
    num_heads=attention.num_heads,
    num_kv_heads=attention.num_kv_heads or attention.num_heads,
    head_dim=attention.head_dim,
  )
  run = reference_transformer.MODELS[variants.VARIANTS[name].architecture]
  examples = variants.examples()
  logits, loss = [], 0.0
  for inputs, targets in zip(
    _rows(examples["inputs"]), _rows(examples["targets"]), strict=True
  ):
    logits_LV = run(weights, sizes, inputs, targets)
    logits.append(logits_LV)
    # Of a prefix language model the last logits are the targets'.
    loss += torch.nn.functional.cross_entropy(
      logits_LV[-len(targets) :], targets, reduction="sum"
    )
  loss.backward()
  return {
    "logits": torch.cat(logits).detach().numpy(),
    "loss": loss.detach().numpy(),
    **variants.gradient_entries({k: w.grad for k, w in weights.items()}),
  }


def _rows(ragged):
  """The examples, one tensor each."""
  ends = np.cumsum(ragged.lengths)
  return [
    torch.tensor(row, dtype=torch.long)
    for row in np.split(ragged.values, ends[:-1])
  ]


def _of_class(name):
  ours, params, batch = variants.setting(name)
  flat = traverse_util.flatten_dict(params, sep="/")
  config, table = CLASSES[name](ours)
  model = transformers.AutoModelForCausalLM.from_config(
    config, attn_implementation="eager"
  ).eval()
  links = [link for entry in table for link in _links(*entry, flat)]
  state = {
    link.theirs: torch.tensor(
      np.ascontiguousarray(link.layout.join([flat[key] for key in link.ours]))
    )
    for link in links
  }
  assert sum(len(link.ours) for link in links) == len(flat)
  missing, unknown = model.load_state_dict(state, strict=False)
  # Tied weights go by two names.
  assert not unknown
  assert all(key == "lm_head.weight" for key in missing)

  tokens = torch.tensor(batch["decoder_input_tokens"], dtype=torch.long)
  targets = torch.tensor(batch["decoder_target_tokens"], dtype=torch.long)
  real = targets != 0
  logits = model(tokens, attention_mask=real.long(), use_cache=False).logits
  loss = torch.nn.functional.cross_entropy(
    logits[real], targets[real], reduction="sum"
  )
  loss.backward()
  theirs = dict(model.named_parameters())
  gradient = {
    key: part
    for link in links
    for key, part in zip(
      link.ours,
      link.layout.split(theirs[link.theirs].grad.numpy()),
      strict=True,
    )
  }
  return {
    "logits": logits.detach().numpy()[real.numpy()],
    "loss": loss.detach().numpy(),
    **variants.gradient_entries(gradient),
  }


def _links(theirs, ours, layout, flat):
  """Links of a module's weight and bias, in every layer where it has one.

  A name is told without `.weight` and `.bias`, ours without its last word.
  """
  ours = (ours,) if isinstance(ours, str) else ours
  for layer in range(LAYERS if "{}" in theirs else 1):
    names = [f"{name.format(layer)}/" for name in ours]
    for word, leaf in (
      ("weight", "kernel"), ("weight", "scale"), ("weight", "embedding"),
      ("bias", "bias"),
    ):  # fmt: skip
      if names[0] + leaf in flat:
        fused = layout is not None
        plain = Transposed() if leaf == "kernel" else AsIs()
        yield Link(
          f"{theirs.format(layer)}.{word}",
          tuple(name + leaf for name in names),
          layout if fused else plain,
        )
