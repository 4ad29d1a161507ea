"""Problems: what could not be done, as a sentence, on a page or as JSON."""

from __future__ import annotations

import logging
from typing import Any

from modelkeep.core.errors import MissingExtra, ModelKeepError
from modelkeep.web.pages import show

try:
    from fastapi import FastAPI, Request, Response
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse
    from starlette.exceptions import HTTPException
except ImportError as missing:
    raise MissingExtra("ui", "fastapi", "modelkeep ui") from missing

_log = logging.getLogger(__name__)
_WORDS = {404: "There is no such page.", 405: "That address cannot be asked in this way."}


class Problem(ModelKeepError):
    """Something that cannot be done, with the status of HTTP that says so."""

    def __init__(self, status: int, sentence: str) -> None:
        self.status = status
        super().__init__(sentence)


def problem_response(request: Request, problem: Problem) -> Response:
    """The sentence as JSON for a script, as a page for a person."""
    if request.url.path.startswith("/api/"):
        return JSONResponse({"error": str(problem)}, problem.status)
    return show(request, "problem.html", problem.status, sentence=str(problem))


def add_problem_handlers(app: FastAPI) -> None:
    """Answer every error of the application with a sentence."""

    def answer(request: Request, error: Exception) -> Response:
        return problem_response(request, _problem_of(error))

    for kind in (ModelKeepError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, answer)


def _problem_of(error: Exception) -> Problem:
    if isinstance(error, Problem):
        return error
    if isinstance(error, ModelKeepError):
        return Problem(400, error.on_command_line({}))
    if isinstance(error, RequestValidationError):
        return Problem(422, _name_fields(error.errors()))
    assert isinstance(error, HTTPException)
    return Problem(error.status_code, _WORDS.get(error.status_code, f"{error.detail}"))


def describe_failure(error: Exception) -> Problem:
    """What is said of an error that nobody foresaw; the terminal has its traceback."""
    _log.error("A request failed.", exc_info=error)
    told = " ".join(str(error).split())[:300]
    return Problem(500, f"An unexpected {type(error).__name__}: {told}. The terminal of `modelkeep ui` shows where.")


def _name_fields(errors: Any) -> str:
    """Such as "radius: Input should be greater than 0."."""
    return " ".join(f"{each['loc'][-1]}: {each['msg']}." for each in errors)
