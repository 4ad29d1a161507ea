"""Page: what it shows of a result, and the files that it writes."""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from browser import chromium
from modelkeep import Estimate, ModelKeepError, Result
from modelkeep.core import plots, progress
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
    shown = ["It holds.", "A lead.", "50.0 %", "+50.0 points",
             "+25.0 to +75.0, 20 examples", "25.0 % to 75.0 %, 20 examples", "Beware", "Do that.", "NIST",
             'id="one"', ">name</th>", ">1</td>", "<summary>more</summary>"]  # fmt: skip
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


def full_page() -> Page:
    """A page with everything that a page can have, of names as long as they come."""
    chart = Picture.of(plots.curve([0.0, 0.5], {"PGD": [SHARE, SHARE], "noise": [SHARE, SHARE]}, x_label="x"), "", "c")
    grey = torch.linspace(0, 1, 8 * 64).view(8, 1, 8, 8)
    photo = Picture.of(plots.image_grid(grey, [f"row {i}: trousers" for i in range(8)]), "Eight greys", "caption")
    long = "a-" + 30 * "very" + "-long-name"
    chart = replace(chart, alt="Accuracy falls by half")
    note = Note("high", "high", "Beware", "Of this.", "Do that.", ("NIST",), "one/two", status="fail")
    told = replace(
        note,
        facts=(("value", "50.0 % (25.0 % to 75.0 %)"), ("access", "weights")),
        commands=(("repeat it", f"modelkeep attack {long}.safetensors"),),
        pictures=(chart, photo),
    )
    rows = [[long, "1", "2", "3", "4", "5"]] * 3
    return Page(
        result=little("attack/pgd"),
        title=f"{long} on digits",
        verdict="Do not ship: it is wrong half of the time.",
        verdict_level="high",
        facts=(("date", "2026-11-18"), ("not run", "nothing")),
        cards=(Card.of_share("accuracy", SHARE), Card.of_difference("excess", SHARE)),
        notes=(told, *(replace(note, id="", title=f"More {i}") for i in range(4))),
        notes_title="What was found",
        parts=(
            Part("Drawn", tables=(Table(rows, tuple("abcdef")),), pictures=(chart, photo)),
            Part("Figures", tables=(Table([["a", long]]),)),
        ),
    )


def test_the_first_three_notes_stand_under_the_verdict_with_links_to_their_places() -> None:
    page = full_page()
    assert [anchor for anchor, _ in page.top] == ["one/two", "note-2", "note-3"]
    html = page.render()
    assert 'class="verdict high"' in html
    head = html[: html.index("</header>")]
    assert all(f'<a href="#{anchor}">{note.title}</a>' in head for anchor, note in page.top)
    assert all(f'id="{anchor}"' in html for anchor, _ in page.anchored_notes)
    assert replace(page, notes_title="").top == ()


def test_charts_stand_in_the_page_as_svg_and_a_table_beside_pictures_is_folded_below_them() -> None:
    html = full_page().render()
    drawn = html[html.index('id="part-1"') : html.index('id="part-2"')]
    assert drawn.index("<svg") < drawn.index("<img") < drawn.index("<summary>In figures") < drawn.index("<table")
    assert "<summary>" not in html[html.index('id="part-2"') : html.index("<footer")]


def test_an_svg_that_does_more_than_draw_is_shown_as_an_image() -> None:
    evil = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><script>alert(1)</script></svg>'
    picture = Picture("data:image/svg+xml;base64," + base64.b64encode(evil.encode()).decode(), "alt", "caption")
    page = Page(result=little(), title="t", parts=(Part("p", pictures=(picture,)),)).render()
    assert "alert(1)" not in page
    assert '<img src="data:image/svg+xml;base64,' in page


def test_a_page_of_a_command_tells_the_time_of_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page(result=little(), title="t")
    assert "The measurement took 1.0 s." in page.render()
    now = iter([100.0, 232.0])
    with monkeypatch.context() as patched:
        patched.setattr("modelkeep.core.progress.time.monotonic", lambda: next(now))
        with progress.command():
            told = " ".join(page.render().split())
    assert "The command took 132.0 s, the measurement 1.0 s of them." in told


_CONTRAST = """
const light = c => { const [r, g, b] = c.match(/[0-9.]+/g).slice(0, 3).map(v => { v /= 255;
  return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
const ground = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
  if (!/, 0\\)$/.test(c) && c !== "transparent") return c; } return "rgb(255, 255, 255)"; };
const of = s => document.querySelector(s);
const back = s => getComputedStyle(of(s)).backgroundColor;
const text = ["h1", ".verdict p", ".verdict a", ".card .name", ".chip.high", ".taxonomy", "footer p",
              ".command code", "figcaption"];
return {text: text.map(s => [s, ratio(getComputedStyle(of(s)).color, ground(of(s)))]),
  bar: ratio(back(".track .span"), back(".track")), dot: ratio(back(".track .dot"), back(".track .span")),
  chart: [...document.querySelectorAll("svg text")].map(e => ratio(getComputedStyle(e).fill, ground(e)))};
"""
_SHAPE = """
const shown = e => e.getClientRects().length > 0 && e.checkVisibility();
return {wide: document.documentElement.scrollWidth - innerWidth,
  rail: shown(document.querySelector(".rail")), folded: shown(document.querySelector(".folded")),
  sizes: [...document.querySelectorAll("svg")].filter(shown).flatMap(s =>
    [...s.querySelectorAll("text")].map(t => parseFloat(getComputedStyle(t).fontSize) * s.getScreenCTM().a)),
  cut: [...document.querySelectorAll("svg")].filter(shown).flatMap(s => { const box = s.getBoundingClientRect();
    return [...s.querySelectorAll("text")].filter(t => { const b = t.getBoundingClientRect();
      return b.left < box.left - 1 || b.right > box.right + 1 || b.bottom > box.bottom + 1; })
      .map(t => t.textContent); }),
  headings: [...document.querySelectorAll("h1, h2, h3, h4")].map(h => +h.tagName[1]),
  tables: [...document.querySelectorAll("table")].map(t => [!!t.caption,
    [...t.querySelectorAll("th")].every(h => h.scope)]),
  unnamed: [...document.querySelectorAll("img, [role=img]")].filter(
    e => !(e.alt || e.getAttribute("aria-label"))).length,
  ids: [...document.querySelectorAll("[id]")].map(e => e.id).filter(
    (id, i, all) => all.indexOf(id) !== i && !id.startsWith("c")),
  landmarks: ["main", "nav", "header", "footer"].filter(s => !document.querySelector(s))};
"""


def test_a_page_reads_well_on_a_desk_and_a_phone_in_light_and_dark(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(full_page().render())
    assert path.stat().st_size < 5_000_000
    with chromium(tmp_path / "profile") as browser:
        for width, colours in ((1280, "light"), (390, "dark"), (390, "light"), (1280, "dark")):
            media = {"features": [{"name": "prefers-color-scheme", "value": colours}]}
            screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
            browser.get(path.as_uri())
            assert browser.get_log("browser") == []
            seen = browser.execute_script(_CONTRAST)
            assert [pair for pair in seen["text"] if pair[1] < 4.5] == [], colours
            assert min(seen["chart"]) >= 4.5, colours
            assert seen["bar"] >= 3, colours
            assert seen["dot"] >= 3, colours
            shape = browser.execute_script(_SHAPE)
            assert shape["wide"] <= 0, width
            assert (shape["rail"], shape["folded"]) == (width > 1000, width < 1000)
            assert min(shape["sizes"]) >= 10.99, width
            assert shape["cut"] == []
        assert shape["headings"][0] == 1
        assert all(after <= before + 1 for before, after in pairwise(shape["headings"]))
        assert all(captioned and scoped for captioned, scoped in shape["tables"])
        assert (shape["unnamed"], shape["ids"], shape["landmarks"]) == (0, [], [])
        browser.execute_script("document.querySelector('.command button').focus()")
        assert browser.switch_to.active_element.get_attribute("aria-label").startswith("Copy: modelkeep attack a-very")
        reached = browser.execute_script(
            "location.hash = 'one/two'; return document.querySelector(':target').className"
        )
        assert reached == "finding high"


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
