"""scripts/gke.sh: manifests against the schema of JobSet."""

import json
import pathlib
import re

import pytest

GOLDEN = pathlib.Path(__file__).parent.parent / "golden/jobset_schema.json"
COMMAND = ["zoo", "train", "--gin.MODEL_DIR='gs://b/\"x\" & \\y $HOME'"]
TPU = ["--accelerator=tpu-v5-lite-podslice", "--topology=4x4", "--slices=2"]
GPU = ["--accelerator=nvidia-h100-80gb", "--hosts=2", "--chips_per_host=8"]
PLACE = ["--name=t5", "--image=registry/zoo:1"]
TYPES = {"string": str, "integer": int, "boolean": bool}


def check(value, schema, where="manifest"):
  """Fails where a value is not what the schema says."""
  kind = schema.get("type")
  if schema.get("x-kubernetes-int-or-string"):
    assert isinstance(value, (int, str)), where
  elif kind == "object" and "fields" in schema:
    assert {*schema["required"]} <= {*value}, where
    for name, inner in value.items():
      assert name in schema["fields"], f"{where}.{name}"
      check(inner, schema["properties"][name], f"{where}.{name}")
  elif kind == "object":
    for name, inner in value.items():
      check(inner, schema.get("values", {}), f"{where}.{name}")
  elif kind == "array":
    for index, inner in enumerate(value):
      check(inner, schema["items"], f"{where}[{index}]")
  elif kind is not None:
    assert type(value) is TYPES[kind], where
  assert value in schema.get("enum", [value]), where
  if "pattern" in schema and isinstance(value, str):
    assert re.search(schema["pattern"], value), where


@pytest.fixture
def manifest(programs):
  """Runs the script and reads what it handed to kubectl."""
  yaml = pytest.importorskip("yaml")
  programs.add("kubectl")

  def read(*words):
    done = programs.script("gke.sh", *PLACE, *words, "--", *COMMAND)
    assert done.returncode == 0, done.stderr
    assert programs.calls == [["kubectl", "apply", "--filename=-"]]
    return yaml.safe_load((programs.folder / "input").read_text())

  return read


@pytest.mark.parametrize("words", [TPU, GPU], ids=["tpu", "gpu"])
def test_manifests_are_of_jobsets_schema(words, manifest):
  found = manifest(*words)
  check(found, json.loads(GOLDEN.read_text())["schema"])
  (job,) = found["spec"]["replicatedJobs"]
  (container,) = job["template"]["spec"]["template"]["spec"]["containers"]
  assert container["command"] == COMMAND
  rules = job["template"]["spec"]["podFailurePolicy"]["rules"]
  assert rules[0]["onExitCodes"]["containerName"] == container["name"]


def test_a_field_that_jobset_does_not_have_is_seen(manifest):
  found = manifest(*TPU)
  found["spec"]["failurePolicy"]["maxRestart"] = 3
  with pytest.raises(AssertionError, match="failurePolicy.maxRestart"):
    check(found, json.loads(GOLDEN.read_text())["schema"])


def test_a_slice_is_a_job_of_its_machines(manifest):
  (job,) = manifest(*TPU)["spec"]["replicatedJobs"]
  assert job["replicas"] == 2
  spec = job["template"]["spec"]
  assert spec["parallelism"] == spec["completions"] == 4  # 16 chips by fours
  pod = spec["template"]["spec"]
  assert pod["nodeSelector"] == {
    "cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice",
    "cloud.google.com/gke-tpu-topology": "4x4",
  }
  assert pod["containers"][0]["resources"]["limits"] == {"google.com/tpu": 4}


def test_gpu_machines_are_told_where_they_meet(manifest):
  (job,) = manifest(*GPU)["spec"]["replicatedJobs"]
  pod = job["template"]["spec"]["template"]["spec"]
  env = {one["name"]: one["value"] for one in pod["containers"][0]["env"]}
  assert env == {
    "ZOO_PROCESS_COUNT": "2",
    "ZOO_COORDINATOR_ADDRESS": "t5-worker-0-0.t5:8482",
  }


def test_a_dry_run_prints_the_manifest(programs):
  programs.add("kubectl")
  done = programs.script("gke.sh", *PLACE, *TPU, "--dry_run", "--", *COMMAND)
  assert done.returncode == 0 and "kind: JobSet" in done.stdout
  assert "{" not in re.sub(r'\["zoo".*', "", done.stdout)
  assert not (programs.folder / "calls").exists()
