"""A finding's remedy is a command that can run as it is, writes to its own folder, and is refused where it cannot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from modelkeep.audit import Audit, Finding, Section
from modelkeep.audit.remedies import find_finding, find_remedy
from modelkeep.audit.sources import Sources
from modelkeep.core.errors import InputError
from modelkeep.core.results import measured

OUT = Path("fixed")


def _finding(name: str, fix: str) -> Finding:
    return Finding(name, "high", "Title", "Measured.", "Means.", "Do this.", fix=fix)


@pytest.fixture
def audit() -> Audit:
    findings = (
        _finding("robustness.adversarial-examples", "modelkeep harden 'my net.onnx' --data test.npz --radius 0.1"),
        _finding("extraction.easily-stolen", "modelkeep guard init guard.toml"),
        _finding("membership.leaks", "modelkeep train-privately MODEL --data DATA"),
        _finding("accuracy.weak-class", ""),
        _finding("accuracy.other", ""),
    )
    with measured(0) as provenance:
        return Audit(
            provenance=provenance(),
            model_name="m",
            data_name="d",
            description="",
            headline=(),
            sections=(Section("s", "l", findings=findings, check="any"),),
            sources=Sources("my net.onnx", "test.npz", "train.npz"),
        )


def test_a_training_gets_the_training_data_and_a_folder_of_its_own(audit: Audit) -> None:
    remedy = find_remedy(audit, find_finding(audit, "robustness"), OUT)
    assert remedy.command == (
        "modelkeep harden 'my net.onnx' --data test.npz --radius 0.1 --train train.npz --out fixed"
    )
    assert remedy.makes == OUT / "hardened.safetensors"
    without = replace(audit, sources=replace(audit.sources, train=""))
    assert "--train" not in find_remedy(without, find_finding(audit, "robustness"), OUT).words


def test_settings_make_no_model(audit: Audit) -> None:
    remedy = find_remedy(audit, find_finding(audit, "extraction.easily-stolen"), OUT)
    assert (remedy.words, remedy.makes) == (("guard", "init", "guard.toml"), None)


def test_what_cannot_run_is_a_sentence(audit: Audit) -> None:
    with pytest.raises(InputError, match=r"No command mends 'accuracy\.weak-class'\. Do this\."):
        find_remedy(audit, find_finding(audit, "accuracy.weak-class"), OUT)
    with pytest.raises(InputError, match="does not say what MODEL is"):
        find_remedy(audit, find_finding(audit, "membership.leaks"), OUT)
    with pytest.raises(InputError, match=r"no finding 'membership\.leak'\. Did you mean 'membership\.leaks'"):
        find_finding(audit, "membership.leak")
    with pytest.raises(InputError, match="no finding 'accuracy'"):
        find_finding(audit, "accuracy")  # two begin so
