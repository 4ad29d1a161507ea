"""How every command ends: its exit code, and the one sentence that it says where it could not do what was asked."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from enum import IntEnum
from itertools import pairwise
from pathlib import Path

import typer

from modelkeep.cli.usage import UsageError, explain_usage, given_options
from modelkeep.cli.vocabulary import rename_old_options
from modelkeep.core import progress
from modelkeep.core.errors import InputError, ModelKeepError, PredictionError

_CLEAR = "\r\x1b[K"  # of the line on which the terminal wrote ^C


class ExitCode(IntEnum):
    """The exit codes of all verbs, for scripts and CI."""

    DONE = 0
    GATE = 1
    USAGE = 2
    INCONCLUSIVE = 3
    FAILED = 4
    STOPPED = 130


def run(app: typer.Typer, arguments: Sequence[str]) -> int:
    """Run a command to its end; say in a sentence what went wrong, and return the exit code.

    `--debug`, anywhere among the arguments, shows the traceback of every error.
    """
    given = rename_old_options([each for each in arguments if each != "--debug"])
    command = typer.main.get_command(app)
    try:
        # Not `app()`, which makes exit codes and boxes of its own.
        with progress.command(_sources(given)), command.make_context("modelkeep", given) as context:
            command.invoke(context)
        return ExitCode.DONE
    except typer.Exit as left:
        return left.exit_code
    except (KeyboardInterrupt, typer.Abort, EOFError):
        if sys.stderr.isatty():
            sys.stderr.write(_CLEAR)
        _say("stopped; what was finished is kept.", colour=None)
        return ExitCode.STOPPED
    except Exception as error:
        if "--debug" in arguments:
            traceback.print_exc()
        return _refuse(error, given)


def _sources(given: Sequence[str]) -> dict[str, str]:
    """What was given for MODEL, the first argument of a verb, and for --data."""
    sources = {}
    first = next((each for each in given[1:] if each != "model"), "-")  # of `modelkeep certify model MODEL`
    if not first.startswith("-"):
        sources["MODEL"] = first
    for option, value in pairwise(given):
        if option == "--data":
            sources["DATA"] = value
    return sources


def _refuse(error: Exception, given: Sequence[str]) -> ExitCode:
    """Say what was wrong, and which exit code that is."""
    if isinstance(error, UsageError):
        if told := explain_usage(error, given):
            _say(told)
        return ExitCode.USAGE
    if isinstance(error, ModelKeepError):
        _say(error.on_command_line(given_options(given)))
        # A prediction that is not one came from a model, not from the person who asked.
        usage = isinstance(error, InputError) and not isinstance(error, PredictionError)
        return ExitCode.USAGE if usage else ExitCode.FAILED
    if isinstance(error, BrokenPipeError):  # `modelkeep methods | head`: the interpreter would flush once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.FAILED
    if isinstance(error, OSError) and error.strerror and error.filename:
        _say(f"'{error.filename}': {error.strerror}.{_kept_traceback(error)}")
        return ExitCode.FAILED
    told = " ".join(str(error).split())[:300].rstrip(".")
    _say(f"an unexpected {type(error).__name__}{': ' if told else ''}{told}.{_kept_traceback(error)}")
    return ExitCode.FAILED


def _kept_traceback(error: Exception) -> str:
    """The sentence that says where the traceback is."""
    try:
        with tempfile.NamedTemporaryFile("w", prefix="modelkeep-", suffix=".txt", delete=False) as file:
            traceback.print_exception(error, file=file)
    except OSError:  # no room for it
        return " --debug prints the traceback."
    return f" The traceback is in {Path(file.name)}; --debug prints it."


def _say(text: str, colour: str | None = "red") -> None:
    typer.secho(f"modelkeep: {text}", fg=colour, err=True)
