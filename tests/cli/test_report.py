"""`modelkeep report` as a person and a script use it."""

from __future__ import annotations

import json
from pathlib import Path

from cli.running import Run

STORED = Path(__file__).parents[1] / "stored" / "results" / "audit.json"


def test_one_format_is_printed_or_written(modelkeep: Run, tmp_path: Path) -> None:
    ran = modelkeep("report", STORED, "--format", "sarif")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["version"] == "2.1.0"
    file = tmp_path / "new" / "mine.sarif"
    assert modelkeep("report", STORED, "--format", "sarif", "--out", file).code == 0
    assert file.read_text(encoding="utf-8") == ran.out
    assert modelkeep("report", STORED).out.startswith("# Audit of ")


def test_several_formats_go_to_a_folder(modelkeep: Run, tmp_path: Path) -> None:
    ran = modelkeep("report", STORED, "--format", "junit", "--format", "html", "--out", tmp_path / "all")
    assert ran.code == 0, ran.err
    assert {path.name for path in (tmp_path / "all").iterdir()} == {"junit.xml", "report.html"}


def test_the_schema_is_printed(modelkeep: Run) -> None:
    assert json.loads(modelkeep("report", "--schema").out)["properties"]["schema"] == {"const": 2}


def test_what_is_wrong_is_a_sentence(modelkeep: Run, tmp_path: Path) -> None:
    wrong = modelkeep("report", STORED, "--format", "sarrif")
    assert wrong.code == 2
    assert "Did you mean 'sarif'" in wrong.err
    assert "cannot be read: No such file" in modelkeep("report", tmp_path / "none.json").err
    assert "Name the run.json" in modelkeep("report").err
    other = tmp_path / "other.json"
    other.write_text("{}", encoding="utf-8")
    assert "not a stored ModelKeep result" in modelkeep("report", other).err
