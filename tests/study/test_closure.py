"""What code made a result: an edit that can change it is noticed, any other costs nothing."""

from __future__ import annotations

import pytest

from modelkeep.study import Ledger, Local, Study, StudyResult, grid, run
from modelkeep.study.closure import changed_files, closure_of, hash_code
from study.packages import Package

MODULE = '''"""A module."""
import math
from statistics import fmean, median

LIMIT = 3
"""Why three."""

def area(width):
    """The area."""
    if width > LIMIT:
        raise ValueError(f"The width must be at most {LIMIT}.")  # too wide
    return width**2

def report(values):
    return fmean(values)
'''


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# too wide", "# far too wide"),
        ("The area.", "The area of a square."),
        ('"""A module."""', '"""A module of one function."""'),
        ("Why three.", "Why not four."),
        ("must be at most", "may be at most"),
        ("LIMIT = 3\n", "LIMIT = 3\n\n\n"),
        ("    return width**2", "    return (\n        width**2\n    )"),
    ],
)
def test_words_do_not_count(old: str, new: str) -> None:
    assert old in MODULE
    edited = MODULE.replace(old, new)
    assert hash_code(edited) == hash_code(MODULE)
    assert hash_code(edited, "area") == hash_code(MODULE, "area")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("width**2", "width**3"),
        ("LIMIT = 3", "LIMIT = 4"),
        ("width > LIMIT", "width >= LIMIT"),
        ("ValueError", "OSError"),
    ],
)
def test_code_counts(old: str, new: str) -> None:
    edited = MODULE.replace(old, new)
    assert hash_code(edited) != hash_code(MODULE)
    assert hash_code(edited, "area") != hash_code(MODULE, "area")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("fmean(values)", "sum(values)"),
        ("import math\n", ""),
        ("fmean, median", "fmean"),
        ("return fmean", "return median"),
    ],
)
def test_what_a_function_does_not_use_does_not_count_for_it(old: str, new: str) -> None:
    edited = MODULE.replace(old, new)
    assert hash_code(edited) != hash_code(MODULE)
    assert hash_code(edited, "area") == hash_code(MODULE, "area")


def test_a_statement_without_a_name_counts_for_all() -> None:
    assert hash_code(MODULE + "\nprint(LIMIT)\n", "area") != hash_code(MODULE, "area")
    assert hash_code("def f(): pass\n", "missing") == hash_code("def f(): pass\n")


def test_the_documentation_of_a_setting_does_not_count() -> None:
    before, words, code = (
        f"size: float = setting({arguments})"
        for arguments in ("'How far.', default=1", "'Far.', default=1", "'Far.', default=2")
    )
    assert hash_code(before) == hash_code(words) != hash_code(code)


def test_the_code_is_that_which_was_loaded(package: Package) -> None:
    """A file that is edited after its import is not the code that runs."""
    package.write("X = 1\n", "from pack.helper import X\ndef f(seed): return X\n")
    package.load()
    code = closure_of("pack.trials:f")
    assert {"pack", "pack.helper", "pack.trials:f"} <= set(code)
    assert changed_files(code) == ()
    package.write("X = 23\n")
    assert closure_of("pack.trials:f") == code
    assert changed_files(code) == ("pack/helper.py",)
    (package.folder / "helper.py").unlink()
    assert changed_files(code) == ("pack/helper.py",)


TRIALS = """from pack.helper import scale

def measure(seed, x):
    with open(LOG, "a") as file:
        file.write(f"{x} ")
    return scale(x)

def report(values):
    return sum(values)
"""


def test_a_study_notices_the_change_of_a_module_that_its_trial_imports(package: Package, ledger: Ledger) -> None:
    log = package.folder / "log"
    trials = f"LOG = {str(log)!r}\n" + TRIALS

    def results(again: bool = False) -> StudyResult:
        study = Study("study", grid("pack.trials:measure", {"x": [1, 2]}))
        return run(study, ledger, Local(processes=1), again=again)

    package.write("def scale(x):\n    return 2 * x\n", trials)
    assert results().values() == [2, 4]
    package.write('def scale(x):\n    """Twice."""\n    return 2 * x\n', trials.replace("sum(values)", "max(values)"))
    assert results().other_code == ""
    package.write("def scale(x):\n    return 3 * x\n")
    old = results()
    assert old.values() == [2, 4]
    assert [record.changed_files for record in old.records] == [("pack/helper.py",)] * 2
    assert old.other_code == "2 of 2 trials; changed since: pack/helper.py"
    assert "2 (other code)" in str(old)
    assert log.read_text() == "1 2 "
    new = results(again=True)
    assert (new.values(), new.other_code) == ([3, 6], "")
    assert log.read_text() == "1 2 1 2 "
    assert results(again=True).records == new.records
    assert log.read_text() == "1 2 1 2 "


def test_a_trial_that_fails_when_it_runs_again_keeps_its_result(package: Package, ledger: Ledger) -> None:
    study = ["pack.trials:measure", {"x": [1]}]
    package.write("", "def measure(seed, x):\n    return x\n")
    run(Study("study", grid(*study)), ledger, Local(processes=1))  # type: ignore[arg-type]
    package.write("", "def measure(seed, x):\n    return 1 / 0\n")
    (record,) = run(Study("study", grid(*study)), ledger, Local(processes=1), again=True, retries=0).records  # type: ignore[arg-type]
    assert (record.state, record.value, record.changed_files) == ("done", 1, ("pack/trials.py",))
    assert "ZeroDivisionError" in (record.error or "")
