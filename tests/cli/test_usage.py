"""What was mistyped is named with the nearest that there is."""

from __future__ import annotations

import pytest

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
