"""Forms and jobs: which commands can be run, the line that a form makes, and how the commands that run stand."""

from __future__ import annotations

import shlex
import time
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, StreamingResponse
from pydantic import BaseModel, Field

from modelkeep.core.errors import ModelKeepError
from modelkeep.web.forms import Form, make_words, show_line
from modelkeep.web.jobs.job import Job
from modelkeep.web.pages import show
from modelkeep.web.stream import watch
from modelkeep.web.workspace import Opened, Workspace

router = APIRouter()
_MOST_SHOWN = 30  # jobs in the list


class Filled(BaseModel):
    """A form that was filled: the values by the names of its fields."""

    verb: str = Field(max_length=100)
    values: dict[str, str | bool | list[str]] = Field(max_length=200)


@router.get("/run")
def page(request: Request, verb: str = "audit") -> HTMLResponse:
    """The page with the form of any command."""
    return show(request, "run.html", verb=verb, verbs=_workspace(request).command_line.verbs)


@router.get("/api/forms")
def verbs(request: Request) -> dict[str, str]:
    """The commands that have a form."""
    return dict(_workspace(request).command_line.verbs)


@router.get("/api/forms/fields")
def fields(request: Request, verb: str) -> dict[str, Any]:
    """The fields of a command with what is known of the open model filled in."""
    workspace = _workspace(request)
    form = workspace.command_line.form(verb, dict(request.query_params))
    return {**asdict(form), "filled": _fill(form, workspace)}


@router.post("/api/forms/line")
def line(request: Request, filled: Filled) -> dict[str, str]:
    """The command that a form stands for by now, or what the command would refuse it for."""
    try:
        return {"line": show_line(_words(_workspace(request), filled)), "wrong": ""}
    except ModelKeepError as error:
        return {"line": "", "wrong": error.on_command_line({})}


@router.post("/api/jobs")
def start(request: Request, filled: Filled) -> dict[str, Any]:
    """Run the command of a form."""
    workspace = _workspace(request)
    return describe(workspace, workspace.jobs.start(_words(workspace, filled)))


@router.get("/api/jobs")
def jobs(request: Request) -> dict[str, Any]:
    """All jobs, the newest first."""
    return list_jobs(_workspace(request))


@router.get("/api/jobs/live")
def live(request: Request) -> StreamingResponse:
    """The same whenever something changed."""
    workspace = _workspace(request)
    return watch(request, lambda: list_jobs(workspace))


@router.get("/api/jobs/{number}")
def job(request: Request, number: int) -> dict[str, Any]:
    """One job, with the end of what it printed."""
    workspace = _workspace(request)
    found = workspace.jobs.find(number)
    return {**describe(workspace, found), "said": workspace.jobs.said(found)}


@router.post("/api/jobs/{number}/cancel")
def cancel(request: Request, number: int) -> dict[str, Any]:
    """Stop a job; what it finished is kept."""
    workspace = _workspace(request)
    return describe(workspace, workspace.jobs.cancel(number))


def list_jobs(workspace: Workspace) -> dict[str, Any]:
    """The newest jobs, and how many run."""
    found = workspace.jobs.all()
    running = sum(job.state == "running" for job in found)
    return {"running": running, "jobs": [describe(workspace, each) for each in found[:_MOST_SHOWN]]}


def describe(workspace: Workspace, job: Job) -> dict[str, Any]:
    """What the pages show of a job."""
    until = job.ended if job.ended is not None else time.time()
    failed = job.state == "failed"
    return {
        "id": job.id,
        "line": job.line,
        "out": job.out,
        "state": job.state,
        "started": job.started,
        "seconds": round(until - job.started),
        "reports": [run.path for run in workspace.runs.below(job.out)] if job.ended is not None else [],
        "tasks": workspace.jobs.progress(job),
        "why": _last_sentence(workspace.jobs.said(job)) if failed else "",
    }


def _last_sentence(said: str) -> str:
    """What a command that failed said at its end."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1].removeprefix("modelkeep: ") if lines else ""


def _words(workspace: Workspace, filled: Filled) -> list[str]:
    chosen = {name: value for name, value in filled.values.items() if isinstance(value, str) and value}
    form = workspace.command_line.form(filled.verb, chosen)
    words = make_words(form, filled.values)
    workspace.command_line.check(words)
    return words


def _fill(form: Form, workspace: Workspace) -> dict[str, str]:
    """What is known already: the open model under its names, and a folder that holds no other run."""
    found = {}
    opened: Opened | None = workspace.opened
    names = {field.name for field in form.fields}
    if opened is not None:
        sources = opened.sources
        known = {"model": sources.model, "target": sources.model, "data": sources.data, "train": sources.train}
        words = shlex.split(sources.options)
        pairs = zip(words[::2], words[1::2], strict=True)  # as `ModelOptions.repeat` writes them
        known |= {option.removeprefix("--").replace("-", "_"): value for option, value in pairs}
        arguments = {field.name for field in form.fields if not field.option}
        known = {name: value for name, value in known.items() if name != "target" or name in arguments}
        found = {name: value for name, value in known.items() if name in names and value}
    if "out" in names:
        found["out"] = str(workspace.free_folder(form.verb))
    if "ledger" in names:
        found["ledger"] = str(workspace.ledger)
    return found


def _workspace(request: Request) -> Workspace:
    found: Workspace = request.app.state.workspace
    return found
