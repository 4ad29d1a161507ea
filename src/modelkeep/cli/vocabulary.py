"""Options that had another name before: they still work, and say the new one."""

from __future__ import annotations

from collections.abc import Sequence

import typer

_OLD = {
    "audit": {"--minutes": "--budget", "--train-data": "--train"},
    "attack": {"--eps": "--radius", "--attack": "--method"},
    "extract": {"--attack": "--method"},
    "govern advise": {"--batch": "--batch-size"},
    "harden": {"--eps": "--radius"},
    "privacy": {"--attack": "--method"},
    "study export": {"--output": "--out"},
}


def rename_old_options(arguments: Sequence[str]) -> list[str]:
    """The arguments with the names of today.

    >>> rename_old_options(["attack", "model.onnx", "--eps=0.1"])
    ['attack', 'model.onnx', '--radius=0.1']
    """
    verb = [each for each in arguments if not each.startswith("-")][:2]
    renamed = _OLD.get(" ".join(verb), _OLD.get(verb[0] if verb else "", {}))
    found = []
    for argument in arguments:
        option, equals, value = argument.partition("=")
        if option in renamed:
            typer.echo(f"modelkeep: {option} is now called {renamed[option]}.", err=True)
        found.append(f"{renamed.get(option, option)}{equals}{value}")
    return found
