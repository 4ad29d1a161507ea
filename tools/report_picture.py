"""Make the picture of the report in README again: `python tools/report_picture.py`. It needs Chromium and ChromeDriver.

It runs `modelkeep demo`, opens the report as a reader does, and takes the first screen. Beside the picture it keeps a
digest of what the picture shows the look of: the templates, and the module that lays the audit's page out. A test
compares that digest, so a picture of an older report is noticed; pixels are not compared, for they differ by fonts.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "modelkeep"
PICTURE = ROOT / "docs" / "images" / "report.png"
DIGEST = PICTURE.with_suffix(".sha256")
TEMPLATES = ("page.html", "page.css", "parts.html")
LAYOUT = SOURCE / "audit" / "page.py"
SIZE = (1280, 960)
_COMMENTS = re.compile(r"<!--.*?-->|{#.*?#}|/\*.*?\*/", re.DOTALL)


def digest_look() -> str:
    """The digest of what decides how the report looks; comments, docstrings and white space do not count."""
    folder = SOURCE / "report" / "templates"
    texts = [" ".join(_COMMENTS.sub(" ", (folder / name).read_text(encoding="utf-8")).split()) for name in TEMPLATES]
    layout = ast.parse(LAYOUT.read_text(encoding="utf-8"))
    for node in ast.walk(layout):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return sha256("\n".join([*texts, ast.dump(layout)]).encode()).hexdigest()


def photograph(page: Path, picture: Path) -> None:
    """Take the first screen of a page, in the browser that the tests use."""
    sys.path.insert(0, str(ROOT / "tests"))
    from browser import chromium

    with tempfile.TemporaryDirectory() as profile, chromium(Path(profile), *SIZE) as opened:
        # The window's size counts its frame in; the picture's is that of what a reader sees.
        metrics = {"width": SIZE[0], "height": SIZE[1], "deviceScaleFactor": 1, "mobile": False}
        opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        opened.get(page.resolve().as_uri())
        opened.save_screenshot(str(picture))


def main() -> None:
    """Run the demo, take the picture and keep the digest."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", "from modelkeep.cli import main; main()", "demo"]
        subprocess.run(command, check=True, cwd=folder)
        photograph(Path(folder) / "modelkeep-out" / "report.html", PICTURE)
    DIGEST.write_text(digest_look() + "\n")
    sys.stdout.write(f"{PICTURE}\n")


if __name__ == "__main__":
    main()
