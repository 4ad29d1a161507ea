"""The index links every page of its folder with its verdict, the newest first, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

from modelkeep.report import Page
from modelkeep.report.index import NAME, Linked, list_pages
from report.test_page import little


def test_pages_are_linked_with_their_verdicts_the_newest_first(tmp_path: Path) -> None:
    old = Page(result=little(), title="a & <b>", verdict="It's < 5 %.", verdict_level="high")
    old.write(tmp_path, "old.html", "old.json")
    os.utime(tmp_path / "old.html", (1, 1))
    Page(result=little(), title="below").write(tmp_path / "study one", "study.html", "study.json")
    (tmp_path / "foreign.html").write_text("<title>not ours</title>")
    Page(result=little(), title="new", verdict="Fine.").write(tmp_path, "new.html", "new.json")
    found = list_pages(tmp_path)
    assert set(found) == {
        Linked("new.html", "new", "Fine.", ""),
        Linked("study one/study.html", "below", "", ""),
        Linked("old.html", "a & <b>", "It's < 5 %.", "high"),
    }
    assert found[-1].href == "old.html"
    text = (tmp_path / NAME).read_text()
    assert '<a href="study%20one/study.html">below</a>' in text
    assert "a &amp; &lt;b&gt;" in text
    assert "It&#39;s &lt; 5 %." in text
