"""Jobs are real processes: they end, fail, are stopped, are killed, and are known after a restart."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from modelkeep.core.errors import InputError
from modelkeep.web.jobs.job import Job
from modelkeep.web.jobs.jobs import Jobs
from processes import wait_until


def test_a_job_tells_how_far_it_is_and_is_stopped_as_by_ctrl_c(tmp_path: Path) -> None:
    """One process of a long attack: progress, a restart of the application in the middle, then Stop."""
    jobs = Jobs(tmp_path)
    words = ["attack", "digits-cnn", "--data", "digits", "--radius", "0.1", "--method", "pgd", "--steps", "100000"]
    job = jobs.start([*words, "--out", str(tmp_path / "out")])
    assert job.state == "running"
    assert job.line.startswith("modelkeep attack digits-cnn")
    with pytest.raises(InputError, match=f"Job {job.id} writes to"):
        jobs.start([*words, "--out", str(tmp_path / "out")])
    wait_until(lambda: bool(jobs.progress(jobs.find(job.id))))
    assert jobs.progress(job)[0]["name"] == "PGD"
    again = Jobs(tmp_path)  # the application was started anew
    assert again.find(job.id).state == "running"
    again.cancel(job.id)
    wait_until(lambda: again.find(job.id).state != "running")
    assert again.find(job.id).state == "stopped"
    assert "Stopped." in again.said(job)
    with pytest.raises(InputError, match="does not run any more: it is stopped"):
        again.cancel(job.id)
    assert jobs.find(job.id).state == "stopped"


def test_a_job_that_fails_says_why(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path)
    failed = jobs.start(["attack", "no-such-model.onnx", "--data", "digits", "--radius", "0.1", "--out", str(tmp_path)])
    killed = jobs.start(["version"])
    os.killpg(killed.pid, signal.SIGKILL)
    wait_until(lambda: all(job.ended is not None for job in jobs.all()))
    assert jobs.find(failed.id).state == "failed"
    assert "no-such-model.onnx" in jobs.said(failed)
    assert jobs.find(killed.id).state == "interrupted"
    assert [job.id for job in Jobs(tmp_path).all()] == [killed.id, failed.id]


def test_another_process_with_the_same_number_is_not_the_job(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path)
    job = jobs.start(["version"])
    wait_until(lambda: jobs.find(job.id).ended is not None)
    jobs._open().add(Job(9, ("version",), "modelkeep version", "", 0.0, os.getpid(), 1.0))
    assert Jobs(tmp_path).find(9).state == "interrupted"
    with pytest.raises(InputError, match="There is no job 7"):
        jobs.find(7)


def test_nothing_is_written_before_the_first_job(tmp_path: Path) -> None:
    assert Jobs(tmp_path).all() == []
    assert list(tmp_path.iterdir()) == []
