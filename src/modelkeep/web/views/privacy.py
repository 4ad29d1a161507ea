"""The view Privacy: drag the false-positive rate along the ROC, and see the records that fall."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse

from modelkeep.core.data import Data
from modelkeep.core.errors import InputError, ModelKeepError
from modelkeep.privacy.records import SHOWN, record_hashes
from modelkeep.web.exhibits import exhibit
from modelkeep.web.instruments import Instruments, instruments_of
from modelkeep.web.membership_curve import FAST, MembershipCurve
from modelkeep.web.pages import show
from modelkeep.web.rasters import THUMB
from modelkeep.web.told import tell, tell_result
from modelkeep.web.workspace import Opened, Workspace

router = APIRouter()


@router.get("/privacy")
def page(request: Request) -> HTMLResponse:
    """The page."""
    return show(request, "privacy.html")


@router.get("/api/privacy/model")
def describe(request: Request, seed: int = 0) -> JSONResponse:
    """The attacks that can be looked at: the fast ones, where the training data is known, and what was stored."""
    opened, instruments = _instruments(request)
    with opened.lock:
        stored = [
            {"name": f"{path}#{each.attack}", "title": f"{each.attack}, stored in {path}", "auc": tell(each.auc)}
            for path, report in instruments.stored().items()
            for each in report.attacks
        ]
        try:
            leak = instruments.leak(seed)
        except ModelKeepError as error:
            return JSONResponse({"fast": [], "stored": stored, "why_not": error.on_command_line({})})
        return JSONResponse(
            {
                "fast": [{"name": name, "title": name} for name in FAST],
                "stored": stored,
                "why_not": "",
                "members": len(leak.members),
                "others": len(leak.others),
                "held": len(leak.held),
            }
        )


@router.get("/api/privacy/curve")
def draw_curve(request: Request, attack: str = FAST[0], seed: int = 0) -> JSONResponse:
    """The ROC of one attack, and the rates of the slider."""
    opened, instruments = _instruments(request)
    with opened.lock:
        curve, _ = _curve(instruments, attack, seed)
        found = curve.found
        n = len(found.members) + len(found.non_members)
        return JSONResponse(
            {
                "attack": found.attack,
                "corners": curve.corners,
                "rates": curve.rates,
                "auc": tell(found.auc),
                "advantage": tell(found.advantage),
                "members": len(found.members),
                "others": len(found.non_members),
                "made": tell_result(found, opened.sources, n=n)
                | {"command": opened.sources.fill(_name_records(found.command))},
            }
        )


@router.get("/api/privacy/at")
def find_fallen(request: Request, rate: float, attack: str = FAST[0], seed: int = 0) -> JSONResponse:
    """The records that fall at one false-positive rate, the surest first."""
    opened, instruments = _instruments(request)
    with opened.lock:
        curve, members = _curve(instruments, attack, seed)
        found = curve.at(rate)
        rows = [record.row for record in found.records]
        shown = _tell_records(members, rows) if members is not None else [{"row": row} for row in rows]
        return JSONResponse(
            {
                **{name: tell(value) for name, value in vars(found).items() if name != "records"},
                "sentence": found.sentence,
                "records": [
                    each | {"score": record.score, "as_high": record.as_high}
                    for each, record in zip(shown, found.records, strict=True)
                ],
            }
        )


def _tell_records(members: Data, rows: list[int]) -> list[dict[str, Any]]:
    hashes = record_hashes(members.take(rows)) if rows else []
    return [
        {
            "row": row,
            "hash": digest[:SHOWN],
            "label": members.classes[int(members.y[row])],
            "exhibit": tell(exhibit(members, row, THUMB)),
        }
        for row, digest in zip(rows, hashes, strict=True)
    ]


def _curve(instruments: Instruments, attack: str, seed: int) -> tuple[MembershipCurve, Data | None]:
    """The curve of an attack by its name, and the members where they are known."""
    if "#" not in attack:
        leak = instruments.leak(seed)
        return leak.curve(attack), leak.members
    path, _, name = attack.partition("#")
    report = instruments.stored().get(path)
    found = next((each for each in report.attacks if each.attack == name), None) if report is not None else None
    if found is None:
        raise InputError(f"There is no stored attack '{attack}' on this model any more. Choose another one.")
    return MembershipCurve(found), None


def _name_records(command: str) -> str:
    """The command with the places of our own data."""
    return command.replace("NON_MEMBERS", "DATA").replace("MEMBERS", "TRAIN")


def _instruments(request: Request) -> tuple[Opened, Instruments]:
    workspace: Workspace = request.app.state.workspace
    opened = workspace.require_opened()
    return opened, instruments_of(workspace, opened)
