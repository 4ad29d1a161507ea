"""The page of all methods says what their declarations say."""

from __future__ import annotations

import runpy
from pathlib import Path

TOOL = Path(__file__).parent.parent / "tools" / "method_tables.py"


def test_the_page_is_that_of_the_declarations() -> None:
    tool = runpy.run_path(str(TOOL))
    assert tool["PAGE"].read_text(encoding="utf-8") == tool["render"](), "run: python tools/method_tables.py"
