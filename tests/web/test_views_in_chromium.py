"""The interactive views as a person uses them: by mouse and keyboard, from a link, on a wide and on a narrow screen."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from browser import chromium
from modelkeep.audit.sources import Sources
from modelkeep.cli.forms import CommandLineForms
from modelkeep.web.app import create_app
from modelkeep.web.workspace import Workspace

PICTURE = "return [...document.querySelectorAll(arguments[0] + ' canvas')].map(c => c.toDataURL()).join()"
TEXT = "return document.querySelector(arguments[0]).textContent.trim()"
COUNT = "return document.querySelectorAll(arguments[0]).length"


@dataclass
class Screen:
    """A browser that the application let in."""

    driver: Any
    base: str

    def open(self, path: str) -> None:
        """Open a view and wait until it shows what its address asks for."""
        self.driver.get(self.base + path)
        self.settled(0)

    def settled(self, before: int) -> None:
        """Wait until the view has shown something newer."""
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, 60, 0.02).until(lambda _: self.shown() > before)

    def shown(self) -> int:
        """How often the view has shown something."""
        return int(self.run("return document.getElementById('lab')?.dataset.settled ?? 0"))

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script in the page returns."""
        return self.driver.execute_script(script, *arguments)

    def does(self, script: str) -> None:
        """Something a person does that makes the view show something else."""
        before = self.shown()
        self.run(script)
        self.settled(before)

    def press(self, selector: str, *keys: str) -> None:
        """Keys, one after the other, on an element that has the focus."""
        from selenium.webdriver.common.by import By

        for key in keys:
            before = self.shown()
            self.driver.find_element(By.CSS_SELECTOR, selector).send_keys(key)
            self.settled(before)

    def resize(self, width: int) -> None:
        """Another screen."""
        size = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


@pytest.fixture(scope="module")
def screen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Screen]:
    workspace = Workspace(tmp_path_factory.mktemp("runs"), CommandLineForms())
    workspace.open(Sources("digits-certified", "digits", "digits"))
    config = uvicorn.Config(create_app(workspace, "token"), port=0, log_level="warning", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    socket = config.bind_socket()
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]})
    thread.start()
    try:
        with chromium(Path(tmp_path_factory.mktemp("profile")), width=1280) as driver:
            base = f"http://127.0.0.1:{socket.getsockname()[1]}"
            driver.get(f"{base}/enter?token=token")
            yield Screen(driver, base)
    finally:
        server.should_exit = True
        thread.join()
        socket.close()


@pytest.fixture(autouse=True)
def no_complaints(screen: Screen) -> Iterator[None]:
    """Nothing may be refused by the browser: no script, no style, no request that fails."""
    screen.resize(1280)
    yield
    assert screen.driver.get_log("browser") == []


def test_explain_by_mouse_keyboard_and_link(screen: Screen) -> None:
    screen.open("/explain?slice=conv2_minmax")
    assert "but its label is" in screen.run(TEXT, "#verdict"), "an error comes first"
    assert screen.run(COUNT, ".units-list li") == 8
    assert screen.run(COUNT, ".exemplars canvas") == 40
    first = screen.run(PICTURE, '[data-at="figures"]')
    screen.press('.examples [aria-selected="true"]', "\ue014")  # arrow to the right
    assert screen.run(PICTURE, '[data-at="figures"]') != first
    screen.does("document.querySelector('[data-place=linear1_minmax]').click()")
    assert screen.run(TEXT, "#units-name") == "Strongest units at linear1_minmax"
    screen.does("document.querySelector('button.unit').click()")
    screen.does(
        "const s = document.querySelector('[data-at=against]'); s.value = '*'; s.dispatchEvent(new Event('change'))"
    )
    address, seen = screen.driver.current_url, screen.run(PICTURE, '[data-at="figures"]')
    assert "slice=linear1_minmax" in address
    assert "against=" in address
    assert "modelkeep explain digits-certified" in screen.run(
        "return document.querySelector('[data-made]').textContent"
    )
    screen.driver.get("about:blank")
    screen.open(address.removeprefix(screen.base))
    assert screen.run(PICTURE, '[data-at="figures"]') == seen, "the link shows the same"


def test_attack_moves_from_found_over_unknown_to_proved(screen: Screen) -> None:
    screen.open("/attack?example=3")
    assert screen.run(TEXT, "#verdict").startswith("Found")
    found = screen.run(PICTURE, '[data-at="result"]')
    screen.press("#radius", "\ue012", "\ue012")  # arrow to the left
    assert "proves nothing" in screen.run(TEXT, "#verdict")
    assert screen.run(PICTURE, '[data-at="result"]') != found
    screen.does("const r = document.getElementById('radius'); r.value = 5; r.dispatchEvent(new Event('input'))")
    assert screen.run(TEXT, "#verdict").startswith("Proved")
    assert "radius=" in screen.driver.current_url
    assert screen.run("return document.querySelectorAll('[data-at=zones] span')[4].dataset.state") == "proved"


def test_prove_and_privacy_follow_their_sliders(screen: Screen) -> None:
    screen.open("/prove?radius=0.3")
    assert screen.run(TEXT, "#verdict").startswith("Proved: 85")
    screen.press("#radius", "\ue010")  # End: farther than anything is proved
    assert screen.run(TEXT, "#verdict").startswith("Nothing is proved")
    screen.open("/privacy?rate=0.01")
    assert screen.run(TEXT, "#verdict").startswith("Inconclusive")
    few = screen.run(COUNT, '[data-at="fallen"] .record')
    screen.does("const r = document.getElementById('rate'); r.value = 200; r.dispatchEvent(new Event('input'))")
    assert screen.run(COUNT, '[data-at="fallen"] .record') > few
    assert "not" not in screen.run(TEXT, '[data-at="found"]')


@pytest.mark.parametrize("view", ["explain", "attack", "prove", "privacy"])
def test_a_narrow_screen_shows_one_part_and_nothing_is_cut(screen: Screen, view: str) -> None:
    screen.resize(390)
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
