"""modelkeep data: what a person and a script see."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from modelkeep import Result
from modelkeep.cli.data import app
from modelkeep.core.errors import DataError
from modelkeep.zoo import datasets


def _run(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_list_names_every_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    shown = _run("list", "--cache", str(tmp_path))
    for name in datasets.names():
        assert f" {name} " in shown
        assert datasets.info(name).title in shown


def test_list_as_json(tmp_path: Path) -> None:
    described = {one["name"]: one for one in json.loads(_run("list", "--json", "--cache", str(tmp_path)))}
    assert tuple(described) == datasets.names()
    assert described["mnist"]["rows"] == {"train": 60_000, "test": 10_000}
    assert described["mnist"]["download"] is True
    assert described["mnist"]["cached"] is False
    assert described["digits"]["cached"] is True


def test_get_of_a_bundled_set() -> None:
    shown = _run("get", "wine")
    assert "train: Data('wine', n=142" in shown
    assert "80% / 20%" in shown
    described = json.loads(_run("get", "wine", "--json"))
    assert described["files"] == {}
    assert described["fingerprints"]["test"] == datasets.load("wine", "test").fingerprint()


def test_get_refuses_a_wrong_copy_and_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "copy").write_bytes(b"not CIFAR")
    with pytest.raises(DataError, match="no right copy"):
        _run("get", "cifar-100", "--from", str(tmp_path / "copy"), "--cache", str(tmp_path / "cache"))
    assert not datasets.is_cached("cifar-100", cache=tmp_path / "cache")
    with pytest.raises(DataError, match="There is nothing at"):
        _run("get", "cifar-100", "--from", str(tmp_path / "missing"))


def test_show_draws_images(tmp_path: Path) -> None:
    out = tmp_path / "digits.png"
    shown = _run("show", "digits", "--part", "test", "--out", str(out))
    assert "359 of shape (1, 8, 8)" in shown
    with Image.open(out) as picture:
        assert picture.width > 500


def test_show_names_its_picture_by_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _run("show", "digits")
    assert (tmp_path / "digits.png").is_file()


def test_show_describes_a_table_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,size,kind\nx,1,a\ny,,b\nz,3,a\n")
    options = ("--label", "kind", "--ignore", "id", "--missing", "indicate")
    shown = _run("show", str(tmp_path / "t.csv"), *options)
    assert "size is missing (1)" in shown
    assert "class a" in shown
    summary = Result.from_json(_run("show", str(tmp_path / "t.csv"), *options, "--json"))
    assert isinstance(summary, datasets.Summary)
    assert summary.counts == (2, 1)


def test_a_wrong_part_is_a_usage_error() -> None:
    done = CliRunner().invoke(app, ["show", "digits", "--part", "valid"])
    assert done.exit_code == 2
    assert "train" in done.output
