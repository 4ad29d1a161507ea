"""A trial is found by its name without importing anything, also after its function moved."""

from __future__ import annotations

import subprocess
import sys

import pytest

from modelkeep.core.errors import InputError, StudyError
from modelkeep.core.sources import module_texts
from modelkeep.study import Trial, trial
from modelkeep.study.names import find_home, name_at, search
from study.packages import Package

NAMED = """from modelkeep.study import trial

@trial("mine/area", version=3, formerly=("pack.old:area",))
def area(seed):
    return 1

def plain(seed):
    return 2
"""


@pytest.fixture(autouse=True)
def _fresh_texts() -> None:
    module_texts.cache_clear()


def test_a_name_is_read_from_the_text(package: Package) -> None:
    package.write("", NAMED)
    assert (name_at("pack.trials:area").name, name_at("pack.trials:area").version) == ("mine/area", 3)
    assert (name_at("pack.trials:plain").name, name_at("pack.trials:plain").version) == ("pack.trials:plain", 1)
    assert "pack.trials" not in sys.modules


def test_a_function_that_moved_is_found(package: Package) -> None:
    package.write("", NAMED)
    before = Trial.of("pack.trials:area", {})
    package.write(NAMED, "")
    module_texts.cache_clear()
    assert before.now().home == "pack.helper:area"
    assert before.now() == before
    assert find_home("pack.old:area", "pack.old:area") == "pack.helper:area"


def test_what_is_not_there_is_refused_in_a_sentence(package: Package) -> None:
    package.write("", NAMED)
    with pytest.raises(StudyError, match=r"The trial 'mine/length' cannot be found: pack.trials:area has another name"):
        find_home("mine/length", "pack.trials:area")
    with pytest.raises(StudyError, match="'gone' of the trial 'gone:f' cannot be found as Python source"):
        find_home("gone:f", "gone:f")
    with pytest.raises(StudyError, match="Write @trial"):
        Trial.of("mine/length", {})
    with pytest.raises(InputError, match="'version' parameter of trial"):
        trial("mine", version=0)
    with pytest.raises(InputError, match="'name' parameter of trial"):
        trial("")


def test_each_of_our_trials_has_one_name_and_each_former_name_leads_to_it() -> None:
    found: dict[str, str] = {}
    for module, text in module_texts().items():
        for line in text.splitlines():
            if line.startswith('@trial("'):
                name = line.split('"')[1]
                assert name not in found
                found[name] = module
    assert len(found) > 25
    for name, module in found.items():
        place = search(name)
        assert place is not None
        home, declared = place
        assert home.startswith(f"{module}:")
        assert [search(former) for former in declared.formerly] == [place] * len(declared.formerly)


def test_finding_a_trial_imports_no_paper_and_no_torch() -> None:
    script = (
        "import sys; from modelkeep.study.trials import Trial; Trial.of('tang2024/extraction', {});"
        "assert not [m for m in sys.modules if m.startswith('modelkeep.papers') or m == 'torch'], sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
