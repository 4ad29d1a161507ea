"""The picture of the report in README is of the report as it looks now, and the tool that takes it works."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

TOOL = Path(__file__).parent.parent / "tools" / "report_picture.py"


@pytest.fixture(scope="module")
def tool() -> dict[str, Any]:
    return runpy.run_path(str(TOOL))


def test_the_picture_is_of_the_report_as_it_looks_now(tool: dict[str, Any]) -> None:
    assert tool["DIGEST"].read_text().strip() == tool["digest_look"](), (
        "The report's templates or its layout changed. Take its picture again: python tools/report_picture.py"
    )


def test_the_first_screen_is_taken(tool: dict[str, Any], tmp_path: Path) -> None:
    """A page that is white above and red below its first screen: no red is on the picture, and one blue box is."""
    page, picture = tmp_path / "page.html", tmp_path / "page.png"
    width, height = tool["SIZE"]
    page.write_text(
        f'<body style="margin:0"><div style="height:{height}px"><div style="width:100px;height:50px;background:#00f">'
        '</div></div><div style="height:500px;background:#f00"></div>'
    )
    tool["photograph"](page, picture)
    with Image.open(picture) as image:
        colours = {colour: count for count, colour in image.convert("RGB").getcolors() or []}
    assert colours == {(0, 0, 255): 100 * 50, (255, 255, 255): width * height - 100 * 50}
