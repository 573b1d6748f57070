"""The harness's own model of `transformers` beside ours, live.

The same directory answers the same requests by both (make test-oracles).
"""

import json

from lm_eval import simple_evaluate
from lm_eval.api.instance import Instance
from lm_eval.models import huggingface as lm_eval_models
from lm_eval.tasks import TaskManager
import pytest

from tests.golden import families
from tests.oracles.pytorch import generation_test
from tests.oracles.pytorch import huggingface
from transformer_zoo.api import lm_eval_model
from transformer_zoo.api.harness import harness
from transformer_zoo.cli import main as cli
from transformer_zoo.errors import UserError

# Name -> changes of its configuration, options of the harness's model: BOS is
# before every text that a Llama has read; T5 has none. Their T5's cache has as
# many layers in the decoder as in the encoder.
CHANGES = {
  "gpt_2": ({}, {}),
  "llama": ({}, {"add_bos_token": True}),
  "t5_1_0": ({"num_decoder_layers": 2}, {"prefix_token_id": 1}),
}
PAIRS = [
  ("w7 w9", " w21 w3"),
  ("w5 ", "w12"),
  ("w9 w21 w3 w14 w30 w8 w25 w11 w9 w21 w3 w14", " w30 w8 w25 w11"),
  ("", "w33 w4 w17"),
]
TASKS = {
  "choice": """
output_type: multiple_choice
doc_to_text: "{{question}}"
doc_to_target: "{{answer}}"
doc_to_choice: "{{choices}}"
metric_list:
  - metric: acc
  - metric: acc_norm
""",
  "written": """
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "{{choices[0]}}"
generation_kwargs:
  until: [" w9"]
  max_gen_toks: 6
metric_list:
  - metric: exact_match
""",
  "perplexity": """
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{question}}"
metric_list:
  - metric: word_perplexity
""",
}


def requests(kind, *arguments):
  return [
    Instance(kind, {}, each, number) for number, each in enumerate(arguments)
  ]


@pytest.fixture(scope="module", params=CHANGES)
def models(request, tmp_path_factory):
  """A directory, the model of the harness on it, and ours."""
  changes, options = CHANGES[request.param]
  config, _, params, _ = families.setting(request.param, **changes)
  folder = tmp_path_factory.mktemp(request.param) / "saved"
  huggingface.load(config, params).save_pretrained(folder)
  generation_test.write_tokenizer(folder, config)
  theirs = lm_eval_models.HFLM(
    str(folder), device="cpu", batch_size=2, **options
  )
  ours = lm_eval_model.TransformerZoo(
    folder,
    batch_size=8,
    TASK_FEATURE_LENGTHS={"inputs": 256, "targets": 256},
  )
  return folder, theirs, ours


def test_continuations_have_the_same_likelihoods(models):
  _, theirs, ours = models
  asked = requests("loglikelihood", *PAIRS)
  expected = theirs.loglikelihood(asked, disable_tqdm=True)
  found = ours.loglikelihood(asked)
  for (value, greedy), (right, is_greedy) in zip(found, expected, strict=True):
    assert value == pytest.approx(right, rel=1e-5)
    assert greedy == is_greedy


def test_long_texts_have_the_same_likelihoods(models):
  """Of T5 with EOS at their end."""
  _, theirs, ours = models
  if theirs.add_bos_token:
    pytest.skip("theirs scores BOS, and has none before later windows")
  # Longer than the positions of GPT-2.
  texts = ["w7 w9 w21", " ".join(f"w{3 + i % 30}" for i in range(150))]
  asked = requests("loglikelihood_rolling", *((text,) for text in texts))
  expected = theirs.loglikelihood_rolling(asked, disable_tqdm=True)
  assert ours.loglikelihood_rolling(asked) == pytest.approx(expected, rel=1e-5)


def test_outputs_are_the_same(models):
  _, theirs, ours = models
  until = {"until": [" w4", "w12"], "max_gen_toks": 9, "do_sample": False}
  asked = requests("generate_until", *((text, until) for text, _ in PAIRS[:3]))
  expected = theirs.generate_until(asked, disable_tqdm=True)
  found = ours.generate_until(asked)
  for text, longer in zip(found, expected, strict=True):
    if theirs.backend == "seq2seq":
      # Theirs may write as many tokens more as the context has.
      longer = " ".join(longer.split()[: len(text.split())])
    assert text.strip() == longer.strip()


def test_tasks_from_a_folder_land_in_a_file_of_scores(models, tmp_path, capsys):
  folder, theirs, _ = models
  rows = [
    {"question": "w7 w9", "choices": [" w21 w3", " w5"], "answer": 0},
    {"question": "w12 w4", "choices": [" w8", " w30 w11"], "answer": 1},
    {"question": "w33", "choices": [" w6 w6", " w14"], "answer": 0},
  ]
  data = tmp_path / "rows.jsonl"
  data.write_text("\n".join(map(json.dumps, rows)))
  for name, text in TASKS.items():
    (tmp_path / f"{name}.yaml").write_text(
      f"task: zoo_{name}\ndataset_path: json\ntest_split: test\n"
      f"dataset_kwargs:\n  data_files:\n    test: {data}\n{text}"
    )
  names = [f"zoo_{name}" for name in TASKS]
  if theirs.add_bos_token:
    names.remove("zoo_perplexity")
  words = ["evaluate", f"--checkpoint={folder}", f"--harness={','.join(names)}"]
  words += [f"--harness_tasks={tmp_path}", f"--output_dir={tmp_path / 'out'}"]
  assert cli.main(words) == 0
  found = json.loads((tmp_path / "out" / "result.json").read_text())
  assert found["scores"].keys() == {*names}
  expected = simple_evaluate(
    theirs,
    tasks=names,
    task_manager=TaskManager(
      include_path=str(tmp_path), include_defaults=False
    ),
    bootstrap_iters=0,
  )["results"]
  for name, metrics in found["scores"].items():
    for metric, value in metrics.items():
      right = expected[name][f"{metric},none"]
      assert value == pytest.approx(right, rel=1e-5), (name, metric)
  if (
    theirs.backend == "seq2seq"
  ):  # Once: all tasks of the package are looked at.
    with pytest.raises(UserError, match="lm_eval has no task 'absent'"):
      harness(folder, "absent", output_dir=tmp_path)
