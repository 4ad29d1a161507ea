"""`modelkeep study papers` and `run` as a person uses them: real ledger, real processes, real kills."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from modelkeep.cli.study import app
from modelkeep.core.errors import InputError
from modelkeep.core.registry import declarations
from modelkeep.core.results import Result
from modelkeep.papers.study import load_study
from processes import PATIENCE, wait_until

MODULE = """
import time
from modelkeep.study import Trial
from modelkeep.papers.curves import PaperCurves, curves
from modelkeep.core.method import declare
from modelkeep.papers.study import PaperStudy

def measure(*, seed, x, wait):
    with open("log", "a") as file:
        file.write(f"{x}\\n")
    time.sleep(wait)
    if x == 13:
        raise ValueError("unlucky")
    return {"y": [x + seed, x + seed + 0.5]}

def trials(size, seed):
    xs = {"small": [1, 2, 3], "paper": [1, 13, 3]}[size]
    return [Trial.of(measure, {"x": x, "wait": WAIT}, seed) for x in xs]

def report(result):
    x, series = curves(result, x="x", y="y", name=lambda parameters: "y")
    return PaperCurves(study=result.study, x_label="x", y_label="y", x=x, series=series, paper={},
                       provenance=result.provenance)

TINY = declare("study", "tiny", paper="Leino2022, page 1", does="a line")(PaperStudy(trials, report))
"""
# The same command, with our little study in place of the papers'.
MODELKEEP = [
    *(sys.executable, "-P", "-c"),
    "import os, sys; sys.path.append(os.getcwd()); from modelkeep.cli import main; from modelkeep.core import registry;"
    "text = open('tiny_paper.py').read();"
    "registry._registry()['study']['tiny'] = next(registry.read_declarations('tiny_paper', text)); main()",
    *("study", "run", "tiny"),
]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny_paper.py").write_text(MODULE.replace("WAIT", "0.0"))
    return tmp_path


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*MODELKEEP, *arguments], capture_output=True, text=True, check=False)


def log(project: Path) -> list[str]:
    return (project / "log").read_text().split() if (project / "log").exists() else []


def test_run_writes_table_result_and_picture_and_runs_nothing_again(project: Path) -> None:
    done = run("--seed", "4", "--out", "made", "--processes", "1")
    assert done.returncode == 0, done.stderr
    assert "tiny-small-seed-4: Leino2022, page 1" in done.stdout
    assert "5.250 ±0.250" in done.stdout
    stored = json.loads((project / "made" / "result.json").read_text())
    assert [point["value"] for point in stored["series"]["y"]] == [5.25, 6.25, 7.25]
    assert stored["provenance"]["seed"] == 4
    assert (project / "made" / "figure.png").read_bytes().startswith(b"\x89PNG")
    again = run("--seed", "4", "--json")
    assert again.returncode == 0, again.stderr
    assert log(project) == ["1", "2", "3"]
    assert json.loads(again.stdout)["series"] == stored["series"]
    assert isinstance(Result.from_json((project / "modelkeep-out" / "tiny" / "result.json").read_text()), Result)


def test_a_stopped_run_goes_on_where_it_was(project: Path) -> None:
    (project / "tiny_paper.py").write_text(MODULE.replace("WAIT", "1.5"))
    with subprocess.Popen([*MODELKEEP, "--processes", "1"], stderr=subprocess.PIPE, text=True) as process:
        # The second trial has begun, so the first is in the ledger.
        wait_until(lambda: len(log(project)) >= 2, process)
        os.kill(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "continue with: modelkeep study run tiny --size small --seed 0" in errors
    done = run("--processes", "1")
    assert done.returncode == 0, done.stderr
    assert log(project) == ["1", "2", "2", "3"]


def test_a_failed_trial_is_marked_and_the_command_fails(project: Path) -> None:
    done = run("--size", "paper", "--processes", "1")
    assert done.returncode == 4
    assert "missing" in done.stdout
    assert "1 of 3 trials failed. See why with: modelkeep study show tiny-paper-seed-0 --trial" in done.stderr


def test_every_registered_study_is_there_and_has_trials_of_all_its_sizes() -> None:
    assert len(declarations("study")) > 30
    for name in declarations("study"):
        study = load_study(name)
        sized = [study.study(size, 1).trials for size in study.sizes]
        assert len({tuple(trial.identity for trial in trials) for trials in sized}) == len(sized) > 1
        # A study that trains several times counts on from the seed that it was given.
        assert {min(trial.seed for trial in trials) for trials in sized} == {1}


def test_a_size_that_a_study_does_not_have_is_refused() -> None:
    study = load_study("agents")
    with pytest.raises(InputError, match="must be 'small' or 'medium'"):
        study.study("paper", 0)


def test_a_study_can_be_run_by_its_name_alone(project: Path) -> None:
    done = subprocess.run(
        [*MODELKEEP[:-2], "tiny", "--processes", "1"], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    assert log(project) == ["1", "2", "3"]
    unknown = subprocess.run([*MODELKEEP[:-2], "tinny"], capture_output=True, text=True, timeout=PATIENCE)
    assert unknown.returncode == 2
    assert "There is no command 'tinny'. Did you mean 'tiny'?" in unknown.stderr


def test_papers_lists_them_with_the_full_titles() -> None:
    done = CliRunner().invoke(app, ["papers", "--json"], catch_exceptions=False)
    listed = {row["name"]: row for row in json.loads(done.stdout)}
    assert list(listed) == sorted(declarations("study"))
    assert listed["bias-figure-9.1"] == {
        "name": "bias-figure-9.1",
        "where": "Leino2022, figure 9.1",
        "shows": "the bias that even the best classifier amplifies, by prior and distance of the classes",
        "extra": "",
    }
    table = CliRunner().invoke(app, ["papers"], env={"COLUMNS": "80"}).stdout
    columns = [line for line in table.splitlines() if line.startswith(" ")]  # below are the works that are cited
    assert max(map(len, columns)) <= 80
    assert [name for name in listed if not any(line.split()[:1] == [name] for line in columns)] == []
    assert table.count("Identifying, Analyzing, and Addressing Weaknesses in Deep Networks") == 1


WITHOUT = """
import sys
for name in ("numba", "minatar", "optuna", "gymnasium"):
    sys.modules[name] = None
from modelkeep.cli import main
main()
"""


def without_extras(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command where no extra is installed."""
    command = [sys.executable, "-c", WITHOUT, "study", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_listing_imports_no_study_and_a_missing_extra_is_named_in_a_sentence(project: Path) -> None:
    assert "guard-times" in without_extras("papers").stdout
    for name, extra in (("guard-times", "guard"), ("agents", "rl"), ("completion-modulation", "completion")):
        refused = without_extras("run", name)
        assert refused.returncode == 4
        assert refused.stderr.startswith(f"modelkeep: The study '{name}' needs the package")
        assert f"modelkeep[{extra}]" in refused.stderr
        assert len(refused.stderr.strip().splitlines()) <= 3
    script = (
        "from modelkeep.cli.papers import papers; papers(True);"
        "import sys; print([m for m in sys.modules if '2022' in m or m == 'torch'])"
    )
    listed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert listed.stdout.splitlines()[-1] == "[]"


def test_results_of_other_code_are_marked_in_table_and_json(project: Path) -> None:
    assert run("--processes", "1").returncode == 0
    (project / "tiny_paper.py").write_text(MODULE.replace("WAIT", "0.0").replace("x + seed,", "x - seed,"))
    done = run("--processes", "1")
    assert "Made by other code: 3 of 3 trials; changed since: tiny_paper.py." in done.stdout
    assert "To run them anew: modelkeep study run tiny --size small --seed 0 --again" in done.stderr
    stored = json.loads((project / "modelkeep-out" / "tiny" / "result.json").read_text())
    assert stored["other_code"] == "3 of 3 trials; changed since: tiny_paper.py"
    assert log(project) == ["1", "2", "3"]
    anew = run("--processes", "1", "--again")
    assert "other code" not in anew.stdout + anew.stderr
    assert log(project) == ["1", "2", "3"] * 2


def test_an_unknown_name_is_answered_by_the_nearest() -> None:
    with pytest.raises(InputError, match=r"There is no study 'bias-table-9\.7'\. Did you mean 'bias-table-9\."):
        CliRunner().invoke(app, ["run", "bias-table-9.7"], catch_exceptions=False)
