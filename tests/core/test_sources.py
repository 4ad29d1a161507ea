"""Texts of modules are found without importing them."""

from __future__ import annotations

import re
import sys

from modelkeep.core.sources import module_text, module_texts, search


def test_the_texts_are_those_of_the_files() -> None:
    texts = module_texts()
    assert texts["modelkeep.core.sources"].startswith('"""The source text')
    assert "modelkeep.core" in texts
    assert module_text("modelkeep.core.errors") == texts["modelkeep.core.errors"]


def test_a_module_of_another_package_is_not_imported() -> None:
    assert "class" in module_text("wave")
    assert "wave" not in sys.modules or sys.modules["wave"].__name__ == "wave"


def test_search_gives_the_module_and_the_match() -> None:
    found = list(search(re.compile(r"^def module_text\(", re.MULTILINE), "def module_text("))
    assert [module for module, _ in found] == ["modelkeep.core.sources"]
