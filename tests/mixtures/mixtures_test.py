import json
import pathlib

import pytest

pytest.importorskip("seqio")
import seqio  # noqa: E402

import mixtures  # noqa: E402, F401
from mixtures import composition  # noqa: E402
from mixtures import counts  # noqa: E402
from tasks.vocabulary import t5_features  # noqa: E402
from tests.oracles.t5 import mixture_rates  # noqa: E402
from transformer_zoo.data import mixing  # noqa: E402
from transformer_zoo.data.prepare import reading  # noqa: E402
from transformer_zoo.data.prepare.preparation import prepare  # noqa: E402
from transformer_zoo.errors import UserError  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]


def rates_of(name):
  mixture = seqio.MixtureRegistry.get(name)
  return {task.name: mixture.get_rate(task) for task in mixture.tasks}


def test_published_counts():
  # Sums of Raffel et al. 2020's GLUE and SuperGLUE as one task each.
  assert sum(rates_of("glue_v002_proportional").values()) == 949_101
  assert sum(rates_of("super_glue_v102_proportional").values()) == 185_673
  assert rates_of("wsc_dpr_simple_proportional") == {
    "dpr_v001_simple": 1_322,
    "super_glue_wsc_v102_simple_train": 259,
    "super_glue_wsc_v102_simple_eval": 0,
  }


def test_t0_caps_sets_and_not_templates():
  rate = mixing.TemplatesProportional(maximum=500_000, templates=4)
  # The set is large: its templates share 500,000.
  assert rate.rate(3_600_000) == 125_000
  # It is not, though all of its templates together have more.
  assert rate.rate(363_849) == 363_849
  assert rate.rate(0) == 0
  with pytest.raises(UserError, match="TemplatesProportional.templates is 0"):
    mixing.TemplatesProportional(templates=0)


def test_t0_is_trained_on_other_types_than_it_is_tested_on():
  def sets(name):
    mixture = seqio.MixtureRegistry.get(name)
    return {task.source.template_of for task in mixture.tasks}

  trained, tested = sets("t0_train"), sets("t0_held_out")
  # Parts of a set, as the rounds of ANLI, are counted each.
  assert (len(trained), len(tested)) == (38, 11)
  assert not trained & tested
  assert trained == sets("t0_train_one_template")
  mixture = seqio.MixtureRegistry.get("t0_train_one_template")
  assert len(mixture.tasks) == len(trained)
  assert trained < sets("t0_plus_train") < sets("t0_plus_plus_train")
  assert sets("t0_plus_train") & tested == {"prompted_hellaswag"}
  inference = {name for name in tested if "rte" in name or "anli" in name}
  assert not sets("t0_plus_plus_train") & (inference | {"prompted_cb"})


@pytest.mark.slow
def test_t0s_miniature_rates():
  # 4,000 examples are above the limit of 2,000, 300 are below.
  sst2, summaries = map(
    seqio.TaskRegistry.get,
    ("prompted_mini_sst2_good", "prompted_mini_summarize_all"),
  )
  alone = seqio.MixtureRegistry.get("miniature_t0_one_template")
  assert alone.get_rate(sst2) == 2000
  mixture = seqio.MixtureRegistry.get("miniature_t0")
  assert mixture.get_rate(sst2) == pytest.approx(2000 / 3)
  assert mixture.get_rate(summaries) == 300


def test_equal_rates_leave_out_what_has_no_training_set(monkeypatch):
  monkeypatch.setenv("ZOO_DATA_DIR", "")
  assert rates_of("glue_mnli_and_dev_v002") == {
    "glue_mnli_v002": 1,
    "glue_mnli_matched_v002": 0,
    "glue_mnli_mismatched_v002": 0,
  }


@pytest.fixture
def data_dir(tmp_path, monkeypatch):
  """A data folder where CoLA is whole and QNLI has no training set."""
  for name, splits in (
    ("cola", ("train", "validation", "test")),
    ("qnli", ("validation", "test")),
  ):
    folder = tmp_path / "tfds" / "glue" / name / "2.0.0"
    folder.mkdir(parents=True)
    info = {"splits": [{"name": split} for split in splits]}
    (folder / "dataset_info.json").write_text(json.dumps(info))
  monkeypatch.setenv("ZOO_DATA_DIR", str(tmp_path))
  monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "none"))
  return tmp_path


def test_available_is_what_is_on_disk(data_dir):
  mixture = seqio.MixtureRegistry.get("glue_available")
  assert [task.name for task in mixture.tasks] == [
    "glue_cola_v002",
    "glue_qnli_v002",
  ]
  with reading.known_counts({"glue_cola_v002": 9, "glue_qnli_v002": 0}):
    assert rates_of("glue_available") == {
      "glue_cola_v002": 9,
      "glue_qnli_v002": 0,
    }
    assert mixture.total_rate == 9
  assert set(mixture.output_features) == {"inputs", "targets"}
  assert seqio.MixtureRegistry.get("super_glue_available").tasks == []


def test_nothing_available_is_told(data_dir, tmp_path):
  with pytest.raises(
    UserError, match="'super_glue_available' has no task whose data is on disk"
  ):
    prepare("super_glue_available", prepared_dir=tmp_path / "prepared")
  with pytest.raises(UserError, match="name a folder that has tfds/"):
    seqio.MixtureRegistry.get("super_glue_available").get_dataset()


def test_leave_out():
  rates = composition.members("super_glue_v102_proportional")
  left = composition.leave_out(rates, ["super_glue_record_v102"])
  assert len(left) == len(rates) - 1
  assert ("super_glue_cb_v102", 250) in left
  assert "super_glue_record_v102" not in dict(left)


@pytest.mark.parametrize(
  "names, sentence",
  [
    (
      ["super_glue_recrd_v102"],
      "not in the mixture; did you mean 'super_glue_",
    ),
    (list(counts.SUPER_GLUE), "Every task of the mixture is left out"),
  ],
)
def test_leave_out_refuses(names, sentence):
  rates = composition.members("super_glue_v102_proportional")
  with pytest.raises(UserError, match=sentence):
    composition.leave_out(rates, names)


def test_members_of_an_unknown_mixture():
  with pytest.raises(
    UserError,
    match="No mixture is named 'glue_v002_proportion'; did you mean 'glue_",
  ):
    composition.members("glue_v002_proportion")


def test_the_mixture_of_the_guide(tmp_path):
  text = (ROOT / "docs/guides/mixtures.md").read_text(encoding="utf-8")
  source = text.partition("```python\n")[2].partition("```")[0]
  seqio.TaskRegistry.add(
    "my_nli",
    source=seqio.TextLineDataSource({"train": str(tmp_path / "absent")}),
    preprocessors=[],
    output_features=t5_features(),
  )
  try:
    exec(source, {})
    with reading.known_counts({"my_nli": 100_000}):
      rates = rates_of("my_mixture")
  finally:
    seqio.TaskRegistry.remove("my_nli")
    seqio.MixtureRegistry.remove("my_mixture")
  assert rates["my_nli"] == 65_536
  assert "mini_sst2" in rates and "mini_copa" not in rates


@pytest.fixture(scope="module")
def with_c4():
  """The rates of the mixtures of table 11 and 12, with given counts."""
  with pytest.MonkeyPatch.context() as patch:
    patch.setenv("ZOO_DATA_DIR", "")
    return mixture_rates.ours(
      lambda name: name.startswith(("all_", "leave_one_out_", "supervised_"))
    )


def test_table_11_equal_rates(with_c4):
  rates = with_c4["all_equal"]
  assert rates.keys() == with_c4["all_proportional"].keys()
  # But for the sets that are there to be evaluated on.
  assert set(rates.values()) == {0.0, 1.0}
  assert {name for name, rate in rates.items() if not rate} == {
    name for name, rate in with_c4["all_proportional"].items() if not rate
  }


@pytest.mark.parametrize("exponent", range(16, 22))
def test_table_11_limits(with_c4, exponent):
  rates = with_c4[f"all_proportional_2_to_{exponent}"]
  limit = 2**exponent
  assert rates["c4_v020_unsupervised"] == limit
  assert rates["glue_mnli_v002"] == min(392_702, limit)
  assert rates["super_glue_record_v102"] == min(138_854, limit)
  assert rates["glue_rte_v002"] == rates["super_glue_rte_v102"] == 1_245


@pytest.mark.parametrize("temperature", [2, 4, 8])
def test_table_11_temperatures(with_c4, temperature):
  rates = with_c4[f"all_temperature_{temperature}"]
  root = 1 / temperature
  assert rates["c4_v020_unsupervised"] == pytest.approx(2 ** (21 * root))
  assert rates["glue_mnli_v002"] == pytest.approx(392_702**root)
  assert rates["glue_rte_v002"] == pytest.approx(2_490**root / 2)


def test_leave_one_out(with_c4):
  everything = set(with_c4["all_proportional"])
  for name, left_out in (
    ("glue_v002_proportional", set(counts.GLUE)),
    ("super_glue_v102_proportional", set(counts.SUPER_GLUE)),
    ("squad_v010_allanswers", {"squad_v010_allanswers"}),
  ):
    assert set(with_c4[f"leave_one_out_{name}"]) == everything - left_out
  # RTE is there once where one of the benchmarks is left out.
  name = "leave_one_out_glue_v002_proportional"
  assert with_c4[name]["super_glue_rte_v102"] == 2_490
  assert with_c4["supervised_proportional"]["glue_rte_v002"] == 1_245


@pytest.mark.slow
def test_published_counts_are_those_of_the_data(shared_data, monkeypatch):
  monkeypatch.setenv("ZOO_DATA_DIR", str(shared_data))
  published = counts.GLUE | counts.SUPER_GLUE
  for name in (
    "glue_rte_v002",
    "glue_mnli_matched_v002",
    "super_glue_cb_v102",
    "super_glue_copa_v102",
    "super_glue_wsc_v102_simple_train",
    "super_glue_wsc_v102_simple_eval",
    "super_glue_axg_v102",
  ):
    task = seqio.TaskRegistry.get(name)
    assert reading.count_examples(task) == published[name], name


@pytest.mark.parametrize(
  "whole, without, groups",
  [
    (
      "miniature_multitask",
      "miniature_without",
      {
        "GLUE": "miniature_glue",
        "CNNDM": "mini_summarize",
        "SQuAD": "mini_squad",
        "SGLUE": "miniature_super_glue",
        "EnDe": "mini_translate",
      },
    ),
    (
      "real_small_multitask",
      "real_small_without",
      {
        "GLUE": "glue_real_small",
        "SQuAD": "squad_v010_allanswers",
        "SGLUE": "super_glue_real_small",
      },
    ),
    (
      "all_proportional",
      "all_without",
      {
        "GLUE": "glue_v002_proportional",
        "CNNDM": "cnn_dailymail_v002",
        "SQuAD": "squad_v010_allanswers",
        "SGLUE": "super_glue_v102_proportional",
        "EnDe": "wmt_t2t_ende_v003",
        "EnFr": "wmt15_enfr_v003",
        "EnRo": "wmt16_enro_v003",
      },
    ),
  ],
)
def test_a_group_is_left_out_and_nothing_else(whole, without, groups):
  def tasks(name):
    found = seqio.get_mixture_or_task(name)
    return {task.name for task in getattr(found, "tasks", [found])}

  for group, name in groups.items():
    assert tasks(f"{without}_{group}") == tasks(whole) - tasks(name)
