"""A directory of ours served block by block, as Petals' servers read it.

A server finds the files of a block by `model.safetensors.index.json` and the
prefix of its names, and loads these tensors alone; a client has embeddings,
norm and head, and trains prompts through blocks that stay as they are.
"""

import json

from flax import traverse_util
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.torch
import torch
import transformers
from transformers.models.llama import modeling_llama

from tests import tiny_models
from transformer_zoo.interop.huggingface import family_of
from transformer_zoo.interop.huggingface import writing
from transformer_zoo.tensors.lazy_tensors import Tensor

PROMPT = 3


@pytest.fixture(scope="module")
def ours():
  model, _ = tiny_models.build(
    "llama", HEAD_DIM=6, NUM_KV_HEADS=2, NUM_DECODER_LAYERS=3
  )
  return model, tiny_models.random_parameters(model)


@pytest.fixture(scope="module")
def served(ours, tmp_path_factory):
  model, params = ours
  folder = tmp_path_factory.mktemp("served")
  family = family_of({"model_type": "llama"})
  writing.write_directory(
    folder,
    family,
    family.config(model),
    {
      name: Tensor.of(array)
      for name, array in traverse_util.flatten_dict(params, sep="/").items()
    },
    max_shard_bytes=12_000,
  )
  return folder


def tensors(folder, prefix):
  """Those of a prefix, from the files that have one of them."""
  index = json.loads((folder / "model.safetensors.index.json").read_text())
  files = {f for n, f in index["weight_map"].items() if n.startswith(prefix)}
  found = {}
  for file in files:
    for name, tensor in safetensors.torch.load_file(folder / file).items():
      if name.startswith(prefix):
        found[name.removeprefix(prefix)] = tensor
  return found, files, set(index["weight_map"].values())


def blocks(folder, config):
  for layer in range(config.num_hidden_layers):
    block = modeling_llama.LlamaDecoderLayer(config, layer)
    found, files, every = tensors(folder, f"model.layers.{layer}.")
    assert len(files) < len(every)
    block.load_state_dict(found, strict=True)
    yield block.requires_grad_(False).eval()


def test_logits_and_gradients_of_prompts(ours, served, report):
  model, params = ours
  config = transformers.AutoConfig.from_pretrained(
    served, attn_implementation="eager"
  )
  table, _, _ = tensors(served, "model.embed_tokens.")
  norm = modeling_llama.LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)
  norm.load_state_dict(tensors(served, "model.norm.")[0])
  head, _, _ = tensors(served, "lm_head.")
  rotary = modeling_llama.LlamaRotaryEmbedding(config)

  random = np.random.RandomState(0)
  tokens = random.randint(3, 48, (2, 6))
  prompt = random.standard_normal((PROMPT, 24)).astype(np.float32)
  theirs = torch.tensor(prompt, requires_grad=True)
  embedded = table["weight"][torch.tensor(tokens)]
  x = torch.cat([theirs.expand(2, -1, -1), embedded], dim=1)
  length = x.shape[1]
  places = torch.arange(length)[None]
  mask = torch.full((length, length), -1e9).triu(1)[None, None]
  for block in blocks(served, config):
    x = block(
      x,
      attention_mask=mask,
      position_ids=places,
      position_embeddings=rotary(x, places),
    )
    x = x[0] if isinstance(x, tuple) else x
  logits = norm(x) @ head["weight"].T
  torch.logsumexp(logits, -1).sum().backward()

  def forward(prompt):
    def with_prompt(module):
      embedded = module.token_embedder(tokens)
      before = jnp.broadcast_to(prompt, (2, PROMPT, 24))
      x = jnp.concatenate([before, embedded], axis=1)
      mask = jnp.tril(jnp.ones((length, length), bool))[None, None]
      return module.logits(
        module.decoder.hidden(x, mask_B1LM=mask, deterministic=True)
      )

    made = model.apply({"params": params}, method=with_prompt)
    return jax.nn.logsumexp(made, axis=-1).sum(), made

  gradient, found = jax.jit(jax.grad(forward, has_aux=True))(prompt)
  expected = logits.detach().numpy()
  error = np.abs(np.asarray(found) - expected).max() / np.abs(expected).max()
  report("logits of served blocks", error)
  assert error < 2e-5
  expected = theirs.grad.numpy()
  error = np.abs(np.asarray(gradient) - expected).max()
  report("gradient of prompts", error / np.abs(expected).max())
  assert error < 1e-4 * np.abs(expected).max()
