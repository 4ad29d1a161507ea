"""Walk through `modelkeep ui` in Chromium: `python tools/walk_ui.py --out DIR` (`--help` says what else).

Every view, every form with an error in it and then put right, two tabs at once, a restart in the middle of a job. It
takes pictures at 1280 and at 390 pixels, light and dark, for a person to look at, and fails where the page complains,
is wider than its window, or says something that it should not.
"""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from browser import chromium  # noqa: E402

VIEWS = ("", "explain", "attack", "prove", "privacy", "guard", "parties", "studies", "compare", "run")
# For each form a value that the command refuses, and the words of its refusal.
WRONG = {
    "audit": ("examples", "many", "whole number"),
    "fix": ("finding", "--x", "an option"),
    "explain": ("examples", "0", "at least"),
    "attack": ("radius", "-1", "above 0"),
    "harden": ("epochs", "x", "whole number"),
    "certify model": ("seed", "x", "whole number"),
    "certify train": ("norm", "", ""),
    "bias": ("seed", "x", "whole number"),
    "privacy": ("seed", "x", "whole number"),
    "train-privately": ("seed", "x", "whole number"),
    "extract": ("queries", "x", "whole number"),
    "complete": ("seed", "x", "whole number"),
    "encrypt plan": ("samples", "x", "whole number"),
    "study run": ("processes", "x", "whole number"),
    "study resume": ("retries", "x", "whole number"),
}
PATIENCE = 60.0


class Walk:
    """A browser in front of the application, and where its pictures go."""

    def __init__(self, driver: Any, out: Path) -> None:
        self.driver, self.out, self.base = driver, out, ""
        self.said: list[str] = []

    def enter(self, address: str) -> None:
        self.base = address.split("/enter")[0]
        self.driver.get(address)

    def go(self, path: str, **query: str) -> None:
        self.driver.get(f"{self.base}/{path}?{urlencode({'model': 'digits-cnn', 'data': 'digits'} | query)}")
        self.wait(lambda: self.all("h1"))

    def all(self, selector: str) -> list[Any]:
        found: list[Any] = self.driver.find_elements("css selector", selector)
        return found

    def text(self, selector: str) -> str:
        return " ".join(each.text for each in self.all(selector))

    def wait(self, look: Callable[[], Any], what: str = "") -> Any:
        from selenium.common.exceptions import StaleElementReferenceException

        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                if found := look():
                    return found
            except StaleElementReferenceException:
                pass
            time.sleep(0.03)
        self.picture("failed")
        raise SystemExit(f"It did not come: {what or look}. At {self.driver.current_url}")

    def size(self, width: int, *, dark: bool = False) -> None:
        metrics = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def picture(self, name: str) -> None:
        """The whole page, up to four screens of it."""
        import base64

        self.driver.execute_script("scrollTo(0, 0)")
        high = self.driver.execute_script("return Math.min(document.documentElement.scrollHeight, 4 * innerHeight)")
        wide = self.driver.execute_script("return innerWidth")
        clip = {"x": 0, "y": 0, "width": wide, "height": high, "scale": 1}
        shot = {"captureBeyondViewport": True, "clip": clip}
        taken = self.driver.execute_cdp_cmd("Page.captureScreenshot", shot)
        (self.out / f"{name}.png").write_bytes(base64.b64decode(taken["data"]))

    def pictures(self, name: str) -> None:
        """The page as it is, at both widths, light and dark."""
        for width in (1280, 390):
            for dark in (False, True):
                self.size(width, dark=dark)
                time.sleep(0.3)  # what the page draws anew for another width
                self.check_width()
                self.picture(f"{name}-{width}-{'dark' if dark else 'light'}")
        self.size(1280)

    def check_width(self) -> None:
        over = self.driver.execute_script("return document.documentElement.scrollWidth - innerWidth")
        if over > 0:
            self.said.append(f"{self.driver.current_url} is {over} pixels too wide")

    def check_console(self, allowed: str = "") -> None:
        for entry in self.driver.get_log("browser"):
            if not (allowed and allowed in entry["message"]):
                self.said.append(f"{self.driver.current_url}: {entry['message']}")


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """`modelkeep ui` in a process of its own: the address that it prints."""
    command = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    command += "from modelkeep.cli import main; main()"
    words = [sys.executable, "-c", command, "ui", "--no-browser", "--folder", "out"]
    process = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield next(found[0] for line in process.stdout if (found := re.search(r"http://\S+", line)))
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()
        process.stdout.close()


def walk_forms(walk: Walk) -> int:
    """Each form: wrong, refused in the command's words; then as it was."""
    walk.go("run")
    verbs = [each.get_attribute("value") for each in walk.all("[data-state=verb] option")]
    for verb in verbs:
        walk.go("run", verb=verb)
        walk.wait(lambda: walk.all(".command-form .field"), f"the form of {verb}")
        walk.check_width()
        name, value, told = WRONG[verb]
        if not told:
            continue
        field = walk.all(f"#field-{name}")[0]
        for folded in walk.all(".command-form details"):
            walk.driver.execute_script("arguments[0].open = true", folded)
        before = field.get_attribute("value")
        field.clear()
        field.send_keys(value or " ")
        walk.all(".command-form button[type=submit]")[0].click()
        walk.wait(lambda told=told: told in walk.text(".refused .wrong"), f"the refusal of {verb}: {told}")
        if verb == "attack":
            walk.pictures("form-refused")
        field.clear()
        field.send_keys(before or "")
    walk.check_console("400")
    return len(verbs)


def walk_errors(walk: Walk) -> None:
    """What cannot be opened, watched, compared or read is said in a sentence."""
    walk.go("")
    walk.all("details.other > summary")[0].click()
    walk.all("[data-open-form] [name=model]")[0].send_keys("nothing.onnx")
    walk.all("[data-open-form] [name=data]")[0].send_keys("digits")
    walk.all("[data-open-form] [type=submit]")[0].click()
    walk.wait(lambda: "nothing.onnx" in walk.text("#problem"))
    walk.go("guard")
    walk.all("[name=address]")[0].clear()
    walk.all("[name=address]")[0].send_keys("http://127.0.0.1:9")
    walk.all("[name=key]")[0].send_keys("no key")
    walk.all("[data-post-form] button")[0].click()
    walk.wait(lambda: "No gateway answers" in walk.text("#problem"))
    walk.picture("guard-refused")
    walk.go("parties", folders="nobody\n../nothing")
    walk.wait(lambda: walk.all("main .problem:not([hidden])"))
    walk.pictures("parties-refused")
    walk.go("compare", other="nothing.onnx")
    walk.wait(lambda: "is not open" in walk.text("#problem"))
    walk.driver.get(f"{walk.base}/reports/../../etc/passwd")
    walk.wait(lambda: "There is no" in walk.text(".verdict"))
    walk.driver.get(f"{walk.base}/nothing")
    walk.wait(lambda: "There is no such page" in walk.text(".verdict"))
    walk.check_console("Failed to load resource")


def walk_tabs(walk: Walk) -> None:
    """Two tabs with two models, each by its address."""
    walk.go("explain")
    first = walk.driver.current_window_handle
    walk.driver.switch_to.new_window("tab")
    walk.go("explain", model="digits-certified")
    for button in walk.all("[data-again-open]"):  # unless Compare opened it before
        button.click()
    walk.wait(lambda: walk.text(".top dd").startswith("digits-certified"))
    walk.driver.switch_to.window(first)
    walk.driver.refresh()
    walk.wait(lambda: walk.text(".top dd").startswith("digits-cnn"))
    walk.check_console("400")


def main() -> None:
    """Walk, and say what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--folder", type=Path, help="Where `out` stands, with runs to show; else an empty place.")
    parser.add_argument("--gateway", nargs=2, metavar=("ADDRESS", "KEY"))
    parser.add_argument("--parties", nargs="*", default=[])
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, chromium(Path(place) / "profile", 1280, 844) as driver:
        folder = given.folder or Path(place)
        walk = Walk(driver, given.out)
        with serving(folder) as address:
            walk.enter(address)
            walk.pictures("empty")
            walk.wait(lambda: walk.all("main [data-open]"))[0].click()
            walk.wait(lambda: "model=digits-cnn" in driver.current_url)
            for view in VIEWS:
                walk.go(view)
                time.sleep(1.5)  # what the view computes at first
                walk.pictures(view or "overview")
                walk.check_console()
            walk.go("compare")
            walk.all("[data-compare] [name=model]")[0].send_keys("digits-certified\n")
            walk.wait(lambda: walk.all("[data-compared] .verdict"))
            walk.pictures("compared")
            walk.go("")
            for finding in walk.all("details.finding")[:1]:
                driver.execute_script("arguments[0].open = true", finding)
                walk.pictures("finding")
            driver.find_element("css selector", "body").send_keys("?")
            walk.wait(lambda: walk.all("dialog[open] kbd"))
            walk.picture("keys")
            walk.check_console()
            if given.gateway:
                walk.go("guard")
                walk.all("[name=address]")[0].clear()
                walk.all("[name=address]")[0].send_keys(given.gateway[0])
                walk.all("[name=key]")[0].send_keys(given.gateway[1])
                walk.all("[data-post-form] button")[0].click()
                walk.wait(lambda: walk.all(".traffic"))
                walk.pictures("guard-live")
                walk.all("[data-post]")[0].click()
                walk.wait(lambda: walk.all("[data-post-form]"))
            if given.parties:
                walk.go("parties", folders="\n".join(given.parties))
                walk.pictures("parties-live")
            forms = walk_forms(walk)
            walk_errors(walk)
            walk_tabs(walk)
            walk.go("run", verb="attack")
            walk.wait(lambda: walk.all("#field-radius"))[0].send_keys("0.1")
            walk.all("#field-method option[value=pgd]")[0].click()
            walk.wait(lambda: "Settings of pgd" in walk.text("legend"))
            walk.wait(lambda: walk.all("#field-steps"))[0].send_keys("20000\n")
            walk.wait(lambda: walk.all(".own-jobs progress"))
            walk.pictures("job-running")
        walk.wait(lambda: "Not connected" in walk.text("#running"))
        walk.driver.get_log("browser")
        with serving(folder) as address:  # another port: the tab has to use the new address
            walk.enter(address)
            walk.go("studies")
            walk.wait(lambda: walk.all("[data-state-of-job=running] progress"))
            walk.pictures("studies-after-restart")
            walk.all("[data-state-of-job=running] button")[0].click()
            walk.wait(lambda: walk.all("[data-state-of-job=stopped]"))
            walk.go("explain")
            walk.wait(lambda: walk.all("[data-again-open]"))
            walk.pictures("again")
            walk.all("[data-again-open]")[0].click()
            walk.wait(lambda: walk.text(".top dd").startswith("digits-cnn"))
            walk.check_console("ERR_CONNECTION_REFUSED")  # by the tab, while nothing was served
    taken = len(list(given.out.glob("*.png")))
    sys.stdout.write(f"{len(VIEWS)} views, {forms} forms, {taken} pictures in {given.out}.\n")
    sys.stdout.write("\n".join(walk.said or ["Nothing was complained of."]) + "\n")
    sys.exit(bool(walk.said))


if __name__ == "__main__":
    main()
