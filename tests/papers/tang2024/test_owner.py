"""Trials on a few digits: the target is trained once, a stopped study goes on, and a quantiser keeps its word."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from modelkeep.papers.tang2024 import owner as owners
from modelkeep.papers.tang2024.defences import SECRET, SEEDED, UNORDERED
from modelkeep.papers.tang2024.figures_5_6 import auroc, grow
from modelkeep.papers.tang2024.owner import prepare_owner
from modelkeep.papers.tang2024.paper_figures import (
    AM,
    GUARD_S,
    GUARD_W,
    JBDA,
    KNOCKOFF,
    MAD,
    NAIVE,
    NONE,
    PBAYES,
    REVSIG,
)
from modelkeep.papers.tang2024.table_6 import ask_twice, measure_bound
from modelkeep.papers.tang2024.tables_2_to_5 import protect, steal
from modelkeep.study import Ledger, Study, run, working_in
from modelkeep.study.closure import hash_files
from modelkeep.study.execution import execute
from modelkeep.study.local import Job, Outcome, Pool
from modelkeep.study.trials import Trial


def test_a_target_is_trained_once_and_found_again(tmp_path: Path, tiny: dict[str, Any]) -> None:
    with working_in(tmp_path / "one"):
        first = prepare_owner("digits", tiny, 0)
    trained = {path: path.stat().st_mtime_ns for path in tmp_path.glob("target-*/training*")}
    assert trained
    owners._prepare_owner.cache_clear()  # another process
    with working_in(tmp_path / "two"):
        second = prepare_owner("digits", tiny, 0)
    assert second is not first
    assert second.target.fingerprint() == first.target.fingerprint()
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("target-*/training*")} == trained
    assert float((first.target.predict(first.data.test.x) == first.data.test.y).float().mean()) > 0.7
    # Outlier exposure: unsure of noise.
    assert first.clean(first.data.outliers.x).amax(dim=1).mean() < first.clean(first.data.test.x).amax(dim=1).mean()


class Here:
    """An engine in this process: a worker of its own would only import torch for longer than the trials take."""

    slots = 1

    @contextmanager
    def start(self) -> Iterator[Pool]:
        yield self

    def submit(self, job: Job) -> Future[Outcome]:
        state, text, files = execute(job.trial, job.directory)
        assert state == "done", text
        done: Future[Outcome] = Future()
        done.set_result(Outcome("done", text, 0.1, hash_files(files)))
        return done


def test_a_stopped_study_goes_on(tmp_path: Path, tiny: dict[str, Any]) -> None:
    shared = {"task": "digits", "plan": tiny, "defence": GUARD_S}
    trials = [
        Trial.of(protect, shared),
        Trial.of(steal, {**shared, "strategy": KNOCKOFF, "attack": NAIVE}),
    ]
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        run(Study("part", trials[:1]), ledger, Here())
        whole = run(Study("whole", trials), ledger, Here())
    assert [record.attempts for record in whole.records] == [1, 1]
    assert len(list((tmp_path / "trials").glob("target-*"))) == 1
    with working_in(tmp_path / "by hand"):
        assert whole.records[0].value == protect(seed=0, **trials[0].parameters)


@pytest.mark.parametrize(
    ("strategy", "attack", "defence"),
    [(KNOCKOFF, PBAYES, MAD), (KNOCKOFF, "smoothing", AM), (KNOCKOFF, "D-DAE", REVSIG), (JBDA, "D-DAE+", GUARD_W)],
)
def test_each_attack_meets_each_kind_of_defence(
    tmp_path: Path, tiny: dict[str, Any], strategy: str, attack: str, defence: str
) -> None:
    with working_in(tmp_path / "trial"):
        found = steal(seed=0, task="digits", plan=tiny, strategy=strategy, attack=attack, defence=defence)
    assert found["accuracy"][1] == found["fidelity"][1] == 200
    assert found["queries"] == (450 if attack == "smoothing" else 150)
    assert found["distance"][0] > 0


def test_what_the_defences_do_to_the_answers(tmp_path: Path, tiny: dict[str, Any]) -> None:
    with working_in(tmp_path / "trial"):
        does = {
            name: protect(seed=0, task="digits", plan=tiny, defence=name)
            for name in (NONE, REVSIG, MAD, AM, GUARD_W, GUARD_S, SECRET, SEEDED)
        }
    assert does[NONE]["distortion"][0] == 0
    assert does[NONE]["clean answers"] == [150, 150]
    for name in (REVSIG, MAD, GUARD_W, GUARD_S, SECRET, SEEDED):
        assert 0 < does[name]["distortion"][0] <= 1
        assert does[name]["protected"] == does[NONE]["protected"]
    assert does[AM]["protected"][0] >= does[NONE]["protected"][0] - 3  # 1.5 % of 200
    assert does[GUARD_S]["different answers"] == does[GUARD_S]["clean answers"][0]  # each centroid, the first time
    assert does[SECRET]["clean answers"][0] == 0


def test_only_without_an_order_answers_change(tmp_path: Path, tiny: dict[str, Any]) -> None:
    with working_in(tmp_path / "trial"):
        ordered, unordered = (
            ask_twice(seed=0, task="digits", plan=tiny, defence=name, epsilon=0.5) for name in (GUARD_S, UNORDERED)
        )
        growth = grow(seed=0, task="digits", plan=tiny, epsilon=0.5)
        clean = protect(seed=0, task="digits", plan=tiny, defence=GUARD_S, epsilon=0.5)
        least = measure_bound(seed=0, task="digits", plan=tiny, defence=GUARD_S)
    assert ordered["changed"] == [0, 150]
    assert unordered["changed"][0] == len(unordered["once"]) > 0
    assert growth["queries"][-1] == 150
    assert growth["centroids"] == sorted(growth["centroids"])
    assert growth["centroids"][-1] == clean["different answers"]
    assert 0 <= least["by Jensen"] <= least["bound"][0]
    assert least["error"][0] > 0


def test_the_area_under_the_curve_is_scikit_learns() -> None:
    from sklearn.metrics import roc_auc_score

    random = np.random.default_rng(0)
    known, unknown = random.integers(0, 8, 60), random.integers(2, 10, 40)  # many ties
    truth = roc_auc_score([1] * 60 + [0] * 40, np.concatenate([known, unknown]))
    assert auroc(torch.from_numpy(known), torch.from_numpy(unknown)) == pytest.approx(truth)
