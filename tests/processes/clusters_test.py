"""Launchers' variables, as their manuals show them, and what users say."""

import http.server
import threading

import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.processes import clusters
from transformer_zoo.processes.clusters import Place

SLURM = {
  "SLURM_JOB_ID": "4096123",
  "SLURM_STEP_NUM_TASKS": "16",
  "SLURM_PROCID": "5",
  "SLURM_LOCALID": "1",
  "SLURM_STEP_NODELIST": "node[001-003,007]",
  "SLURM_STEP_TASKS_PER_NODE": "4(x4)",
}
OPEN_MPI = {
  "OMPI_COMM_WORLD_SIZE": "4",
  "OMPI_COMM_WORLD_RANK": "3",
  "OMPI_COMM_WORLD_LOCAL_RANK": "1",
  "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}
GKE_TPU = {"TPU_WORKER_ID": "2", "TPU_WORKER_HOSTNAMES": "t-0.s,t-1.s,t-2.s"}
GIVEN = {"coordinator": "a:1", "count": 2, "index": 1}


def find(environment, **given):
  return clusters.find(given, environment)


def test_alone_without_any_of_them():
  assert find({}) is None
  assert find({}, count=1) is None
  assert find({**SLURM, "SLURM_STEP_NUM_TASKS": "1"}) is None
  job_alone = {"SLURM_JOB_ID": "1", "SLURM_NTASKS": "8", "SLURM_PROCID": "0"}
  assert find(job_alone) is None, "a batch script is one process"


def test_flags_stand_before_variables():
  assert find(SLURM, **GIVEN) == Place("the command line", "a:1", 2, 1)
  variables = {
    "ZOO_COORDINATOR_ADDRESS": "b:2",
    "ZOO_PROCESS_COUNT": "4",
    "ZOO_PROCESS_INDEX": "3",
  }
  assert find(variables) == Place("the command line", "b:2", 4, 3)
  assert find(variables, index=0).index == 0
  place = find(SLURM, coordinator="x:9")
  assert place.source == "SLURM and the command line"
  assert (place.coordinator, place.count, place.index) == ("x:9", 16, 5)


@pytest.mark.parametrize(
  "nodes, first",
  [
    ("node[001-003,007]", "node001"),
    ("gpu[7,9]", "gpu7"),
    ("node5,node6", "node5"),
    ("n1", "n1"),
    ("rack1-n[2-3]", "rack1-n2"),
  ],
)
def test_slurm(nodes, first):
  place = find({**SLURM, "SLURM_STEP_NODELIST": nodes})
  port = 61440 + 4096123 % 4096
  assert place == Place("SLURM", f"{first}:{port}", 16, 5)


@pytest.mark.parametrize(
  "visible, more, expected",
  [
    ("0,1,2,3,4,5,6,7", {}, (2, 3)),
    ("0,1,2,3", {}, (1,)),
    ("0", {}, None),
    ("0,1,2,3", {"SLURM_GPUS_PER_TASK": "4"}, None),
    ("0,1,2,3", {"SLURM_STEP_TASKS_PER_NODE": "1(x16)"}, None),
  ],
)
def test_gpus_of_a_machine_are_dealt_to_its_processes(visible, more, expected):
  environment = {**SLURM, "CUDA_VISIBLE_DEVICES": visible, **more}
  assert find(environment).local_devices == expected


@pytest.mark.parametrize(
  "variable, value, coordinator",
  [
    (
      "OMPI_MCA_orte_hnp_uri",
      "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911",
      f"10.96.0.1:{61440 + (1531576320 >> 12) % 4096}",
    ),
    ("PMIX_NAMESPACE", "prterun-n-1-4242@1", f"n-1:{61440 + 4242 % 4096}"),
  ],
)
def test_open_mpi(variable, value, coordinator):
  place = find({**OPEN_MPI, variable: value})
  assert place == Place("Open MPI", coordinator, 4, 3)


def test_kubernetes():
  environment = {
    "JOB_COMPLETION_INDEX": "3",
    "ZOO_PROCESS_COUNT": "8",
    "JOBSET_NAME": "run",
    "REPLICATED_JOB_NAME": "worker",
  }
  place = find(environment)
  assert place.source == "Kubernetes and the command line"
  assert (place.count, place.index) == (8, 3)
  assert place.coordinator == "run-worker-0-0.run:8482"


def test_tpu_of_gke():
  assert find(GKE_TPU) == Place("TPU workers of GKE", "t-0.s:8482", 3, 2)
  slices = {
    "MEGASCALE_NUM_SLICES": "2",
    "MEGASCALE_SLICE_ID": "1",
    "MEGASCALE_COORDINATOR_ADDRESS": "first.s:8080",
  }
  assert find({**GKE_TPU, **slices}) == Place(
    "TPU workers of GKE", "first.s:8482", 6, 5
  )
  assert find({**GKE_TPU, "JAX_PLATFORMS": "cpu"}) is None
  assert find({**GKE_TPU, "TPU_WORKER_HOSTNAMES": "localhost"}) is None


class _Metadata(http.server.BaseHTTPRequestHandler):
  attributes = {
    "agent-worker-number": "1",
    "worker-network-endpoints": "a:0:10.0.0.5,b:1:10.0.0.6",
    "tpu-env": "ACCELERATOR_TYPE: 'v5p-16'\nMEGASCALE_NUM_SLICES: '1'\n",
  }

  def do_GET(self):
    assert self.headers["Metadata-Flavor"] == "Google"
    self.send_response(200)
    self.end_headers()
    self.wfile.write(self.attributes[self.path.rpartition("/")[2]].encode())

  def log_message(self, *_):
    pass


def test_metadata_of_a_tpu_vm(monkeypatch):
  monkeypatch.setattr(clusters, "_has_tpu", lambda: True)
  with http.server.HTTPServer(("127.0.0.1", 0), _Metadata) as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"127.0.0.1:{server.server_port}"
    place = find({"GCE_METADATA_IP": address})
    server.shutdown()
  assert place == Place("metadata of the TPU", "10.0.0.5:8482", 2, 1)
  assert find({"GCE_METADATA_IP": "127.0.0.1:1"}) is None, "no TPU of Google's"
  assert find({"TPU_SKIP_MDS_QUERY": "1"}) is None


@pytest.mark.parametrize(
  "given, environment, message",
  [
    (
      {"count": 2},
      {},
      "one of several processes (the command line), but --coordinator_address "
      "is missing: give --coordinator_address, --process_count, "
      "--process_index to each, or the variables ZOO_COORDINATOR_ADDRESS, "
      "ZOO_PROCESS_COUNT, ZOO_PROCESS_INDEX",
    ),
    (
      {**GIVEN, "index": 2},
      {},
      "--process_index is 2 and --process_count 2; the processes are numbered "
      "from 0 to one less than their count",
    ),
    (
      {**GIVEN, "coordinator": "host"},
      {},
      "--coordinator_address is 'host'; write it as HOST:PORT, the host of "
      "process 0 and a free port of it",
    ),
    (
      {},
      {"ZOO_PROCESS_COUNT": "two"},
      "the variable ZOO_PROCESS_COUNT is 'two'; it has to be a number",
    ),
  ],
)
def test_what_does_not_do(given, environment, message):
  with pytest.raises(UserError) as caught:
    clusters.find(given, environment)
  assert str(caught.value) == message
