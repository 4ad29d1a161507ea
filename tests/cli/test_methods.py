"""`modelkeep methods` lists what the registry knows."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from modelkeep.cli import app
from modelkeep.core.errors import InputError
from modelkeep.core.registry import declarations, families


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["methods", *arguments])
    if done.exception is not None:
        raise done.exception
    return done.output


def test_all_families_are_listed() -> None:
    listed = json.loads(run("--json"))
    assert [(each["family"], each["name"]) for each in listed] == [
        (family, name) for family in families() for name in declarations(family)
    ]


def test_the_settings_of_a_method_are_shown() -> None:
    (steps,) = [each for each in json.loads(run("attack", "pgd", "--json")) if each["setting"] == "steps"]
    assert steps == {
        "setting": "steps",
        "default": "40",
        "allowed": "at least 1",
        "what it is": "Gradient steps per start.",
    }
    assert "restarts" in run("attack", "pgd")


def test_an_unknown_family_is_refused() -> None:
    with pytest.raises(InputError, match=r"There is no family 'dance'\. Did you mean 'defence'\? There are: "):
        run("dance")
