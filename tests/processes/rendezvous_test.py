"""The server and its members over the loopback, as threads of one process."""

import contextlib
import itertools
import json
import socket
import threading

import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.processes.attendance import Patience
from transformer_zoo.processes.member import Member
from transformer_zoo.processes.rendezvous import Rendezvous


class Run:
  """Members of one rendezvous; `left` has their exit codes."""

  def __init__(self, count, **patience):
    self.count, self.patience = count, Patience(**patience)
    self.server = Rendezvous(0, count, self.patience)
    self.server.start()
    self.left = {}
    self.has_left = {i: threading.Event() for i in range(count)}

  def member(self, index, count=None, patience=None):
    def leave(code):
      self.left[index] = code
      member._line.close()
      self.has_left[index].set()

    member = Member(
      address=f"127.0.0.1:{self.server.port}",
      index=index,
      count=count or self.count,
      patience=patience or self.patience,
      service="10.0.0.1:77" if index == 0 else None,
      leave=leave,
    )
    return member

  def stranger(self):
    return socket.create_connection(("127.0.0.1", self.server.port), 20)

  def await_end(self, *indices):
    for index in indices:
      assert self.has_left[index].wait(20), index


def together(*calls):
  """Calls functions in threads; their results or errors, in order."""
  found = [None] * len(calls)

  def call(number):
    try:
      found[number] = calls[number]()
    except BaseException as error:
      found[number] = error

  threads = [
    threading.Thread(target=call, args=(i,)) for i in range(len(calls))
  ]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join(20)
    assert not thread.is_alive()
  return found


@contextlib.contextmanager
def begun(count):
  run = Run(count)
  members = [run.member(i) for i in range(count)]
  assert together(*(m.begin for m in members)) == [None] * count
  yield run, members
  for member in members:
    member.bid_farewell()
    member._line.close()


def test_members_learn_the_names_of_all_and_the_address_of_the_devices():
  with begun(3) as (_, members):
    for member in members:
      assert [n.partition(" (")[0] for n in member.names] == [
        "process 0",
        "process 1",
        "process 2",
      ]
      assert member.service == "10.0.0.1:77"


def test_a_meeting_waits_for_all_and_groups_what_they_bring():
  with begun(3) as (_, members):
    calls = [
      lambda m=m, value=value: m.meet("here", value)
      for m, value in zip(members, ["x", "y" * 3_000_000, "x"], strict=True)
    ]
    expected = [("x", [0, 2]), ("y" * 3_000_000, [1])]
    assert together(*calls) == [expected] * 3
    assert together(*calls) == [expected] * 3


def test_all_stop_at_one_step_that_nobody_has_passed():
  with begun(3) as (_, members):
    paces = [1, 5, 3]
    for member, pace in zip(members, paces, strict=True):
      for step in range(1, pace + 1):
        assert not member.is_stopping(step)
    members[0].ask_to_stop()
    members[2].ask_to_stop()

    def stops(member, pace):
      steps = itertools.count(pace + 1)
      return next(step for step in steps if member.is_stopping(step))

    first = together(
      *(
        lambda m=m, p=p: stops(m, p)
        for m, p in zip(members, paces, strict=True)
      )
    )
    assert len(set(first)) == 1
    assert first[0] > max(paces)


def test_a_member_without_a_word_ends_the_others(capfd):
  with begun(3) as (run, members):
    members[1]._line.close()
    run.await_end(0, 2)
    assert run.left[0] == run.left[2] == 1
  told = capfd.readouterr().err
  assert told.count(f"zoo: error: {members[0].names[1]} has died: ") == 2


def test_a_failure_is_told_to_the_others_with_its_code(capfd):
  with begun(3) as (run, members):
    members[0].fail("the disk is full", 2)  # returns when the others know
    assert run.left == {1: 2, 2: 2}
  told = capfd.readouterr().err
  sentence = f"zoo: error: {members[0].names[0]}: the disk is full\n"
  assert told.count(sentence) == 2


def test_a_member_that_is_connected_and_silent_counts_as_dead(capfd):
  run = Run(2, silent=4)  # A member is heard of every second or two.
  # Its own patience is longer, or it might be the first to miss the other.
  alive = run.member(0, patience=Patience(silent=30))
  frozen = run.stranger()
  hello = {"kind": "hello", "index": 1, "count": 2, "name": "frozen"}
  frozen.sendall(json.dumps(hello | {"service": None}).encode() + b"\n")
  alive.begin()
  run.await_end(0)
  frozen.close()
  assert "zoo: error: frozen has not been heard of for 4 s: " in (
    capfd.readouterr().err
  )


def test_strangers_do_not_disturb():
  run = Run(1)
  for greeting in (b"GET / HTTP/1.1\r\n\r\n", b'{"kind": "leave"}\n', b"[1]\n"):
    with run.stranger() as stranger:
      stranger.sendall(greeting)
      assert stranger.recv(10) == b""
  member = run.member(0)
  member.begin()
  assert member.meet("here") == [("", [0])]
  member.bid_farewell()
  member._line.close()


def test_the_same_index_twice_and_another_count_are_refused():
  run = Run(2)
  first = run.member(0)
  again, other = run.member(0), run.member(1, count=3)
  with pytest.raises(UserError) as caught:
    again.begin()
  taken = str(caught.value)
  assert taken.startswith("the index of process 0 (host ")
  assert " is taken, by process 0 (host " in taken
  with pytest.raises(UserError) as caught:
    other.begin()
  assert str(caught.value).startswith(
    "--process_count is 3 in process 1 (host "
  )
  assert str(caught.value).endswith(") and 2 in process 0")
  last = run.member(1)
  assert together(first.begin, last.begin) == [None, None]
  for member in (first, last):
    member.bid_farewell()
    member._line.close()
