"""`modelkeep govern advise`: the files, the table and the options."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import typer
from PIL import Image
from typer.testing import CliRunner

from modelkeep import Result
from modelkeep.cli.govern.advise import advise
from modelkeep.govern.exposure import Advice

app = typer.Typer()
app.command()(advise)


def test_it_writes_the_advice_and_its_picture(digits_model: Path, tmp_path: Path) -> None:
    options = (
        "--completion-steps 0 --data digits --cut conv2_pool --cut linear1 --bandwidth 12.5 --latency 20 --json --out"
    )
    run = CliRunner().invoke(app, [str(digits_model), *options.split(), str(tmp_path)])
    assert run.exit_code == 0, run.output
    assert json.loads(run.stdout) == json.loads((tmp_path / "advice.json").read_text())
    found = Result.from_json((tmp_path / "advice.json").read_text())
    assert isinstance(found, Advice)
    assert [cut.place for cut in found.cuts] == ["conv2_pool", "linear1"]
    assert (found.link.bandwidth, found.link.latency, found.link.source) == (12.5e6, 0.02, "given")
    assert np.asarray(Image.open(tmp_path / "advice.png")).std() > 1


def test_it_says_what_it_recommends(digits_model: Path, tmp_path: Path) -> None:
    run = CliRunner().invoke(
        app,
        [str(digits_model), "--data", "digits", "--cut", "linear1", "--completion-steps", "8", "--out", str(tmp_path)],
        env={"COLUMNS": "160"},
    )
    assert run.exit_code == 0, run.output
    assert "completion at linear1" in run.stdout  # without an option that asks for it as well: 100 steps
    assert "Cut after 'linear1'" in run.stdout
    assert "measured on loopback" in run.stdout
    assert "advice.png" in run.stdout
