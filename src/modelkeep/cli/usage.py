"""What Typer says of a wrong option, verb or value, in our words and with the nearest that there is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import typer

from modelkeep.core.errors import did_you_mean

# Typer's error of a wrong option or value. It has no public name, but this public one is a kind of it.
UsageError: Any = typer.BadParameter.__bases__[0]
_CHOICES = re.compile(r"'(?P<got>[^']*)' is not one of (?P<choices>.+?)\.?$")
_COMMAND = re.compile(r"^No such command '(?P<got>[^']*)'")
_INPUT = re.compile(r"(?:Value error, |Input should be )")
_OURS = {"greater than or equal to": "at least", "less than or equal to": "at most", "greater than": "above",
         "less than": "below", "a valid integer": "a whole number", "a valid number": "a number"}  # fmt: skip


def explain_usage(error: Any, given: Sequence[str]) -> str:
    """The sentences for a usage error of a command with the arguments `given`; empty where help was printed instead."""
    message: str = error.format_message()
    context = error.ctx
    if not message or type(error).__name__ == "NoArgsIsHelpError":
        return ""
    if option := getattr(error, "option_name", ""):
        message = _wrong_option(option, message, context)
    elif (command := _COMMAND.match(message)) is not None:
        message = _wrong_command(command["got"], context)
    elif getattr(error, "param", None) is not None and message.startswith("Invalid value"):
        message = _wrong_value(error.param, error.message, given)
    path = context.command_path if context is not None else "modelkeep"
    return f"{message}{'' if message[-1] in '.?' else '.'} See {path} --help."


def _wrong_option(option: str, message: str, context: Any) -> str:
    if not message.startswith("No such option"):
        return message
    parameters = [each for each in context.command.get_params(context) if not getattr(each, "hidden", False)]
    known = {name.lstrip("-"): name for each in parameters for name in each.opts if name.startswith("--")}
    meant = did_you_mean(option.lstrip("-"), known)
    return f"There is no option {option}." + re.sub(r"'([^']*)'", r"--\1", meant)


def _wrong_command(name: str, context: Any) -> str:
    known = [*context.command.list_commands(context), *getattr(context.command, "further_names", tuple)()]
    return f"There is no command '{name}'.{did_you_mean(name, known)}"


def _wrong_value(parameter: Any, message: str, given: Sequence[str]) -> str:
    """Such as "--norm must be one of linf, l2. Got 'lnf'. Did you mean 'linf'?"."""
    called = parameter.opts[0] if parameter.param_type_name == "option" else str(parameter.name).upper()
    choice = _CHOICES.search(message)
    if choice is not None:
        choices = re.findall(r"'([^']*)'", choice["choices"])
        meant = did_you_mean(choice["got"], choices)
        return f"{called} must be one of {', '.join(choices)}. Got '{choice['got']}'.{meant}"
    allowed = _INPUT.split(message)[-1].rstrip(".").partition(", unable")[0]
    if allowed == message.rstrip("."):
        return f"{called}: {message}"
    value = next((text for option, text in given_options(given).items() if option in parameter.opts), None)
    for words, ours in _OURS.items():
        allowed = allowed.replace(words, ours)
    return f"{called} must be {allowed}." + (f" Got '{value}'." if value is not None else "")


def given_options(arguments: Sequence[str]) -> dict[str, str]:
    """The options among the arguments, each with the text after it.

    >>> given_options(["attack", "model.onnx", "--radius", "0.1", "--norm=l2"])
    {'--radius': '0.1', '--norm': 'l2'}
    """
    found: dict[str, str] = {}
    for place, argument in enumerate(arguments):
        option, equals, value = argument.partition("=")
        if option.startswith("--"):
            found[option] = value if equals else next(iter(arguments[place + 1 :]), "")
    return found
