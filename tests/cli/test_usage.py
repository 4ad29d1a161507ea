"""What was mistyped is named with the nearest that there is."""

from __future__ import annotations

from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from cli.running import Run
from modelkeep import __version__


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("atack", "There is no command 'atack'. Did you mean 'attack'?"),
        ("certify verfy", "There is no command 'verfy'. Did you mean 'verify'?"),
        ("study plastizity", "Did you mean 'plasticity'"),
        ("harden --epoch 3", "There is no option --epoch. Did you mean --epochs?"),
        ("harden --norm linff", "--norm must be one of linf, l2, l1. Got 'linff'. Did you mean 'linf'?"),
        ("harden --epochs 0", "--epochs must be at least 1. Got '0'."),
        ("harden --epochs=many", "--epochs must be a whole number. Got 'many'."),
        ("audit", "Missing argument"),
        ("attack --method pdg", "There is no attack 'pdg'. Did you mean 'pgd'"),
        ("methods atack", "There is no family 'atack'. Did you mean 'attack'?"),
    ],
)
def test_what_was_mistyped_is_named_with_the_nearest(modelkeep: Run, arguments: str, says: str) -> None:
    ran = modelkeep(*arguments.split())
    assert ran.code == 2
    assert ran.err.startswith("modelkeep: ")
    assert says in ran.err


def test_the_version_can_be_asked_for_in_both_ways(modelkeep: Run) -> None:
    assert modelkeep("--version").out.strip() == modelkeep("version").out.strip() == __version__


def test_without_a_verb_the_help_is_printed_and_nothing_else(modelkeep: Run) -> None:
    ran = modelkeep()
    assert "Usage: modelkeep" in ran.out
    assert ran.err == ""


def test_remedies_are_options_and_not_keywords_of_python(modelkeep: Run, digits_model: Path, tmp_path: Path) -> None:
    (tmp_path / "gaps.csv").write_text("age,weight,label\n1,2,a\n,3,b\n4,5,a\n")
    ran = modelkeep("data", "show", "gaps.csv")
    assert ran.code == 4
    assert "--missing indicate keeps the rows" in ran.err
    assert "missing='" not in ran.err
    ran = modelkeep("explain", digits_model, "--data", "digits", "--slice", "cov1")
    assert ran.code == 2
    assert "Did you mean 'conv1'" in ran.err
    assert "modelkeep explain --list-slices lists all places." in ran.err
    assert "model.slices()" not in ran.err
    ran = modelkeep("explain", digits_model, "--data", "digits", "--why", "nine")
    assert ran.code == 2
    assert "The model has no class 'nine'." in ran.err
    save_file(load_file(digits_model), tmp_path / "bare.safetensors")
    ran = modelkeep("audit", "bare.safetensors", "--data", "digits")
    assert ran.code == 4
    assert "package.module:factory --weights bare.safetensors in place of the file." in ran.err
