"""Every work that a text of the project cites is in the bibliography, by its key."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from modelkeep.core.registry import declarations, families
from modelkeep.papers.bibliography import REFERENCES, cite

ROOT = Path(__file__).parents[2]
TEXTS = [
    path
    for folder in ("src", "docs", "tests", "examples", "benchmarks")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".py", ".md", ".html", ".toml") and "_build" not in path.parts
] + list(ROOT.glob("*.md"))
KEY = re.compile(r"\b[A-Z][a-z]+(?:19|20)\d\d\b")
UNKEYED = re.compile(r"\b(?:thesis|paper)(?:'s|’s)? 00\d\b")


def test_every_key_is_in_the_bibliography() -> None:
    cited = {(key, path.name) for path in TEXTS for key in KEY.findall(path.read_text(encoding="utf-8"))}
    assert len(cited) > 50
    assert sorted({key for key, _ in cited} - set(REFERENCES)) == []


def test_no_paper_is_cited_by_the_number_of_a_file() -> None:
    assert [str(path) for path in TEXTS if UNKEYED.search(path.read_text(encoding="utf-8"))] == []


def test_entries_are_sorted_and_whole() -> None:
    assert list(REFERENCES) == sorted(REFERENCES)
    for key, found in REFERENCES.items():
        assert found.key == key
        assert found.authors.split()[0].isprintable()
        assert all((found.authors, found.title, found.where))


@pytest.mark.parametrize("family", families())
def test_what_a_method_cites_is_resolved(family: str) -> None:
    for declared in declarations(family).values():
        for key in KEY.findall(declared.paper):
            assert cite(key), f"{declared.home} cites {key}"


def test_a_citation_becomes_a_line_per_work() -> None:
    both = cite("Kurakin2016; Saha2020, eq. 2.13; Saha2020, section 2")
    assert [line.split(":")[0] for line in both] == ["Kurakin2016", "Saha2020"]
    assert both[1].endswith("MSc thesis, IISER Kolkata, 2020.")
    assert cite("nothing, November 2026") == ()


def test_it_needs_no_torch() -> None:
    script = "import sys, modelkeep.papers.bibliography; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)
