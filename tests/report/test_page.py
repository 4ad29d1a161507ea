"""Page: what it shows of a result, and the files that it writes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from modelkeep import Estimate, ModelKeepError, Result
from modelkeep.core import plots
from modelkeep.core.results import Provenance
from modelkeep.report import Card, Note, Page, Part, Picture, Table

SHARE = Estimate(0.5, 0.25, 0.75, 20)


@dataclass(frozen=True, kw_only=True, eq=False)
class Little(Result, kind="test-page"):
    def rows(self) -> list[tuple[str, str]]:
        return [("share", str(SHARE))]


def little(method: str | None = None) -> Little:
    return Little(provenance=Provenance("m", "d", 3, 1.0, "0", method, {}, "PGD(radius=0.1)", "--radius 0.1"))


def test_a_page_shows_all_of_its_parts() -> None:
    page = Page(
        result=little(),
        title="<b>Bold</b>",
        verdict="It holds.",
        lead="A lead.",
        cards=(Card.of_share("accuracy", SHARE), Card.of_difference("excess", SHARE)),
        notes=(Note("high", "health", "Beware", "Of this.", remedy="Do that.", taxonomy=("NIST",), id="one"),),
        parts=(
            Part("Figures", "Read them.", tables=(Table([["a", "1"]], ("name", "n")), Table([["b"]], summary="more"))),
        ),
    ).render()
    assert "<b>Bold" not in page
    shown = ["It holds.", "A lead.", "50.0 %", "+50.0 %", "25.0 % to 75.0 %, 20 examples", "Beware", "Do that.", "NIST",
             'id="one"', "<th>name</th>", "<td>1</td>", "<summary>more</summary>"]  # fmt: skip
    assert [text for text in shown if text not in page] == []
    assert "To repeat it" not in page


def test_a_page_says_how_to_repeat_what_it_shows() -> None:
    found = little("attack/pgd")
    lines = [
        "modelkeep attack MODEL --data DATA --method pgd --radius 0.1 --seed 3",
        "PGD(radius=0.1)(model, data, seed=3)",
    ]
    page = Page(result=found, title="t")
    assert page.commands == lines
    assert all(line in page.render() for line in lines)
    assert Page(result=little(), title="t", repeats=(found, found)).commands == lines


def test_a_page_is_written_with_its_record_and_pictures(tmp_path: Path) -> None:
    picture = Picture.of(plots.bars({"a": SHARE}), "alt", "caption")
    page = Page(result=little(), title="t", pictures={"a.png": picture})
    written = page.write(tmp_path / "out", "p.html", "p.json", {"more.txt": "more"})
    assert [path.name for path in written] == ["p.html", "p.json", "more.txt", "a.png"]
    assert Result.from_json(written[1].read_text()).to_json() == little().to_json()
    assert written[3].read_bytes().startswith(b"\x89PNG")
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelKeepError, match="The report cannot be written to"):
        page.write(tmp_path / "file", "p.html", "p.json")
