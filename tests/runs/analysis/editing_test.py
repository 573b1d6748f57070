"""`zoo edit` on a Hugging Face directory of GPT-2's shape, whole."""

import dataclasses
import json

import numpy as np
import pytest
import tokenizers
from tokenizers import models
from tokenizers import pre_tokenizers

from tests import tiny_models
from transformer_zoo.cli import edit
from transformer_zoo.conversion import sources
from transformer_zoo.editing import edits
from transformer_zoo.editing import scores
from transformer_zoo.editing import tracing
from transformer_zoo.errors import UserError
from transformer_zoo.runs.analysis import editing

PROMPT = "w7 w9 w11"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
  """A GPT-2 of random parameters and words w1 to w47."""
  folder = tmp_path_factory.mktemp("edit") / "theirs"
  tiny_models.write_gpt_2(folder)
  pieces = ["<|endoftext|>", *(f"w{i}" for i in range(1, 48))]
  tokenizer = tokenizers.Tokenizer(
    models.WordLevel({p: i for i, p in enumerate(pieces)}, pieces[0])
  )
  tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
  tokenizer.add_special_tokens([pieces[0]])
  tokenizer.save(str(folder / "tokenizer.json"))
  (folder / "tokenizer_config.json").write_text(
    json.dumps({"eos_token": pieces[0]})
  )
  return folder


def parameters(path):
  found = sources.open_source(path, report=lambda line: None).parameters
  return {name: np.asarray(tensor.read()) for name, tensor in found.items()}


@pytest.mark.slow
def test_an_edit_is_made_put_in_and_taken_out(checkpoint, zoo, tmp_path):
  text = tmp_path / "text.txt"
  lines = (
    f"w{i} w{i % 7 + 1} w{i % 11 + 1} w{i % 5 + 1}" for i in range(1, 48)
  )
  text.write_text("\n".join(lines))
  path, covariance = tmp_path / "edit.npz", tmp_path / "c.npz"
  words = [
    *("edit", checkpoint, PROMPT, "--subject=w9", "--target=w8", "--layer=0"),
    *(f"--text={text}", f"--edit={path}", f"--covariance={covariance}"),
    *("--ridge=1e-3", "--keep=w9 w3", "--json"),
  ]
  code, output, error = zoo(*words)
  assert code == 0, error
  said = json.loads(output)
  assert said["parameter"] == "decoder/layers_0/mlp/wo/kernel"
  before, after = (said["log_likelihood"][k] for k in ("before", "after"))
  assert after > before + 0.3
  (edit,) = edits.load(path)
  assert edit.notes["kept"] == ["w9 w3"]
  assert said["cost"]["bytes"] < 20_000 and said["cost"]["flops"] > 0
  with np.load(covariance) as stored:
    assert stored["moment"].shape == (96, 96)
  edited, back = tmp_path / "edited", tmp_path / "back"
  for source, option, target in (
    (checkpoint, "apply", edited),
    (edited, "remove", back),
  ):
    code, _, error = zoo(
      "edit", source, f"--{option}={path}", f"--output={target}"
    )
    assert code == 0, error
  first, changed, last = map(parameters, (checkpoint, edited, back))
  different = [n for n in first if not np.array_equal(first[n], changed[n])]
  assert different == [said["parameter"]]
  assert all(np.array_equal(first[name], last[name]) for name in first)
  found, _ = scores.likelihoods(
    editing.open_memory(str(edited)), [PROMPT], ["w8"]
  )
  assert found[0] == pytest.approx(after, rel=1e-4)
  code, output, error = zoo("infer", f"--checkpoint={edited}", PROMPT)
  assert code == 0, error
  code, _, error = zoo(
    "edit", edited, f"--apply={path}", f"--output={tmp_path / 'x'}"
  )
  assert code == 2 and "is there already in this checkpoint" in error


@pytest.mark.slow
def test_facts_of_a_file_are_written_at_once(checkpoint, zoo, tmp_path):
  facts, text = tmp_path / "facts.jsonl", tmp_path / "text.txt"
  rows = (
    {
      "prompt": "w7 {}",
      "subject": f"w{i}",
      "target": f"w{i + 1}",
      "true_target": "w30",
      "elsewhere": [["w20 w21", "w22"]],
    }
    for i in (9, 12, 15, 18)
  )
  facts.write_text("\n".join(map(json.dumps, rows)))
  text.write_text("\n".join(f"w{i} w{i % 7 + 1}" for i in range(1, 48)))
  path = tmp_path / "edits.npz"
  code, output, error = zoo(
    *("edit", checkpoint, f"--facts={facts}", "--number=3", "--layers=0"),
    *(f"--text={text}", f"--covariance={tmp_path}/c_{{}}.npz", "--ridge=1e-4"),
    *(f"--edit={path}", "--steps=10", "--json"),
  )
  assert code == 0, error
  said = json.loads(output)
  assert said["facts"] == 3 and (tmp_path / "c_0.npz").is_file()
  margins = [said[name]["efficacy_margin"] for name in ("before", "after")]
  assert margins[1] > margins[0]
  assert "neighbourhood_accuracy" in said["after"]
  (edit,) = edits.load(path)
  assert edit.notes["facts"][2] == ["w7 {}", "w15", "w16"]
  assert edit.left_FX.shape == (96, 3)


def test_a_trace_is_told_in_lines_and_has_a_title(tmp_path, capsys):
  effects_LN = np.array([[0.25, 0.5]])
  trace = tracing.Trace(
    effects_LN, 0.75, 0.25, ("w9",), (0, 1), " w8", "states"
  )
  found = {
    "answer": trace.answer,
    "clean": trace.clean,
    "largest": trace.table(),
    "cost": {"flops": 2e6, "seconds": 1.5, "bytes": 1024},
  }
  edit.show(found, as_json=False)
  assert capsys.readouterr().out.splitlines() == [
    "answer:  w8",
    "clean: 0.75",
    "largest: 'w9' layer 1 +0.25, 'w9' layer 0 +0",
    "cost: 2e+06 FLOPs, 1.50 s, 1,024 bytes written",
  ]
  trace.plot(tmp_path / "trace.svg")
  assert "Causal trace of the answer w8" in (tmp_path / "trace.svg").read_text()


@pytest.mark.slow
def test_traces_are_drawn(checkpoint, zoo, tmp_path):
  code, output, error = zoo(
    *("edit", checkpoint, PROMPT, "--subject=w9", "--json"),
    f"--trace={tmp_path / 'trace'}",
  )
  assert code == 0, error
  said = json.loads(output)
  assert len(said["largest"]) == 5
  files = [tmp_path / f"trace.{ending}" for ending in ("svg", "npz")]
  assert said["cost"]["bytes"] == sum(f.stat().st_size for f in files)
  assert said["cost"]["seconds"] > 0 and said["passes"] == 7
  # 11 rows of 16 places in each pass, whose kernels are 12 * 24^2 and more.
  assert said["cost"]["flops"] > 7 * 11 * 16 * 2 * 2 * 12 * 24**2
  assert "<svg" in (tmp_path / "trace.svg").read_text()
  with np.load(tmp_path / "trace.npz") as stored:
    assert stored["effects_LN"].shape == (3, 2)
    assert stored["tokens"].tolist() == ["w7", "w9", "w11"]


@pytest.mark.parametrize(
  ("words", "sentence"),
  [
    (
      [PROMPT],
      "give one of --target, --facts, --apply, --remove and --trace, not none",
    ),
    ([PROMPT, "--target=w5"], "--target needs --subject; add it"),
    (["--facts=f.jsonl", "--edit=e.npz"], "--facts needs --layers; add it"),
    (
      [PROMPT, "--target=w5", "--subject=w4", "--layer=1", "--edit=e.npz"],
      "the subject 'w4' stands nowhere in the prompt 'w7 w9 w11'",
    ),
    (
      [
        *(PROMPT, "--target=w5", "--subject=w9", "--layer=0", "--edit=e.npz"),
        "--keep=w3",
      ],
      "the subject 'w9' stands nowhere in the prompt 'w3'",
    ),
    (
      [PROMPT, "--target=w5", "--subject=w9", "--layer=4", "--edit=e.npz"],
      "there is no layer 4; the decoder has layers 0 to 1",
    ),
    (
      [PROMPT, "--trace=t", "--subject=w9", "--restore=all"],
      "nothing called 'all' is restored; choose among states, mlp, attention",
    ),
    (
      [PROMPT, "--trace=t", "--subject=w9", "--encoder_text=w3"],
      "--encoder_text is 'w3', and the model of ",
    ),
    (["--apply=e.npz"], "--apply needs --output, a folder that does not exist"),
    (
      [
        *(PROMPT, "--target=w5", "--subject=w9", "--layer=0", "--edit=e.npz"),
        "--output=new",
      ],
      "--ridge, --steps, --edit alone; leave out --output\n",
    ),
    (
      [
        *(PROMPT, "--target=w5", "--subject=w9", "--layer=0", "--edit=e.npz"),
        "--covariance=none.npz",
      ],
      "there is no covariance 'none.npz' and no text to take one from; name "
      "another file, or give --text",
    ),
    (
      [PROMPT, "--trace=t", "--subject=w9", "--steps=20", "--edit=e.npz"],
      "--trace reads PROMPT, --subject, --encoder_text, --vocabulary, "
      "--restore alone; leave out --steps, --edit\n",
    ),
    (
      [
        *(PROMPT, "--remove=e.npz", "--output=new", "--keep=w3", "--layer=0"),
        *("--text=t", "--ridge=0", "--restore=mlp", "--vocabulary=v"),
      ],
      "--remove reads --output alone; leave out PROMPT, --vocabulary, --keep, "
      "--layer, --text, --ridge, --restore\n",
    ),
  ],
)
def test_refusals(checkpoint, zoo, words, sentence):
  code, _, error = zoo("edit", checkpoint, *words)
  assert code == 2
  assert sentence in error


def test_a_covariance_is_found_again_whatever_its_name(checkpoint, tmp_path):
  memory, path = editing.open_memory(str(checkpoint)), tmp_path / "covariance"
  first = editing.moment(memory, 0, texts=["w1 w2"], path=str(path))
  assert [file.name for file in tmp_path.iterdir()] == [path.name]
  np.testing.assert_array_equal(
    editing.moment(memory, 0, path=str(path)), first
  )


def test_a_covariance_serves_its_checkpoint_alone(checkpoint, tmp_path):
  memory, path = editing.open_memory(str(checkpoint)), str(tmp_path / "c.npz")
  editing.moment(memory, 0, texts=["w1 w2"], path=path)

  def changed(part):
    name = f"decoder/layers_0/mlp/{part}/kernel"
    kernel = edits.kernel_of(memory.params, name)
    params = edits.with_kernel(memory.params, name, kernel + 1)
    return dataclasses.replace(memory, params=params)

  assert editing.moment(changed("wo"), 0, path=path) is not None
  with pytest.raises(UserError, match="has the covariance of another checkpo"):
    editing.moment(changed("wi"), 0, path=path)


def test_a_file_that_is_no_covariance(checkpoint, tmp_path):
  memory, path = editing.open_memory(str(checkpoint)), tmp_path / "c.npz"
  np.savez(path, moment=np.eye(96), layer=0)
  with pytest.raises(UserError, match="params is not a file in the archive"):
    editing.moment(memory, 0, path=str(path))
  whole = path.read_bytes()
  for content in (b"[]", whole[: len(whole) // 2]):
    path.write_bytes(content)
    for read, sentence in (
      (lambda: editing.moment(memory, 0, path=str(path)), "no covariance of"),
      (lambda: edits.load(path), "no edit"),
    ):
      with pytest.raises(UserError, match=f"c.npz' is {sentence}"):
        read()
