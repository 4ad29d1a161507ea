"""Every verb ends with the same exit codes, and says in a sentence what it could not do."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from cli.running import Run
from modelkeep import cli
from modelkeep.cli.ending import ExitCode, run
from modelkeep.core import progress
from modelkeep.core.errors import (
    InputError,
    MissingExtra,
    ModelError,
    PredictionError,
    Remedy,
    StudyError,
    bad_parameter,
)

REMEDY = Remedy("Give input_shape=….", "Give --input-shape.")


def _app(raises: Callable[[], BaseException] | None) -> typer.Typer:
    app = typer.Typer()

    @app.callback()
    def _verbs() -> None: ...

    @app.command()
    def work(radius: float = 1.0) -> None:
        if raises is not None:
            raise raises()

    return app


@pytest.mark.parametrize(
    ("raises", "code", "says"),
    [
        (None, 0, ""),
        (lambda: typer.Exit(ExitCode.GATE), 1, ""),
        (lambda: InputError("The classes differ."), 2, "modelkeep: The classes differ."),
        (lambda: bad_parameter("PGD", "radius", "above 0", -1.0), 2, "modelkeep: --radius must be above 0. Got -1."),
        (lambda: bad_parameter("PGD", "inner_steps", "above 0", 0), 2, "The inner steps must be above 0. Got 0."),
        (lambda: InputError("It is unknown.", remedy=REMEDY), 2, "modelkeep: It is unknown. Give --input-shape."),
        (lambda: typer.Exit(ExitCode.INCONCLUSIVE), 3, ""),
        (lambda: ModelError("It is damaged."), 4, "modelkeep: It is damaged."),
        (lambda: StudyError("1 of 2 trials failed."), 4, "modelkeep: 1 of 2 trials failed."),
        (lambda: PredictionError("It has NaN."), 4, "modelkeep: It has NaN."),
        (lambda: MissingExtra("rl", "minatar", "MinAtar"), 4, "pip install 'modelkeep[rl]'"),
        (lambda: ZeroDivisionError("by\nzero"), 4, "modelkeep: an unexpected ZeroDivisionError: by zero. The trace"),
        (lambda: PermissionError(13, "Permission denied", "out"), 4, "modelkeep: 'out': Permission denied."),
        (KeyboardInterrupt, 130, "modelkeep: stopped; what was finished is kept."),
    ],
)
def test_each_end_has_its_code_and_its_sentence(
    raises: Callable[[], BaseException] | None, code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(_app(raises), ["work", "--radius", "-1"]) == code
    said = capsys.readouterr()
    assert says in said.err
    assert bool(says) == bool(said.err)
    assert "Traceback" not in said.err
    assert said.out == ""


def test_the_traceback_of_the_unexpected_is_in_a_file_and_with_debug_on_the_screen(
    capsys: pytest.CaptureFixture[str],
) -> None:
    app = _app(lambda: ZeroDivisionError("a secret of numbers"))
    assert run(app, ["work"]) == 4
    (file,) = re.findall(r"The traceback is in (\S+);", capsys.readouterr().err)
    kept = Path(file)
    assert "in work" in kept.read_text()
    assert kept.stat().st_mode & 0o077 == 0  # it may show what the data is
    kept.unlink()
    for arguments in (["--debug", "work"], ["work", "--debug"]):
        assert run(app, arguments) == 4
        assert "Traceback (most recent call last)" in capsys.readouterr().err


def _verbs(command: object, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    below = getattr(command, "commands", None)
    if below is None:
        return [path]
    return [found for name, each in below.items() for found in _verbs(each, (*path, name))]


@pytest.mark.parametrize("verb", _verbs(typer.main.get_command(cli.app)), ids=" ".join)
def test_a_mistyped_option_of_any_verb_is_a_usage_error(modelkeep: Run, verb: tuple[str, ...]) -> None:
    """Also of verbs that would otherwise wait for a client or write a key: nothing is done."""
    ran = modelkeep(*verb, "--hepl")
    assert ran.code == 2
    assert ran.err.startswith("modelkeep: There is no option --hepl. Did you mean --help?")
    assert ran.out == ""


@pytest.mark.parametrize("verb", ["audit", "attack", "explain", "harden", "bias", "complete", "certify", "extract"])
def test_what_is_not_there_could_not_be_done(modelkeep: Run, verb: str) -> None:
    further = {"harden": ["--radius", "1"], "attack": ["--radius", "1"], "certify": ["--radius", "1"]}.get(verb, [])
    ran = modelkeep(verb, "none.safetensors", "--data", "digits", *further)
    assert ran.code == 4
    assert "'none.safetensors'" in ran.err
    ran = modelkeep(verb, "none.safetensors", "--data", "digitz", *further)
    assert ran.code == 2
    assert "There is no dataset 'digitz'. Did you mean 'digits'?" in ran.err


def test_a_page_repeats_the_command_with_what_was_given_for_model_and_data() -> None:
    lines: list[str] = []
    app = _app(None)

    @app.command()
    def look(model: str, data: str = "") -> None:
        lines.append(progress.with_sources("modelkeep look MODEL --data DATA --method MODEL-a"))

    assert run(app, ["look", "my model.onnx", "--data", "digits"]) == ExitCode.DONE
    assert lines == ["modelkeep look 'my model.onnx' --data digits --method MODEL-a"]
    assert progress.with_sources("modelkeep look MODEL") == "modelkeep look MODEL"


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_the_terminal_wrote_for_ctrl_c_is_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    written = _Terminal()
    monkeypatch.setattr("sys.stderr", written)
    assert run(_app(KeyboardInterrupt), ["work"]) == ExitCode.STOPPED
    assert written.getvalue().startswith("\r\x1b[Kmodelkeep: stopped")
