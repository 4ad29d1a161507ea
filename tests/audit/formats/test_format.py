"""Every declared format is found by its name and written to a file of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelkeep.audit import Audit
from modelkeep.audit.formats.format import FAMILY, find_format, write_formats
from modelkeep.core.errors import InputError
from modelkeep.core.registry import declarations


def test_all_formats_are_written(written: Audit, tmp_path: Path) -> None:
    names = list(declarations(FAMILY))
    assert set(names) == {"annex-iv", "cyclonedx", "html", "junit", "markdown", "model-card", "sarif"}
    files = write_formats(written, tmp_path, names)
    assert len(set(files)) == len(names)
    for name, path in zip(names, files, strict=True):
        assert path.read_text(encoding="utf-8") == find_format(name).write(written)


def test_an_unknown_format_names_the_nearest() -> None:
    with pytest.raises(InputError, match="Did you mean 'sarif'"):
        find_format("sarrif")
