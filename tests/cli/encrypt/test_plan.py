"""`encrypt plan`: a refusal that names the way out, and the way out."""

from __future__ import annotations

import json
from pathlib import Path

from cli.running import Run
from digits import digits_dense


def test_relu_is_refused_then_replaced_and_planned(tmp_path: Path, modelkeep: Run) -> None:
    model = str(digits_dense().save(tmp_path / "dense.safetensors"))
    refused = modelkeep("encrypt", "plan", model, "--data", "digits")
    assert refused.code != 0
    said = " ".join(refused.err.split())
    assert "Layer 'linear1_relu' is a ReLU" in said
    assert "--replace" in said
    out = tmp_path / "square.pt2"
    ran = modelkeep("encrypt", "plan", model, "--data", "digits", "--replace", "--out", str(out), "--json")
    assert ran.code == 0, ran.err
    plan = json.loads(ran.out)
    assert "accuracy after" in ran.err
    again = modelkeep("encrypt", "plan", str(out), "--data", "digits", "--packing", "packed")
    assert again.code == 0, again.err
    assert "4,096 samples per request" in again.out
    assert plan["packing"] == "single"


def test_out_without_replace_is_refused(tmp_path: Path, modelkeep: Run) -> None:
    model = str(digits_dense().save(tmp_path / "dense.safetensors"))
    ran = modelkeep("encrypt", "plan", model, "--out", str(tmp_path / "x.pt2"))
    assert ran.code != 0
    assert "--replace" in ran.err
