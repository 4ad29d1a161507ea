"""`modelkeep study` as a person uses it: a real ledger, the real command."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from modelkeep.cli.study import app
from modelkeep.core.errors import StudyError
from modelkeep.study import Ledger, Trial, grid
from modelkeep.study.closure import hash_code
from processes import PATIENCE, wait_until

MODULE = """
import os, time

def measure(*, seed, x, wait=0.0):
    time.sleep(wait)
    if x == 13:
        raise ValueError("unlucky [x]")
    return {"score": x / 2, "parts": [x, seed]}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a module of trials and a ledger: one trial done, one failed, one missing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "project_trials.py").write_text(MODULE)
    trials = grid("project_trials:measure", {"x": [4, 13, 6]})
    with Ledger() as ledger:
        ledger.remember("scores", trials)
        _finish(ledger, trials[0], '{"parts":[4,0],"score":2.0}')
        attempt = ledger.claim(trials[1], "test")
        assert isinstance(attempt, int)
        ledger.fail(attempt, "failed", "Traceback (most recent call last):\nValueError: unlucky [x]\n", 0.5)
    return tmp_path


def _finish(ledger: Ledger, trial: Trial, value: str) -> None:
    attempt = ledger.claim(trial, "test")
    assert isinstance(attempt, int)
    assert ledger.finish(attempt, value, 0.5, _code())


def _code() -> dict[str, str]:
    """That of a worker which imported the trials' module only."""
    return {"project_trials:measure": hash_code(Path("project_trials.py").read_text(), "measure")}


def command(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"}, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_list_counts(project: Path) -> None:
    assert json.loads(command("list", "--json")) == [
        {"study": "scores", "done": 1, "running": 0, "failed": 1, "missing": 1}
    ]
    assert "scores" in command("list")


def test_show_tells_what_came_out_and_why_it_failed(project: Path) -> None:
    table = command("show", "scores")
    for text in (
        "measure(x=4) seed 0",
        '{"parts": [4, 0], "score": 2.0}',
        "failed: ValueError: unlucky [x]",
        "missing",
    ):
        assert text in table
    failed = json.loads(command("show", "scores", "--json"))[1]
    assert failed["state"] == "failed"
    full = command("show", "scores", "--trial", failed["identity"][:6])
    assert "Traceback (most recent call last):\nValueError: unlucky [x]" in full
    assert f"identity: {failed['identity']}" in full


def test_export_as_csv_and_json(project: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(command("export", "scores", "--format", "csv"))))
    assert [(row["parameter.x"], row["state"], row["value.score"], row["value.parts"]) for row in rows] == [
        ("4", "done", "2.0", "[4, 0]"),
        ("13", "failed", "", ""),
        ("6", "missing", "", ""),
    ]
    command("export", "scores", "--out", "scores.json")
    exported = json.loads((project / "scores.json").read_text())
    assert exported["study"] == "scores"
    assert [trial["value"] for trial in exported["trials"]] == [{"parts": [4, 0], "score": 2.0}, None, None]


def modelkeep(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*MODELKEEP, *arguments], capture_output=True, text=True, check=False)


MODELKEEP = [sys.executable, "-P", "-c", "from modelkeep.cli import main; main()", "study"]


def test_resume_runs_what_is_missing_and_ends_with_4_where_some_fail(project: Path) -> None:
    done = modelkeep("resume", "scores", "--processes", "1", "--retries", "0")
    assert done.returncode == 4
    assert "2 done, 1 failed" in done.stdout
    assert "scores: 3/3" in done.stderr  # plain progress, as this is no terminal
    last = done.stderr.strip().splitlines()[-1]
    assert "1 of 3 trials failed. See why with: modelkeep study show scores --trial" in last
    shown = json.loads(command("show", "scores", "--json"))
    assert [(record["state"], record["attempts"]) for record in shown] == [("done", 1), ("failed", 2), ("done", 1)]


def test_results_of_other_code_are_marked_and_again_makes_them_anew(project: Path) -> None:
    source = project / "project_trials.py"
    source.write_text(MODULE.replace("unlucky", "an unlucky number") + "\n# A comment costs nothing.\n")
    assert "other code" not in command("show", "scores")
    source.write_text(MODULE.replace("x == 13", "x == 14").replace("x / 2", "x / 4"))
    table = command("show", "scores")
    assert "done*" in table
    assert "* Made by other code, changed since: project_trials.py." in table
    assert [record["changed_files"] for record in json.loads(command("show", "scores", "--json"))] == [
        ["project_trials.py"],
        [],
        [],
    ]
    done = modelkeep("resume", "scores", "--json")
    assert done.returncode == 0, done.stderr
    assert "Made by other code: 1 of 3 trials; changed since: project_trials.py." in done.stderr
    assert "modelkeep study resume scores --again" in done.stderr
    assert [record["value"]["score"] for record in json.loads(done.stdout)["records"]] == [2.0, 3.25, 1.5]
    done = modelkeep("resume", "scores", "--json", "--again")
    assert "other code" not in done.stderr
    records = json.loads(done.stdout)["records"]
    assert [(record["value"]["score"], record["attempts"]) for record in records] == [(1.0, 2), (3.25, 2), (1.5, 1)]


def test_a_raised_version_runs_anew(project: Path) -> None:
    decorated = MODULE.replace(
        "def measure", '@trial("mine/measure", version=2, formerly=("project_trials:measure",))\ndef measure'
    )
    (project / "project_trials.py").write_text("from modelkeep.study import trial\n" + decorated.replace("13", "14"))
    done = modelkeep("resume", "scores", "--json")
    assert done.returncode == 0, done.stderr
    assert "3 trials have a new version, so they run anew; their old results stay." in done.stderr
    assert {(record["name"], record["version"]) for record in json.loads(done.stdout)["records"]} == {
        ("mine/measure", 2)
    }


def test_ctrl_c_says_how_to_go_on(project: Path) -> None:
    with Ledger() as ledger:
        ledger.remember("slow", grid("project_trials:measure", {"x": [1, 2], "wait": [0.0, 60.0]}))
    with subprocess.Popen([*MODELKEEP, "resume", "slow"], stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: json.loads(command("list", "--json"))[1]["done"] >= 1, process)
        os.kill(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "continue with: modelkeep study resume slow" in errors
    assert "Traceback" not in errors


def test_errors_are_sentences(project: Path) -> None:
    with pytest.raises(StudyError, match=r"has no study 'other'\. Its studies: scores"):
        command("show", "other")
    with pytest.raises(StudyError, match="There is no ledger at 'none'"):
        command("list", "--ledger", "none")
    with pytest.raises(StudyError, match="has 0 trials whose id begins with 'xyz'"):
        command("show", "scores", "--trial", "xyz")
    with pytest.raises(StudyError, match="--processes is for --engine local"):
        command("resume", "scores", "--engine", "ray", "--processes", "2")
    (project / "project_trials.py").unlink()
    with pytest.raises(StudyError, match="cannot be found as Python source"):
        command("resume", "scores")


@pytest.mark.parametrize("verb", ["list", "show", "resume", "export"])
def test_help_teaches_with_an_example(verb: str) -> None:
    assert f"modelkeep study {verb}" in command(verb, "--help")
