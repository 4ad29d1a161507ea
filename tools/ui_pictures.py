"""Make the pictures in the guide of `modelkeep ui` again: `python tools/ui_pictures.py`. It needs Chromium."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent

PICTURES = {
    "ui-explain": ("/explain", {"slice": "conv2_minmax", "against": "5", "unit": "23"}, 1010),
    "ui-attack": ("/attack", {"example": "3", "radius": "0.45"}, 900),
}
WIDTH = 1280
# Nothing is still to come: the view has settled, and every radius was asked.
DONE = """
const lab = document.getElementById("lab");
return lab?.dataset.settled && (!document.querySelector(".zones") || lab.dataset.filled !== undefined);
"""


def main() -> None:
    """Open the views on a small network that can be certified, and take their first screens."""
    sys.path.insert(0, str(ROOT / "tests"))
    from PIL import Image

    from browser import chromium
    from modelkeep.audit.sources import Sources
    from modelkeep.cli.forms import CommandLineForms
    from modelkeep.web.workspace import Workspace
    from web.conftest import Served, serving

    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace(Path(folder), CommandLineForms())
        workspace.open(Sources("digits-certified", "digits", "digits"))
        with serving(workspace, "token") as (entrance, port), chromium(Path(folder) / "profile", WIDTH) as driver:
            driver.get(entrance)
            served = Served(driver, f"http://127.0.0.1:{port}", workspace)
            for name, (path, query, height) in PICTURES.items():
                served.size(WIDTH, height)
                served.open(path, model="digits-certified", **query)
                served.wait(lambda: driver.execute_script(DONE), name)
                picture = ROOT / "docs" / "images" / f"{name}.png"
                driver.save_screenshot(str(picture))
                with Image.open(picture) as taken:  # 256 colours show all there is, in a third of the bytes
                    taken.convert("RGB").quantize(256).save(picture, optimize=True)


if __name__ == "__main__":
    main()
