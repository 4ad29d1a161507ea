"""Errors say what was wrong, what was got, what is allowed and what to do next, in one small tree."""

from __future__ import annotations

import inspect
import pickle

import pytest

from modelkeep.core import errors
from modelkeep.core.errors import (
    InputError,
    MissingExtra,
    ModelError,
    ModelKeepError,
    Remedy,
    bad_parameter,
    did_you_mean,
    join_names,
    unknown_class,
)


def test_all_errors_are_of_one_tree() -> None:
    own = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__]
    own.remove(Remedy)
    assert len(own) > 10
    assert all(issubclass(kind, ModelKeepError) for kind in own)


def test_a_parameter_is_refused_in_one_form_of_message() -> None:
    error = bad_parameter("PGD", "steps", "at least 1", 0)
    assert isinstance(error, InputError)
    assert isinstance(error, ValueError)
    assert str(error) == "The 'steps' parameter of PGD must be at least 1. Got 0 instead."


def test_an_unknown_class_is_told_the_nearest() -> None:
    told = str(unknown_class("The model", "catt", ("cat", "dog")))
    assert "'catt'" in told
    assert "Did you mean 'cat'?" in told
    assert told.endswith("Its classes: cat, dog.")


def test_long_lists_of_names_are_cut() -> None:
    assert join_names([]) == ""
    assert join_names(["a"]) == "a"
    shown = join_names([str(i) for i in range(100)], most=3)
    assert shown.startswith("0, 1, 2")
    assert "99" not in shown.split(",")


def test_a_missing_extra_names_what_to_install() -> None:
    error = MissingExtra("guard", "fastapi", "The gateway")
    assert isinstance(error, ImportError)
    assert "modelkeep[guard]" in str(error)
    assert "fastapi" in str(error)


def test_the_command_line_is_told_of_options_and_python_of_parameters() -> None:
    error = bad_parameter("PGD", "batch_size", "at least 1", 0)
    assert error.on_command_line({"--batch-size": "0"}) == "--batch-size must be at least 1. Got 0."
    assert error.on_command_line({"--steps": "3"}) == "The batch size must be at least 1. Got 0."
    remedied = ModelError("It says nothing of its input.", remedy=Remedy("Give input_shape=….", "Give --input-shape."))
    assert str(remedied) == "It says nothing of its input. Give input_shape=…."
    assert remedied.on_command_line({}) == "It says nothing of its input. Give --input-shape."
    assert ModelError("It is damaged.").on_command_line({}) == "It is damaged."


@pytest.mark.parametrize(
    "error",
    [
        InputError("Wrong.", remedy=Remedy("Do this.", "Do --that.")),
        bad_parameter("PGD", "steps", "at least 1", 0),
        MissingExtra("guard", "fastapi", "The gateway"),
    ],
)
def test_an_error_comes_whole_out_of_another_process(error: ModelKeepError) -> None:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - of our own making, as between worker processes
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert copy.on_command_line({"--steps": "0"}) == error.on_command_line({"--steps": "0"})


@pytest.mark.parametrize(
    ("name", "known", "says"),
    [
        ("pdg", ["fgsm", "pgd"], " Did you mean 'pgd'?"),
        ("MNIST", ["mnist"], " Did you mean 'mnist'?"),
        ("cifar10", ["cifar-10", "cifar-100", "circles"], " Did you mean 'cifar-10' or 'cifar-100'?"),
        ("zebra", ["pgd"], ""),
        ("", ["pgd"], ""),
    ],
)
def test_only_near_names_are_suggested(name: str, known: list[str], says: str) -> None:
    assert did_you_mean(name, known) == says
