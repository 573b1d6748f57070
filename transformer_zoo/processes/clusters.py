"""The place of this process among several, as flags or a launcher give it.

The flags of the command line come first, then the variables of a launcher: TPU
(GKE's, then the metadata server of a TPU VM), SLURM, Open MPI, Kubernetes.
Sources: the manuals of srun ("output environment variables") and mpirun, those
of Kubernetes' indexed jobs and JobSet, and, for TPUs, `jax._src.clusters`.
"""

from collections.abc import Mapping
import dataclasses
import glob
import os
import re

from transformer_zoo.errors import UserError

COORDINATOR, COUNT, INDEX = (
  "ZOO_COORDINATOR_ADDRESS",
  "ZOO_PROCESS_COUNT",
  "ZOO_PROCESS_INDEX",
)
_FLAGS = {
  "coordinator": "--coordinator_address",
  "count": "--process_count",
  "index": "--process_index",
}
# JAX's port for TPUs; where a launcher numbers its jobs, the port is made of
# the number, so that two jobs on one machine do not meet.
_PORT = 8482
_FIRST_OF_JOBS, _PORTS_OF_JOBS = 61440, 4096
_TPU_VENDOR = "0x1ae0"  # Google's, on the PCI bus
_METADATA_SECONDS = 5


@dataclasses.dataclass(frozen=True)
class Place:
  """One process among several.

  Attributes:
    source: the name of the launcher or of the flags that gave the place.
    coordinator: the host:port of process 0 at which all processes meet.
    count: the number of processes.
    index: the index of this process, from 0.
    local_devices: the numbers of the GPUs of the machine that this process
      uses; None for all that it sees.
  """

  source: str
  coordinator: str | None = None
  count: int | None = None
  index: int | None = None
  local_devices: tuple[int, ...] | None = None

  @property
  def address(self) -> tuple[str, int]:
    """The host and the port of process 0."""
    host, _, port = self.coordinator.rpartition(":")
    return host.strip("[]"), int(port)


def find(
  given: Mapping[str, str | int | None],
  environment: Mapping[str, str] = os.environ,
) -> Place | None:
  """Returns the place of this process, or None if it is alone.

  Args:
    given: the values of the flags by name: `coordinator`, `count`, `index`;
      None for a flag that is not given.
    environment: the environment variables.

  Raises:
    UserError: a value is missing, or the values contradict one another.
  """
  named = {
    "coordinator": environment.get(COORDINATOR),
    "count": _number(environment, COUNT),
    "index": _number(environment, INDEX),
  }
  explicit = {
    name: value if given.get(name) is None else given[name]
    for name, value in named.items()
    if given.get(name) is not None or value is not None
  }
  found = None
  if len(explicit) < len(named):
    found = next(filter(None, (look(environment) for look in _LAUNCHERS)), None)
  if found is None:
    if not explicit or explicit == {"count": 1}:
      return None
    found = Place("the command line")
  elif explicit:
    found = dataclasses.replace(
      found, source=f"{found.source} and the command line"
    )
  place = dataclasses.replace(found, **explicit)
  if place.count == 1:
    return None
  _check(place)
  return place


def _check(place: Place) -> None:
  for name, flag in _FLAGS.items():
    if getattr(place, name) is None:
      raise UserError(
        f"one of several processes ({place.source}), but {flag} is missing: "
        f"give {', '.join(_FLAGS.values())} to each, or the variables "
        f"{COORDINATOR}, {COUNT}, {INDEX}"
      )
  if place.count < 1 or not 0 <= place.index < place.count:
    raise UserError(
      f"--process_index is {place.index} and --process_count {place.count}; "
      "the processes are numbered from 0 to one less than their count"
    )
  host, colon, port = place.coordinator.rpartition(":")
  if not (host and colon and port.isdigit() and 0 < int(port) < 65536):
    raise UserError(
      f"--coordinator_address is {place.coordinator!r}; write it as HOST:PORT, "
      "the host of process 0 and a free port of it"
    )


def _gke_tpu(environment) -> Place | None:
  hosts = environment.get(
    "TPU_PROCESS_ADDRESSES", environment.get("TPU_WORKER_HOSTNAMES")
  )
  if (
    not hosts or "TPU_WORKER_ID" not in environment or _without_tpu(environment)
  ):
    return None
  hosts = [host.partition(":")[0] for host in hosts.split(",")]
  return _of_slices(
    "TPU workers of GKE", hosts, int(environment["TPU_WORKER_ID"]), environment
  )


def _tpu_vm(environment) -> Place | None:
  skipped = "TPU_SKIP_MDS_QUERY" in environment or _without_tpu(environment)
  if skipped or not _has_tpu():
    return None
  try:
    worker = int(_metadata("agent-worker-number", environment))
    workers = _metadata("worker-network-endpoints", environment).split(",")
    lines = _metadata("tpu-env", environment).splitlines()
  except (OSError, ValueError):
    return None
  # `address`, or `name:id:address` as it was written before.
  hosts = [endpoint.split(":")[-1] for endpoint in workers]
  settings = dict(
    (part.strip().strip("'") for part in line.split(":", 1))
    for line in lines
    if ":" in line
  )
  return _of_slices(
    "metadata of the TPU", hosts, worker, settings | dict(environment)
  )


def _of_slices(source, hosts, worker, settings) -> Place:
  """Returns the place of a worker of one or of several slices."""
  slices = int(settings.get("MEGASCALE_NUM_SLICES") or 1)
  first = settings.get("MEGASCALE_COORDINATOR_ADDRESS") or hosts[0]
  return Place(
    source=source,
    coordinator=f"{first.partition(':')[0]}:{_PORT}",
    count=len(hosts) * slices,
    index=int(settings.get("MEGASCALE_SLICE_ID") or 0) * len(hosts) + worker,
  )


def _slurm(environment) -> Place | None:
  # The variables of the step, because the variables of the job also stand in a
  # batch script that is one process.
  count = _number(environment, "SLURM_STEP_NUM_TASKS")
  if count is None or "SLURM_PROCID" not in environment:
    return None
  nodes = environment.get("SLURM_STEP_NODELIST", "")
  job = int(environment.get("SLURM_JOB_ID", 0))
  tasks = environment.get("SLURM_STEP_TASKS_PER_NODE", "1")
  # 'node[001-004,007]', 'node5,node6': what stands before the second node.
  first = re.sub(r"\[(\w+)[^\]]*\].*", r"\1", nodes).partition(",")[0]
  return Place(
    source="SLURM",
    coordinator=f"{first}:{_port_of_job(job)}" if first else None,
    count=count,
    index=int(environment["SLURM_PROCID"]),
    local_devices=_share_of_gpus(
      environment,
      "SLURM_LOCALID",
      max(map(int, re.findall(r"(?:^|,)(\d+)", tasks))),  # '4(x2),3'
    ),
  )


def _open_mpi(environment) -> Place | None:
  count = _number(environment, "OMPI_COMM_WORLD_SIZE")
  if count is None:
    return None
  # Version 4: '1531576320.0;tcp://10.96.0.1,10.148.0.1:34911'; version 5:
  # 'prterun-HOST-PID@1'. Both are where mpirun was called.
  uri = environment.get("OMPI_MCA_orte_hnp_uri", "")
  name = environment.get("PMIX_NAMESPACE", "")
  four = re.match(r"(\d+)\.\d+;tcp6?://\[?([^,\]]+?)[,:\]]", uri)
  five = re.match(r"prte(?:run)?-(.+)-(\d+)@\d+", name)
  coordinator = None
  if four:
    coordinator = f"{four[2]}:{_port_of_job(int(four[1]) >> 12)}"
  elif five:
    coordinator = f"{five[1]}:{_port_of_job(int(five[2]))}"
  return Place(
    source="Open MPI",
    coordinator=coordinator,
    count=count,
    index=int(environment["OMPI_COMM_WORLD_RANK"]),
    local_devices=_share_of_gpus(
      environment,
      "OMPI_COMM_WORLD_LOCAL_RANK",
      int(environment.get("OMPI_COMM_WORLD_LOCAL_SIZE", 1)),
    ),
  )


def _kubernetes(environment) -> Place | None:
  """Returns the place of a pod of an indexed job; its manifest sets COUNT."""
  index = _number(environment, "JOB_COMPLETION_INDEX")
  if index is None or COUNT not in environment:
    return None
  jobset, job = environment.get("JOBSET_NAME"), "REPLICATED_JOB_NAME"
  coordinator = None
  if jobset and job in environment:  # JobSet's names of pods and their service
    coordinator = f"{jobset}-{environment[job]}-0-0.{jobset}:{_PORT}"
  return Place("Kubernetes", coordinator, index=index)


_LAUNCHERS = (_gke_tpu, _tpu_vm, _slurm, _open_mpi, _kubernetes)


def _number(environment, name: str) -> int | None:
  text = environment.get(name)
  if text is not None and not text.isdigit():
    raise UserError(f"the variable {name} is {text!r}; it has to be a number")
  return None if text is None else int(text)


def _port_of_job(number: int) -> int:
  return _FIRST_OF_JOBS + number % _PORTS_OF_JOBS


def _share_of_gpus(environment, name, tasks) -> tuple[int, ...] | None:
  """Returns the GPUs of this process; None for all that it sees.

  A launcher that binds GPUs to tasks shows each process its own. Otherwise the
  GPUs of a machine are dealt to its processes evenly.
  """
  visible = environment.get("CUDA_VISIBLE_DEVICES")
  count = (
    len(glob.glob("/dev/nvidia[0-9]*"))
    if visible is None
    else len(list(filter(None, visible.split(","))))
  )
  bound = "SLURM_GPUS_PER_TASK" in environment
  if tasks == 1 or count < tasks or bound or name not in environment:
    return None
  each = count // tasks
  first = int(environment[name]) * each
  return tuple(range(first, first + each))


def _without_tpu(environment) -> bool:
  """Returns whether the user keeps JAX from the TPU."""
  platforms = environment.get("JAX_PLATFORMS", "")
  return bool(platforms) and "tpu" not in platforms


def _has_tpu() -> bool:
  for path in glob.glob("/sys/bus/pci/devices/*/vendor"):
    with open(path, encoding="ascii") as file:
      if file.read().strip() == _TPU_VENDOR:
        return True
  return False


def _metadata(key: str, environment: Mapping[str, str]) -> str:
  import urllib.request  # a tenth of a second

  host = environment.get("GCE_METADATA_IP", "metadata.google.internal")
  request = urllib.request.Request(
    f"http://{host}/computeMetadata/v1/instance/attributes/{key}",
    headers={"Metadata-Flavor": "Google"},
  )
  with urllib.request.urlopen(request, timeout=_METADATA_SECONDS) as answer:
    return answer.read().decode()
