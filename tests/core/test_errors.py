"""Errors say what was wrong, what was got, what is allowed and what to do next, in one small tree."""

from __future__ import annotations

import inspect

from modelkeep.core import errors
from modelkeep.core.errors import InputError, MissingExtra, ModelKeepError, bad_parameter, join_names, unknown_class


def test_all_errors_are_of_one_tree() -> None:
    own = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__]
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
