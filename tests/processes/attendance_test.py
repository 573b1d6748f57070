"""Who is late is named: when, at which place, and again after twice as long."""

import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.processes import attendance
from transformer_zoo.processes.attendance import Attendance
from transformer_zoo.processes.attendance import Patience
from transformer_zoo.processes.attendance import Seat

PATIENCE = Patience(come=100, late=60, silent=80)


def of(count, present, hosts=()):
  found = Attendance(count, PATIENCE, hosts, now=0.0)
  for index in present:
    found.come(index, Seat(line=None, name=f"process {index}", heard=0.0))
  return found


def notes(found, now):
  return list(found.notes(now))


def test_who_has_not_come_is_told_while_waiting_and_at_the_end():
  found = of(6, [0, 2])
  assert not notes(found, 10.0)
  assert notes(found, 10.1) == [
    "2 of 6 processes have come; missing: 1, 3 to 5; waiting 90 s more"
  ]
  assert not notes(found, 60.0)
  assert found.given_up(100.0) is None
  assert found.given_up(100.1) == (
    "2 of 6 processes have come in 100 s: process 0, process 2; missing: 1, 3 "
    "to 5; start them too, or wait longer with --process_wait"
  )


def test_the_machines_of_missing_processes_are_told_where_they_are_known():
  found = of(3, [0], hosts=("n0", "n1", "n2"))
  assert "missing: 1 (host n1), 2 (host n2); " in found.given_up(101.0)


def test_who_keeps_a_meeting_waiting_is_named_with_its_place():
  found = of(3, [0, 1, 2])
  for index in range(3):
    found.beat(index, 4, "the batch after step 3", now=1.0)
  assert found.meet(0, "the end", "", now=10.0) is None
  assert found.meet(2, "the end", "", now=50.0) is None
  assert not notes(found, 70.0)
  told = "process 1 is at 'the batch after step 3'"
  assert notes(found, 70.1) == [f"waiting for 60 s at 'the end': {told}"]
  assert not notes(found, 130.0)
  assert notes(found, 130.1) == [f"waiting for 120 s at 'the end': {told}"]
  assert notes(found, 250.1) == [f"waiting for 240 s at 'the end': {told}"]
  assert found.meet(1, "the end", "", now=251.0) == [("", [0, 1, 2])]
  assert not notes(found, 1000.0)


def test_a_meeting_tells_who_brought_what_with_the_first_ones_first():
  found = of(4, range(4))
  for index, value in ((3, "a"), (1, "b"), (0, "b")):
    assert found.meet(index, "here", value, now=0.0) is None
  assert found.meet(2, "here", "c", now=0.0) == [
    ("b", [0, 1]),
    ("c", [2]),
    ("a", [3]),
  ]


def test_the_process_that_a_collective_waits_for_is_named():
  found = of(3, [0, 1, 2])
  for index in range(3):
    found.beat(index, 7, "step 7", now=100.0)
  assert not notes(found, 300.0), "all are in one long step: nobody is late"
  found.beat(0, 8, "step 8", now=301.0)
  found.beat(2, 8, "step 8", now=302.0)
  assert not notes(found, 362.0)
  assert notes(found, 362.1) == [
    "nothing moves for 60 s: process 1 is at 'step 7'; the furthest process is "
    "at 'step 8'"
  ]
  assert not notes(found, 400.0)
  assert notes(found, 422.1)[0].startswith("nothing moves for 120 s: process 1")
  found.beat(1, 8, "step 8", now=430.0)
  assert not notes(found, 1000.0)


def test_silence_counts_from_the_last_word_and_not_over_a_pause_of_all():
  found = of(2, [0, 1])
  found.seats[1].heard = 50.0
  assert found.silent(80.0) is None
  assert found.silent(80.1) == 0
  found.forgive(1000.0)
  assert found.silent(1080.0) is None
  found.seats[0].left = True
  assert found.silent(1081.0) == 1


@pytest.mark.parametrize(
  "numbers, text",
  [([], ""), ([3], "3"), ([0, 1, 2, 5, 7, 8], "0 to 2, 5, 7 to 8")],
)
def test_numbers_in_ranges(numbers, text):
  assert attendance.in_ranges(numbers) == text


def test_no_patience_is_refused():
  with pytest.raises(UserError) as caught:
    Patience(late=0)
  assert str(caught.value) == (
    "seconds to wait must be positive, not 300, 0 and 100"
  )
