"""The worked example does what it tells: the patch is found and named, and the clean model is left in peace."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "planted_feature.py"


def test_the_ball_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    specification = importlib.util.spec_from_file_location("planted_feature", EXAMPLE)
    assert specification is not None
    assert specification.loader is not None
    example = importlib.util.module_from_spec(specification)
    sys.modules["planted_feature"] = example  # dataclasses look their module up there
    specification.loader.exec_module(example)
    clean, planted = example.main(tmp_path)

    assert clean.accuracy > 0.9
    assert planted.accuracy > 0.9, "accuracy does not tell the two apart"
    assert clean.soundness.sound.low > planted.soundness.sound.high
    assert clean.shortcuts.found == ()
    (found,) = planted.shortcuts.found
    assert (found.name, found.region.name) == ("3", "rows 0–3, columns 0–3")
    assert any(f.id == "shortcuts.planted-mark" and "rows 0–3" in f.title for f in planted.audit.findings)
    assert not any(f.id == "shortcuts.planted-mark" for f in clean.audit.findings)
    assert "A mark at rows 0–3, columns 0–3 stands in for '3'" in capsys.readouterr().out
    for picture in ("soundness.png", "shortcuts.png", "report.html"):
        assert (tmp_path / picture).stat().st_size > 5000
