"""The interactive views as a person uses them: by mouse and keyboard, from a link, on a wide and on a narrow screen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from modelkeep.audit.sources import Sources
from web.conftest import Served

PICTURE = "return [...document.querySelectorAll(arguments[0] + ' canvas')].map(c => c.toDataURL()).join()"
TEXT = "return document.querySelector(arguments[0]).textContent.trim()"
COUNT = "return document.querySelectorAll(arguments[0]).length"


@dataclass
class Screen:
    """A browser that the application let in, with a network that can be certified."""

    served: Served

    def open(self, path: str, **query: str) -> None:
        """Open a view and wait until it shows what its address asks for."""
        self.served.open(path, **{"model": "digits-certified"} | query)
        self.settled(0)

    def settled(self, before: int) -> None:
        """Wait until the view has shown something newer."""
        self.served.wait(lambda: self.shown() > before, "something newer")

    def shown(self) -> int:
        """How often the view has shown something."""
        return int(self.run("return document.getElementById('lab')?.dataset.settled ?? 0"))

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script in the page returns."""
        return self.served.driver.execute_script(script, *arguments)

    def does(self, script: str) -> None:
        """Something a person does that makes the view show something else."""
        before = self.shown()
        self.run(script)
        self.settled(before)

    def press(self, selector: str, *keys: str) -> None:
        """Keys, one after the other, on an element that has the focus."""
        for key in keys:
            before = self.shown()
            self.served.find(selector).send_keys(key)
            self.settled(before)


@pytest.fixture
def screen(served: Served) -> Iterator[Screen]:
    """On a wide screen; nothing may be refused by the browser: no script, no style, no request that fails."""
    served.workspace.open(Sources("digits-certified", "digits", "digits"))
    served.size(1280, 900)
    served.errors()  # what others left
    yield Screen(served)
    assert served.errors() == []
    served.driver.get("about:blank")
    served.size(1280, 900)


def test_explain_by_mouse_keyboard_and_link(screen: Screen) -> None:
    screen.open("/explain", slice="conv2_minmax")
    assert "but its label is" in screen.run(TEXT, "#verdict"), "an error comes first"
    assert screen.run(COUNT, ".units-list li") == 8
    assert screen.run(COUNT, ".exemplars canvas") == 40
    first = screen.run(PICTURE, '[data-at="figures"]')
    screen.press('.examples [aria-selected="true"]', "\ue014")  # arrow to the right
    assert screen.run(PICTURE, '[data-at="figures"]') != first
    screen.does("document.querySelector('[data-place=linear1_minmax]').click()")
    assert screen.run(TEXT, "#units-name") == "Strongest units at linear1_minmax"
    screen.press("button.unit", "\ue007")  # Enter
    assert screen.run("return document.activeElement.className") == "unit", "the focus stays in the list"
    assert screen.run(COUNT, '[data-at="figures"] canvas') == 3
    screen.does(
        "const s = document.querySelector('[data-at=against]'); s.value = '*'; s.dispatchEvent(new Event('change'))"
    )
    address, seen = screen.served.driver.current_url, screen.run(PICTURE, '[data-at="figures"]')
    assert "slice=linear1_minmax" in address
    assert "against=" in address
    assert "modelkeep explain digits-certified" in screen.run(
        "return document.querySelector('[data-made]').textContent"
    )
    screen.served.driver.get("about:blank")
    screen.served.driver.get(address)
    screen.settled(0)
    assert screen.run(PICTURE, '[data-at="figures"]') == seen, "the link shows the same"


def test_attack_moves_from_found_over_unknown_to_proved(screen: Screen) -> None:
    screen.open("/attack", example="3")
    assert screen.run(TEXT, "#verdict").startswith("Found")
    found = screen.run(PICTURE, '[data-at="result"]')
    screen.press("#radius", "\ue012", "\ue012")  # arrow to the left
    assert "proves nothing" in screen.run(TEXT, "#verdict")
    assert screen.run(PICTURE, '[data-at="result"]') != found
    screen.does("const r = document.getElementById('radius'); r.value = 5; r.dispatchEvent(new Event('input'))")
    assert screen.run(TEXT, "#verdict").startswith("Proved")
    assert "radius=" in screen.served.driver.current_url
    assert screen.run("return document.querySelectorAll('[data-at=zones] span')[4].dataset.state") == "proved"


def test_prove_and_privacy_follow_their_sliders(screen: Screen) -> None:
    screen.open("/prove", radius="0.3")
    assert screen.run(TEXT, "#verdict").startswith("Proved: 85")
    screen.press("#radius", "\ue010")  # End: farther than anything is proved
    assert screen.run(TEXT, "#verdict").startswith("Nothing is proved")
    screen.open("/privacy", rate="0.01")
    assert screen.run(TEXT, "#verdict").startswith("Inconclusive")
    few = screen.run(COUNT, '[data-at="fallen"] .record')
    screen.does("const r = document.getElementById('rate'); r.value = 200; r.dispatchEvent(new Event('input'))")
    assert screen.run(COUNT, '[data-at="fallen"] .record') > few
    assert "not" not in screen.run(TEXT, '[data-at="found"]')


@pytest.mark.parametrize("view", ["explain", "attack", "prove", "privacy"])
def test_a_narrow_screen_shows_one_part_and_nothing_is_cut(screen: Screen, view: str) -> None:
    screen.served.size(390, 844)
    screen.open(f"/{view}")
    assert screen.run("return document.documentElement.scrollWidth") <= 390
    parts = screen.run("return [...document.querySelectorAll('[data-part]')].map(b => b.dataset.part)")
    for part in parts:
        screen.run("document.querySelector(`[data-part=${arguments[0]}]`).click()", part)
        shown = "return [...document.querySelectorAll('.pane')].filter(p => p.offsetParent).map(p => p.dataset.name)"
        assert set(screen.run(shown)) == {part}
        assert screen.run("return document.documentElement.scrollWidth") <= 390
    unnamed = (
        "return [...document.querySelectorAll('main button, main select, main input, main canvas, main [role=option]')]"
    )
    unnamed += (
        ".filter(e => !e.closest('[aria-hidden=true]') && !e.ariaLabel && !e.textContent.trim() && !e.labels?.length)"
    )
    assert screen.run(unnamed + ".map(e => e.outerHTML)") == []
