"""A verb takes the settings of the chosen method as options, and refuses those that it does not have."""

from __future__ import annotations

import re
from typing import Annotated, Any

import pytest
import torch
import typer
from typer.testing import CliRunner

from modelkeep.cli import method_options
from modelkeep.cli.method_options import make_method, method_command
from modelkeep.core.errors import InputError
from modelkeep.core.method import declare, setting
from modelkeep.core.registry import Declaration


@declare("test", "shake", access="labels")
class Shake:
    """Moves everything a little."""

    radius: float = setting("How far.", above=0)
    steps: int = setting("How often.", default=4, at_least=1)
    norm: str = setting("Which distance.", default="l2", choices=("l2", "linf"))
    wild: bool = setting("Whether in all directions.", default=False)
    target: str | None = setting("The class to reach.", default=None)
    mask: torch.Tensor | None = setting("Where.", default=None)
    batch_size: int = setting("Examples at once.", default=8)


@declare("test", "still", access="labels")
class Still:
    """Moves nothing."""


FOUND = {"shake": Shake, "still": Still}


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    def find(family: str, name: str) -> Declaration:
        if name not in FOUND:
            raise InputError(f"There is no {family} '{name}'.")
        return Declaration(family, name, f"{__name__}:{FOUND[name].__name__}")

    monkeypatch.setattr(method_options, "find", find)
    monkeypatch.setattr(Declaration, "load", lambda self: FOUND[self.name])
    app = typer.Typer()

    @app.command(cls=method_command("test", "still", selectors=("--method", "-m")))
    def run(
        context: typer.Context,
        model: str = "",
        method: Annotated[str, typer.Option("--method", "-m")] = "still",
        batch_size: int | None = None,
    ) -> None:
        """Run it."""
        typer.echo(repr(make_method(context, batch_size=batch_size)))

    return app


def invoke(app: typer.Typer, *arguments: str) -> Any:
    return CliRunner().invoke(app, arguments, catch_exceptions=True)


@pytest.mark.parametrize(
    ("arguments", "made"),
    [
        ("--method shake --radius 0.5", Shake(radius=0.5)),
        ("--model m -m shake --radius 0.5 --steps 2 --norm linf", Shake(radius=0.5, steps=2, norm="linf")),
        (
            "--radius 1 --method=shake --wild --target cat --batch-size 2",
            Shake(radius=1.0, wild=True, target="cat", batch_size=2),
        ),
        ("--model m", Still()),
    ],
)
def test_options_become_settings(app: typer.Typer, arguments: str, made: object) -> None:
    done = invoke(app, *arguments.split())
    assert done.output.strip() == repr(made), done.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--method shake", "The test 'shake' needs --radius: How far."),
        ("--method shake --radius -1", "The 'radius' parameter of Shake must be above 0. Got -1.0 instead."),
        ("--batch-size 3", "The test 'still' takes no batch_size."),
        ("--method tremble", "There is no test 'tremble'."),
    ],
)
def test_what_does_not_fit_is_refused(app: typer.Typer, arguments: str, says: str) -> None:
    done = invoke(app, *arguments.split())
    assert isinstance(done.exception, InputError)
    assert says in str(done.exception)


def test_an_option_of_another_method_is_unknown(app: typer.Typer) -> None:
    done = invoke(app, "--steps", "3")
    assert done.exit_code == 2
    assert "--steps" in done.output


def test_help_shows_the_settings_of_the_method(app: typer.Typer) -> None:
    shown = re.sub(
        r"\s+", " ", re.sub(r"\x1b\[[0-9;]*m|[│╭╮╰╯─]", " ", invoke(app, "--method", "shake", "--help").output)
    )
    assert "Settings of shake" in shown
    assert "How often. (at least 1; default: 4)" in shown
    assert "8/255, or 0.5sd" in shown
    assert "mask" not in shown
    assert "Settings of" not in invoke(app, "--help").output
