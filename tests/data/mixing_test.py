import dataclasses
import types

import numpy as np
import pytest

from transformer_zoo.data import mixing
from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import UserError

# Training examples of GLUE as published.
GLUE = {
  "glue_cola_v002": 8_551,
  "glue_sst2_v002": 67_349,
  "glue_mrpc_v002": 3_668,
  "glue_qqp_v002": 363_849,
  "glue_stsb_v002": 5_749,
  "glue_mnli_v002": 392_702,
  "glue_qnli_v002": 104_743,
  "glue_rte_v002": 2_490,
}
# K -> (share of MNLI, share of SST-2), from r_m = min(e_m, K) / sum min(e_n, K)
# with the sums done by hand.
LIMITED = {
  2**16: (65_536 / 282_602, 65_536 / 282_602),
  2**17: (131_072 / 454_694, 67_349 / 454_694),
  2**18: (262_144 / 716_838, 67_349 / 716_838),
  2**19: (392_702 / 949_101, 67_349 / 949_101),
  2**20: (392_702 / 949_101, 67_349 / 949_101),
  2**21: (392_702 / 949_101, 67_349 / 949_101),
}


def shares(rates, counts=GLUE):
  found = [rates.rate(count, name) for name, count in counts.items()]
  return dict(zip(counts, mixing.normalized(found), strict=True))


@pytest.mark.parametrize("limit", LIMITED)
def test_artificial_limit_clips_every_task(limit):
  found = shares(mixing.ExamplesProportional(maximum=limit))
  mnli, sst2 = LIMITED[limit]
  assert found["glue_mnli_v002"] == pytest.approx(mnli, rel=1e-12)
  assert found["glue_sst2_v002"] == pytest.approx(sst2, rel=1e-12)
  assert sum(found.values()) == pytest.approx(1)


@pytest.mark.parametrize("temperature", [2, 4, 8])
def test_temperature_is_the_papers(temperature):
  # Section 3.5.2: each r_m to the power 1/T, then renormalised.
  proportional = np.array(list(GLUE.values())) / sum(GLUE.values())
  expected = proportional ** (1 / temperature)
  rates = mixing.ExamplesProportional(maximum=2**21, temperature=temperature)
  np.testing.assert_allclose(
    list(shares(rates).values()), expected / expected.sum(), rtol=1e-12
  )


def test_temperature_golden():
  # sqrt: 92.4716, 259.517, 60.564, 603.199, 75.822, 626.659, 323.640, 49.900
  found = shares(mixing.ExamplesProportional(maximum=2**21, temperature=2.0))
  assert found["glue_mnli_v002"] == pytest.approx(626.6594 / 2091.7725, 1e-5)
  assert found["glue_rte_v002"] == pytest.approx(49.8999 / 2091.7725, 1e-5)


def test_same_order_of_operations_as_seqio():
  seqio = pytest.importorskip("seqio")
  rng = np.random.default_rng(0)
  for _ in range(50):
    count = int(rng.integers(1, 1_000_000))
    task = types.SimpleNamespace(
      name="a", cache_dir=None, num_input_examples=lambda split, n=count: n
    )
    fields = {
      "maximum": int(rng.integers(1, 500_000)),
      "scale": float(rng.uniform(0.1, 3)),
      "temperature": float(rng.choice([1, 2, 4, 8])),
    }
    assert mixing.ExamplesProportional(**fields).rate(count) == pytest.approx(
      seqio.mixing_rate_num_examples(task, **fields)
    )


def test_released_code_leaves_some_tasks_unclipped():
  rates = mixing.ExamplesProportional(
    maximum=1000, temperature=2.0, unclipped=("glue_mnli_v002",)
  )
  assert rates.rate(392_702, "glue_mnli_v002") == 392_702
  assert rates.rate(392_702, "glue_qqp_v002") == 1000**0.5


def test_a_task_under_two_names_counts_once():
  rates = mixing.ExamplesProportional(halved=("glue_rte_v002", "b"))
  assert rates.rate(2_490, "glue_rte_v002") == 1_245
  assert rates.rate(2_490, "super_glue_rte_v102") == 2_490


def test_given_counts_stand_for_the_tasks_own():
  rates = mixing.ExamplesProportional(maximum=500, counts={"text": 710_000})
  assert rates.rate(12, "text") == 500
  assert rates.rate(12, "other") == 12
  assert rates(types.SimpleNamespace(name="text")) == 500


def test_equal_rates_are_of_tasks_that_can_be_trained_on():
  assert [mixing.Equal().rate(count) for count in (0, 7, 9_000)] == [0, 1, 1]


@pytest.mark.parametrize(
  "fields, sentence",
  [
    ({"maximum": 0}, r"ExamplesProportional.maximum is 0; it must be above 0"),
    ({"temperature": -1.0}, "temperature is -1.0; it must be above 0"),
    ({"scale": float("nan")}, "scale is nan; it must be above 0"),
    ({"counts": {"a": -3}}, "counts has -3 for 'a'; a count is not negative"),
  ],
)
def test_impossible_rates_are_refused(fields, sentence):
  with pytest.raises(UserError, match=sentence):
    mixing.ExamplesProportional(**fields)


def prepared(rates, counts):
  tasks = [
    types.SimpleNamespace(
      name=name,
      splits={"train": types.SimpleNamespace(num_examples=n)} if n else {},
    )
    for name, n in counts.items()
  ]
  return manifest.PreparedMixture("both", tuple(tasks), tuple(rates))


def test_rates_are_replaced_from_the_manifest():
  mixture = prepared((5.0, 1.0, 0.0), {"a": 100, "b": 30, "c": 50})
  new = mixing.with_rates(mixture, mixing.ExamplesProportional(maximum=40))
  # A task of rate 0 is there for evaluation alone.
  assert new == dataclasses.replace(mixture, rates=(40.0, 30.0, 0.0))
  assert mixing.with_rates(mixture, mixing.Equal()).rates == (1.0, 1.0, 0.0)


def test_nothing_to_train_on_is_told():
  with pytest.raises(
    UserError, match="'both' has no task with training examples among a, b"
  ):
    mixing.with_rates(prepared((1.0, 0.0), {"a": 0, "b": 3}), mixing.Equal())
