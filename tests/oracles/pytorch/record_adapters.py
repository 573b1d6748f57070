"""Records what the library `adapters` 1.3.0 saves and computes, as goldens.

It does not load beside `transformers` 5; give it a folder of its own:

  pip install --no-deps --target LIBRARY adapters==1.3.0 transformers==4.57.6 \
    huggingface-hub==0.36.0 tokenizers==0.22.1
  PYTHONPATH=LIBRARY python tests/oracles/pytorch/record_adapters.py

Models and adapters have random weights. tests/golden/adapters/<case> has the
directory as the library saves it and `outputs.npz`; `bert` and `t5` there are
the directories of the bases. adapters_directories_test.py of
tests/conversion reads them.
"""

import pathlib
import shutil

import adapters
import numpy as np
import torch
import transformers

FOLDER = pathlib.Path(__file__).parents[2] / "golden" / "adapters"
IDS = np.random.RandomState(0).randint(3, 40, (2, 7))
TARGETS = np.random.RandomState(1).randint(3, 40, (2, 5))
BASES = {
  "bert": lambda: transformers.BertForMaskedLM(
    transformers.BertConfig(
      vocab_size=40,
      hidden_size=24,
      num_hidden_layers=2,
      num_attention_heads=4,
      intermediate_size=36,
      max_position_embeddings=16,
    )
  ),
  "t5": lambda: transformers.T5ForConditionalGeneration(
    transformers.T5Config(
      vocab_size=40,
      d_model=24,
      d_kv=6,
      d_ff=36,
      num_layers=2,
      num_decoder_layers=3,
      num_heads=4,
      feed_forward_proj="gated-gelu",
    )
  ),
}
METHODS = {
  "houlsby": adapters.DoubleSeqBnConfig(reduction_factor=4),
  "houlsby_cross": adapters.DoubleSeqBnConfig(
    reduction_factor=4, cross_adapter=True, non_linearity="gelu"
  ),
  "pfeiffer": adapters.SeqBnConfig(reduction_factor=3.4),
}


def main():
  """Writes all cases."""
  shutil.rmtree(FOLDER, ignore_errors=True)
  for kind, build in BASES.items():
    torch.manual_seed(0)
    model = build().eval()
    for parameter in model.parameters():
      parameter.data += 0.1 * torch.randn_like(parameter)
    model.save_pretrained(FOLDER / kind)
    adapters.init(model)
    for method, config in METHODS.items():
      if kind == "bert" and config["cross_adapter"]:
        continue
      model.add_adapter("task", config=config)
      for name, parameter in model.named_parameters():
        if ".adapters.task." in name:
          parameter.data += 0.3 * torch.randn_like(parameter)
      model.set_active_adapters("task")
      case = FOLDER / f"{kind}_{method}"
      model.save_adapter(case, "task", with_head=False, use_safetensors=True)
      arguments = {"input_ids": torch.tensor(IDS)}
      if kind == "t5":
        arguments["decoder_input_ids"] = torch.tensor(TARGETS)
      with torch.no_grad():
        logits = model(**arguments).logits.numpy()
      np.savez_compressed(
        case / "outputs.npz", ids=IDS, targets=TARGETS, logits=logits
      )
      model.delete_adapter("task")


if __name__ == "__main__":
  main()
