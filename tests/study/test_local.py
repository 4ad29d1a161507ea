"""Trials in real processes: whatever one trial does to its process, the others go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelkeep.core import progress
from modelkeep.core.errors import InputError
from modelkeep.core.results import Result
from modelkeep.study import Ledger, Limits, Local, Study, StudyResult, grid, run


def test_a_trial_that_breaks_fails_alone(ledger: Ledger) -> None:
    trials = [
        *grid("trials:dies", {"how": ["kill", "exit", "segfault", "orphan"]}),
        *grid("trials:fails", {"x": [1]}),
        *grid("trials:square", {"x": [3]}),
    ]
    result = run(Study("broken", trials), ledger, Local(processes=2), retries=0)
    killed, left, segfault, orphan, failed, square = result.records
    assert [r.state for r in result.records] == ["crashed"] * 4 + ["failed", "done"]
    assert "by signal SIGKILL.\nlast words" in (killed.error or "")
    assert "with exit code 3.\nlast words" in (left.error or "")
    assert "by signal SIGSEGV" in (segfault.error or "")
    assert "in dies" in (segfault.error or "")  # the Python line that crashed
    assert "with exit code 4" in (orphan.error or "")
    assert "in fails" in (failed.error or "")
    assert "ValueError: cannot do 1" in (failed.error or "")
    assert square.value == {"square": 9, "seed": 0}
    assert "4 crashed, 1 failed, 1 done" in str(result)
    again = Result.from_json(result.to_json())
    assert isinstance(again, StudyResult)
    assert again.records == result.records


def test_a_crash_is_tried_again_in_the_same_directory_and_a_finished_trial_never(ledger: Ledger) -> None:
    study = Study("retried", grid("trials:dies_once", {"x": [7]}))
    first = run(study, ledger, Local(processes=1), retries=1)
    assert (first.values(), first.records[0].attempts) == ([7], 2)
    assert (ledger.workdir(study.trials[0]) / "mark").exists()
    again = run(study, ledger, Local(processes=1))
    assert again.records == first.records


def test_a_training_killed_inside_a_trial_goes_on_where_it_was(ledger: Ledger) -> None:
    killed, never = run(Study("trainings", grid("trials:trains", {"kill_at": [7, -1]})), ledger).records
    assert (killed.attempts, never.attempts) == (2, 1)
    assert killed.value["steps"] == [*map(str, range(8)), *map(str, range(7, 12))]
    assert never.value["steps"] == [*map(str, range(12))]
    assert killed.value["model"] == never.value["model"]
    assert killed.value["loss"] == never.value["loss"]


def test_limits_end_a_trial_and_say_so(ledger: Ledger) -> None:
    hanging = run(
        Study("slow", [*grid("trials:hangs", {"x": [0]}), *grid("trials:square", {"x": [2]})]),
        ledger,
        Local(processes=1),
        limits=Limits(seconds=3),
        retries=0,
    )
    assert [r.state for r in hanging.records] == ["timeout", "done"]
    assert hanging.records[0].error == "The trial took more than 3 seconds and was killed."
    eating = run(
        Study("hungry", grid("trials:eats", {"megabytes": [900, 1]})),
        ledger,
        Local(processes=1),
        limits=Limits(megabytes=700),
        retries=0,
    )
    assert [r.state for r in eating.records] == ["memory", "done"]
    assert "more than 700 MB" in (eating.records[0].error or "")


class Notes:
    """A watcher that keeps what it is told."""

    def __init__(self) -> None:
        self.heard: dict[str, list[tuple[float, str]]] = {}

    def opened(self, task: progress.Task) -> None:
        self.heard[task.name] = []

    def changed(self, task: progress.Task) -> None:
        self.heard[task.name].append((task.done, task.note))

    def closed(self, task: progress.Task) -> None:
        self.changed(task)


def test_what_a_trial_says_of_its_progress_is_shown_and_then_forgotten(ledger: Ledger) -> None:
    notes = Notes()
    study = Study("telling", grid("trials:tells", {"x": [1, 2]}))
    folders = [ledger.workdir(trial) for trial in study.trials]
    folders[0].mkdir(parents=True)
    (folders[0] / "progress.txt").write_text("what an attempt said that was killed")
    with progress.watch(notes):
        run(study, ledger, Local(processes=2))
    for trial, x in zip(study.trials, (1, 2), strict=True):
        said = {note for _, note in notes.heard[trial.label]}
        assert said == {"", f"counting 1,00{x}/2,000 half-way", "done"}
    assert not any((folder / "progress.txt").exists() for folder in folders)


def test_workers_are_reused_and_tell_how_it_goes(ledger: Ledger) -> None:
    notes = Notes()
    study = Study("state", grid("trials:worker_state", {"x": [0, 1, 2]}))
    with progress.watch(notes):
        result = run(study, ledger, Local(processes=1, threads=2))
    assert list(notes.heard) == ["state", *(trial.label for trial in study.trials)]
    assert notes.heard["state"][-1] == (3, "about 0:00:00 left")
    assert (0, "time left unknown") in notes.heard["state"]
    assert all(notes.heard[trial.label][-1] == (1, "done") for trial in study.trials)
    assert len({value["pid"] for value in result.values()}) == 1
    assert {value["threads"] for value in result.values()} == {2}


def test_global_random_states_do_not_depend_on_the_worker_or_the_order(tmp_path: Path) -> None:
    trials = grid("trials:noise", {"x": [0, 1]}, seeds=[0, 1])
    with Ledger(tmp_path / "a" / "ledger.sqlite3") as one, Ledger(tmp_path / "b" / "ledger.sqlite3") as two:
        alone = run(Study("noise", trials), one, Local(processes=1, threads=1))
        pair = run(Study("noise", trials[::-1]), two, Local(processes=2, threads=1))
    assert alone.values() == pair.values()[::-1]
    a, b, *_ = alone.values()
    assert all(x != y for x, y in zip(a[:3], b[:3], strict=True))  # another seed, other draws


def test_bad_settings_are_refused() -> None:
    with pytest.raises(InputError, match="'processes' parameter of Local"):
        Local(processes=0)
    with pytest.raises(InputError, match="'seconds' parameter of Limits"):
        Limits(seconds=-1)
    with pytest.raises(InputError, match="at least one trial"):
        Study("empty", [])
    with pytest.raises(InputError, match="more than once"):
        Study("twice", grid("trials:square", {"x": [1, 1]}))
    with pytest.raises(InputError, match="'name' parameter of Study"):
        Study(" ", grid("trials:square", {"x": [1]}))
