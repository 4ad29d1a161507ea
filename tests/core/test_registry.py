"""The registry lists without importing, finds by name, and takes what other packages add."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from modelkeep.core.errors import InputError
from modelkeep.core.registry import Declaration, declarations, families, find, read_declarations

ATTACK = '''
from dataclasses import dataclass
from modelkeep.core.method import declare


@declare("example", "still", access="labels", paper="Saha2020, eq. 2.10", extra="guard")
class Still:
    """Changes nothing."""


SET = declare("example", "plain", does="A value.")(object())
'''


def test_a_modules_declarations_are_read_from_its_text() -> None:
    still, plain = read_declarations("mine", ATTACK)
    assert still == Declaration(
        "example", "still", "mine:Still", "Changes nothing.", "labels", "Saha2020, eq. 2.10", "guard"
    )
    assert plain == Declaration("example", "plain", "mine:SET", "A value.")


def test_listing_imports_no_method() -> None:
    code = (
        "import sys; from modelkeep.core.registry import declarations, families;"
        "print(sum(len(declarations(each)) for each in families()) >= 0);"
        "print([name for name in sys.modules if name.startswith('modelkeep') and '.core' not in name])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["True", "['modelkeep']"]


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    for family in families():
        name = next(iter(declarations(family)))
        with pytest.raises(InputError, match=f"There is no {family} '{name}x'. Did you mean"):
            find(family, f"{name}x")
    with pytest.raises(InputError, match="There is no dance 'waltz'"):
        find("dance", "waltz")


def test_every_declaration_loads_and_says_what_the_text_says() -> None:
    for family in families():
        for name, told in declarations(family).items():
            loaded = told.load()
            own = getattr(loaded, "declaration", told)
            assert replace(own, home=own.home or told.home) == told, (family, name)  # a value does not know its place
            assert told.does, f"{told.home} has no first line"


def test_another_package_adds_a_method(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(ATTACK)
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[modelkeep.methods]\nexample.still = mine:Still\n")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from modelkeep.core.registry import find;"
        "told = find('example', 'still'); print(told.does, 'mine' in sys.modules); print(told.load().__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["Changes nothing. False", "Still"]


def test_a_package_that_is_broken_is_named(tmp_path: Path) -> None:
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[modelkeep.methods]\nexample.gone = no_such_package.gone:Gone\n")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from modelkeep.core.errors import InputError\n"
        "from modelkeep.core.registry import families\n"
        "try: families()\nexcept InputError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "The entry point 'example.gone'" in done.stdout
    assert "cannot be read" in done.stdout
