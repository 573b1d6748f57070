"""Shards by several processes: the same files, kept after a kill."""

import hashlib
import multiprocessing
import os
import signal
import types

import numpy as np
import pytest

seqio = pytest.importorskip("seqio")

from tests.data import text_corpora  # noqa: E402
from transformer_zoo.data.prepare import preparation as prepare_module  # noqa: E402
from transformer_zoo.data.prepare import shard_jobs  # noqa: E402
from transformer_zoo.data.prepare import shards  # noqa: E402
from transformer_zoo.data.prepare import task_writer  # noqa: E402
from transformer_zoo.data.prepare import workers  # noqa: E402
from transformer_zoo.data.prepare.preparation import prepare  # noqa: E402
from transformer_zoo.data.storage import manifest  # noqa: E402
from transformer_zoo.data.storage.token_stream import TokenStream  # noqa: E402
from transformer_zoo.errors import UserError  # noqa: E402

NAME = "zt_sharded"
COUNT = 4


@pytest.fixture
def texts(tmp_path):
  return text_corpora.write_files(tmp_path / "text")


@pytest.fixture
def task(texts, vocabulary, tmp_path, monkeypatch):
  """A task over five files, which are four shards."""
  sizes = [
    shard_jobs._text_bytes(path) for path in (tmp_path / "text").iterdir()
  ]
  monkeypatch.setattr(shard_jobs, "_SHARD_BYTES", sum(sizes) // COUNT + 1)
  yield text_corpora.register(NAME, tmp_path / "text", vocabulary)
  seqio.TaskRegistry.remove(NAME)


def tree(folder):
  """Path -> checksum of all that `prepare` has written."""
  return {
    str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
    for path in sorted(folder.rglob("*"))
    # A stamp notes which modules were imported, by Beam too.
    if path.is_file() and path.suffix != ".lock" and path.name[0] != "."
  }


def run_apart(function):
  """Runs a function in a forked process; returns its exit code."""
  process = multiprocessing.get_context("fork").Process(target=function)
  process.start()
  process.join()
  return process.exitcode


@pytest.mark.parametrize(
  "sizes, target",
  [
    ([5], 1),
    ([1] * 100, 10),
    ([100, 1, 1, 1], 10),
    ([1, 1, 1, 100], 10),
    ([0, 0, 0], 10),
    ([3, 1, 4, 1, 5, 9, 2, 6], 1),
    ([3, 1, 4, 1, 5, 9, 2, 6], 1000),
  ],
)
def test_every_file_is_in_one_shard(sizes, target):
  cuts = shard_jobs._cut(sizes, target)
  assert cuts[0] == 0 and cuts[-1] == len(sizes)
  assert all(first < last for first, last in zip(cuts, cuts[1:], strict=False))
  assert len(cuts) - 1 <= max(1, -(-sum(sizes) // target))


def test_parts_are_about_equal():
  sizes = np.random.default_rng(0).integers(1, 100, 1000).tolist()
  cuts = shard_jobs._cut(sizes, sum(sizes) // 8)
  parts = [sum(sizes[a:b]) for a, b in zip(cuts, cuts[1:], strict=False)]
  assert max(parts) - min(parts) < 200
  assert len(shard_jobs._cut([10] * 5000, 10)) - 1 == shard_jobs._MOST_SHARDS


@pytest.mark.slow
def test_the_number_of_processes_changes_nothing(task, tmp_path):
  trees = []
  for processes in (1, 2, 3):
    folder = tmp_path / str(processes)
    made = prepare(NAME, prepared_dir=folder, processes=processes)
    trees.append(tree(folder))
  assert len(made.tasks[0].splits["train"].shards) == COUNT
  assert trees[0] == trees[1] == trees[2]
  names = {os.path.basename(name) for name in trees[0]}
  assert {f"train-0000{i}-of-00004.tokens" for i in range(COUNT)} <= names


def test_the_stream_has_all_documents(task, texts, vocabulary, tmp_path):
  made = prepare(NAME, prepared_dir=tmp_path / "p", processes=2).tasks[0]
  stream = TokenStream(made, "train")
  ids = [vocabulary.encode(text) for text in texts]
  np.testing.assert_array_equal(
    stream.read(np.array([0]), stream.num_tokens)[0], np.concatenate(ids)
  )
  np.testing.assert_array_equal(
    stream.document_ends, np.cumsum([len(some) for some in ids])
  )
  assert made.splits["train"].num_examples == len(texts)


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_a_kill_costs_no_finished_shard(task, tmp_path, monkeypatch, processes):
  whole, folder = tmp_path / "whole", tmp_path / "killed"
  prepare(NAME, prepared_dir=whole, processes=1)
  parent, write = os.getpid(), shards.write_shard

  def write_and_kill(content, place, task, folder, skipped):
    if place.index == 3:
      (folder / f"{place.name}.tokens").write_bytes(b"half of it")
      if os.getppid() != parent:  # a child of the process that prepares
        os.kill(os.getppid(), signal.SIGKILL)
      os.kill(os.getpid(), signal.SIGKILL)
    write(content, place, task, folder, skipped)

  monkeypatch.setattr(shards, "write_shard", write_and_kill)
  code = run_apart(
    lambda: prepare(NAME, prepared_dir=folder, processes=processes)
  )
  monkeypatch.setattr(shards, "write_shard", write)
  assert code == -signal.SIGKILL
  with pytest.raises(UserError, match=f"Nothing named {NAME!r} is prepared"):
    manifest.load(NAME, folder)
  with prepare_module.folders.lock(folder / f".{NAME}.lock"):
    pass  # its children are gone
  partial = folder / f".{NAME}.partial"
  jobs = shard_jobs.plan(task, template(whole), "train", partial)
  finished = [job.place.name + ".tokens" for job in jobs if job.finished]
  assert 0 < len(finished) < COUNT
  before = {name: identity(partial / name) for name in finished}

  lines = []
  prepare(NAME, prepared_dir=folder, processes=processes, report=lines.append)
  assert lines[0] == f"{NAME} train: {len(finished)} of 4 shards kept"
  after = {name: identity(folder / NAME / name) for name in finished}
  assert after == before
  assert tree(folder) == tree(whole)
  assert not partial.exists()


def template(folder):
  return manifest.load(NAME, folder).tasks[0]


def identity(path):
  status = path.stat()
  return status.st_ino, status.st_mtime_ns


def interrupt(folder, monkeypatch):
  """Leaves the first two of four shards finished; returns where."""
  write = shards.write_shard

  def write_two(content, place, *arguments):
    if place.index == 2:
      raise KeyboardInterrupt
    write(content, place, *arguments)

  monkeypatch.setattr(shards, "write_shard", write_two)
  with pytest.raises(KeyboardInterrupt):
    prepare(NAME, prepared_dir=folder, processes=1)
  monkeypatch.setattr(shards, "write_shard", write)
  return folder / f".{NAME}.partial"


@pytest.mark.slow
def test_a_finished_shard_that_is_cut_short_is_written_again(
  task, tmp_path, monkeypatch
):
  partial = interrupt(tmp_path / "a", monkeypatch)
  os.truncate(partial / "train-00000-of-00004.tokens", 10)
  lines = []
  prepare(NAME, prepared_dir=tmp_path / "a", report=lines.append)
  assert lines[0] == f"{NAME} train: 1 of 4 shards kept"
  prepare(NAME, prepared_dir=tmp_path / "b")
  assert tree(tmp_path / "a") == tree(tmp_path / "b")


@pytest.mark.slow
def test_shards_of_other_text_are_not_kept(task, tmp_path, monkeypatch):
  interrupt(tmp_path / "a", monkeypatch)
  path = tmp_path / "text" / "a.jsonl"
  path.write_bytes(path.read_bytes().replace(b"0 3 ", b"0 4 "))
  lines = []
  prepare(NAME, prepared_dir=tmp_path / "a", report=lines.append)
  assert not any("kept" in line for line in lines)
  prepare(NAME, prepared_dir=tmp_path / "b")
  assert tree(tmp_path / "a") == tree(tmp_path / "b")


def test_a_process_that_is_killed_is_told(task, tmp_path, monkeypatch):
  write = shards.write_shard

  def die(content, place, *arguments):
    if place.index == 2:
      os.kill(os.getpid(), signal.SIGKILL)
    write(content, place, *arguments)

  monkeypatch.setattr(shards, "write_shard", die)
  with pytest.raises(UserError) as raised:
    prepare(NAME, prepared_dir=tmp_path / "p", processes=2)
  assert str(raised.value) == (
    f"Task {NAME!r}: A process of `prepare` was killed by signal 9 (9: perhaps "
    "for want of memory); run it again, with fewer --processes: what is "
    "finished is kept."
  )


def test_a_process_that_was_killed_before_anybody_looked_is_told():
  children = [types.SimpleNamespace(exitcode=code) for code in (0, -9)]
  assert workers._wait(children, lambda: None) == -9


def test_an_unexpected_error_in_a_process_is_no_success(
  task, tmp_path, monkeypatch, capfd
):
  def fail(*arguments):
    raise ZeroDivisionError("unexpected")

  monkeypatch.setattr(shards, "write_shard", fail)
  with pytest.raises(RuntimeError, match="its error is above"):
    prepare(NAME, prepared_dir=tmp_path / "p", processes=2)
  assert "ZeroDivisionError: unexpected" in capfd.readouterr().err


@pytest.mark.parametrize("processes", [1, 2])
def test_a_bad_row_in_a_later_shard_is_named(task, tmp_path, processes):
  path = tmp_path / "text" / "d.jsonl"
  path.write_bytes(path.read_bytes() + b'{"txt": "no text"}\n')
  with pytest.raises(
    UserError, match=f"Line 161 of the data file '{path}' has no string 'text'"
  ):
    prepare(NAME, prepared_dir=tmp_path / "p", processes=processes)


@pytest.mark.parametrize("processes", [1, 2])
def test_bad_rows_of_all_shards_are_counted(
  task, tmp_path, monkeypatch, processes
):
  monkeypatch.setenv("ZOO_SKIP_BAD_ROWS", "1")
  for name, number in (("a.jsonl", 2), ("d.jsonl", 3)):
    path = tmp_path / "text" / name
    path.write_bytes(path.read_bytes() + b"{}\n" * number)
  lines = []
  made = prepare(
    NAME,
    prepared_dir=tmp_path / "p",
    processes=processes,
    report=lines.append,
  )
  assert made.tasks[0].splits["train"].num_skipped == 5
  first = f"Line 41 of the data file '{tmp_path}/text/a.jsonl' has no string"
  assert f"skipped 5 bad rows of {NAME} train, first: {first}" in lines[-2]


@pytest.mark.slow
def test_a_beam_runner_writes_the_same_files(task, tmp_path):
  prepare(NAME, prepared_dir=tmp_path / "a")
  prepare(NAME, prepared_dir=tmp_path / "b", beam_runner="local")
  assert tree(tmp_path / "a") == tree(tmp_path / "b")


def test_a_bad_row_on_a_beam_runner_is_told(task, tmp_path):
  path = tmp_path / "text" / "d.jsonl"
  path.write_bytes(b"{}\n")
  with pytest.raises(UserError, match=f"Line 1 of the data file '{path}' has"):
    prepare(NAME, prepared_dir=tmp_path / "p", beam_runner="local")


@pytest.mark.parametrize(
  "options, message",
  [
    ({"beam_runner": "FlinkRuner"}, "no runner 'FlinkRuner'"),
    (
      {"beam_runner": "local", "beam_options": ["--no_such=1"]},
      "'--no_such' is an option neither",
    ),
  ],
)
def test_unknown_runners_and_options_of_beam(task, tmp_path, options, message):
  with pytest.raises(UserError, match=message):
    prepare(NAME, prepared_dir=tmp_path / "p", **options)


def test_there_is_a_process(task, tmp_path):
  with pytest.raises(UserError, match="number of processes is 0; give 1 or mo"):
    prepare(NAME, prepared_dir=tmp_path / "p", processes=0)


@pytest.mark.parametrize("processes", [1, 2])
def test_progress_has_the_time_left(task, tmp_path, monkeypatch, processes):
  monkeypatch.setattr(workers, "_TELL_SECONDS", 0.0)
  lines = []
  prepare(
    NAME,
    prepared_dir=tmp_path / "p",
    processes=processes,
    report=lines.append,
  )
  told = [line for line in lines if line.startswith(f"preparing {NAME} train:")]
  assert any("%, about" in line and line.endswith(" left") for line in told)
  assert lines[-1].startswith(f"prepared {NAME} train: 600 documents, ")
  assert ", 4 shards, " in lines[-1]


@pytest.mark.parametrize(
  "seconds, text",
  [(0.4, "0 s"), (89, "89 s"), (600, "10 min"), (9000, "2.5 h")],
)
def test_durations(seconds, text):
  assert task_writer._duration(seconds) == text


@pytest.mark.slow
def test_a_fresh_process_that_lacks_the_task_says_so():
  with pytest.raises(
    UserError, match="Task 'zt_absent' is not known to the pr"
  ):
    task_writer._find_task("zt_absent")


def test_threads_of_processes_that_have_ended_are_shared():
  board = workers.Board(5, 4, multiprocessing)
  for working, threads in ((1, 4), (2, 2), (3, 1), (4, 1), (5, 1)):
    board.enter()
    assert board.threads() == threads, working
  board.enter(-4)
  assert board.threads() == 4


def test_every_job_is_done_once():
  jobs = list(range(7))
  seen = multiprocessing.get_context("fork").Array("q", 7)

  def work(index, board):
    seen[index] += 1
    board.note(index, 1.0, jobs[index])

  workers.run(work, 7, processes=3, fresh=False, tell=lambda board: None)
  assert list(seen) == [1] * 7
