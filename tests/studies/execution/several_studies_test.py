"""Several studies in one call: one pool, one progress, failures told once."""

import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.studies import runner
from transformer_zoo.studies.design.request import Request
from transformer_zoo.studies.execution import results


@pytest.fixture
def run_both(run_tiny, fake, other_study, tmp_path):
  """Runs the tiny study and another one, whose baseline is the same."""

  def run():
    fake.broken = lambda what: what.startswith("similarity, seed 1, 30 ")
    (tmp_path / "other.gin").write_text(other_study)
    names = [str(tmp_path / name) for name in ("tiny.gin", "other.gin")]
    request = Request(
      names,
      suite=str(tmp_path / "two.gin"),
      output_dir=tmp_path / "runs",
      seeds=[0, 1],
    )
    return runner.run_studies(request)

  assert run_tiny(seeds=[0]).failures == ()
  return run


def test_two_studies_of_one_name_would_share_a_folder(run_both, tmp_path):
  again = tmp_path / "again"
  again.mkdir()
  (again / "tiny.gin").write_text((tmp_path / "tiny.gin").read_text())
  names = [str(folder / "tiny.gin") for folder in (tmp_path, again)]
  with pytest.raises(UserError) as error:
    Request(names, suite=str(tmp_path / "two.gin")).planned(prepare=False)
  assert str(error.value) == (
    f"{names[0]} and {names[1]} are both called 'tiny', and would write into "
    "one folder; give one another Study.name, or leave it out"
  )


def test_studies_share_a_pool_and_a_progress(run_both, fake, capsys):
  before = set(fake.trained)
  capsys.readouterr()
  tiny, other = run_both()
  assert len(fake.trained) == len(set(fake.trained)) == 2 * 9 - 1
  out = capsys.readouterr().out
  assert "study tiny: 14 runs (rows: 3, seeds: 2, shared runs: 2)" in out
  assert "study other: 4 runs (rows: 2, seeds: 2, shared runs: 8)" in out
  assert "run 1 of 18: tiny / baseline / seed 0 / pretrain  reused" in out
  assert "run 15 of 18: other / longer / seed 0 / sentiment / finetune" in out
  assert "(0 s; 17 of 18 done; about 1 min 32 s left)" in out
  baselines = [
    {run.folder for run in results.read(one.folder).of_row("baseline")}
    for one in (tiny, other)
  ]
  assert baselines[0] == baselines[1] and baselines[0] & before
  alone = results.read(other.folder).command
  assert "other.gin" in alone and "tiny.gin" not in alone


def test_failures_are_named_once_and_end_with_an_error(run_both, capsys):
  outcomes = run_both()
  assert [len(one.failures) for one in outcomes] == [0, 1]
  capsys.readouterr()
  with pytest.raises(UserError) as error:
    runner.print_outcomes([*outcomes, outcomes[1]])
  assert str(error.value) == (
    "1 of the runs failed or were not run for want of those (above); the same "
    "command goes on with them"
  )
  printed = capsys.readouterr()
  assert printed.out.splitlines()[0] == str(outcomes[0].folder)
  assert printed.err == (
    "longer / seed 1 / similarity / finetune: FloatingPointError: loss is NaN "
    "at step 7\n"
  )
