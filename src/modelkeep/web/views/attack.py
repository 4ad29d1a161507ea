"""The view Attack: drag the radius; picture, answer, certificate and nearest adversarial example move with it."""

from __future__ import annotations

from typing import Any, cast

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse

from modelkeep.core.norms import Norm
from modelkeep.web.exhibits import exhibit, exhibit_input, feature_names
from modelkeep.web.instruments import instruments_of
from modelkeep.web.pages import show
from modelkeep.web.playground import NORMS, Playground, Position
from modelkeep.web.rasters import make_map
from modelkeep.web.told import naming, tell, tell_result
from modelkeep.web.workspace import Opened, Workspace

router = APIRouter()
_MOST_FEATURES = 12
NORM_NAMES = {
    "l2": "l2: the length of the change",
    "linf": "linf: the largest change of a value",
    "l1": "l1: their sum",
}


@router.get("/attack")
def page(request: Request) -> HTMLResponse:
    """The page."""
    return show(request, "attack.html", norms={norm: NORM_NAMES[norm] for norm in NORMS})


@router.get("/api/attack/model")
def describe(request: Request) -> JSONResponse:
    """The examples, errors first."""
    opened, playground = _playground(request)
    with opened.lock:
        return JSONResponse(
            {
                "kind": playground.kind,
                "classes": list(opened.model.classes),
                "examples": tell(playground.lookout.lines()),
                "of": len(opened.data),
            }
        )


@router.get("/api/attack/trail")
def find_trail(request: Request, example: int, norm: str = "l2", seed: int = 0) -> JSONResponse:
    """The nearest adversarial example, the certificate, and the radii of the slider."""
    opened, playground = _playground(request)
    with opened.lock:
        trail = playground.trail(example, cast(Norm, norm), seed)
        told = {name: tell(value) for name, value in vars(trail).items() if name != "search"}
        return JSONResponse(
            {
                **told,
                "why_not": opened.sources.fill(trail.why_not),
                "exhibit": tell(exhibit(opened.data, example)),
                "made": tell_result(trail.search, opened.sources, n=1, data=f"data.take([{example}])"),
            }
        )


@router.get("/api/attack/at")
def find_position(request: Request, example: int, step: int, norm: str = "l2", seed: int = 0) -> JSONResponse:
    """One position of the slider."""
    opened, playground = _playground(request)
    with opened.lock:
        found = playground.at(example, cast(Norm, norm), step, seed)
        trail = playground.trail(example, cast(Norm, norm), seed)
        result = found.attacked if found.attacked is not None else trail.search
        return JSONResponse(
            {
                "radius": found.radius,
                "state": found.state,
                "distance": found.distance,
                "answer": tell(found.answer),
                "sentence": found.sentence,
                "asked": found.attacked is not None,
                **_tell_change(opened, playground, trail.search.original[0], found),
                "made": tell_result(result, opened.sources, n=1, data=f"data.take([{example}])"),
            }
        )


def _tell_change(opened: Opened, playground: Playground, original: Any, found: Position) -> dict[str, Any]:
    """The input that is shown and its change: as pictures, or as the features that changed most by their spread."""
    change = found.shown - original
    if playground.kind == "picture":
        return {"shown": tell(exhibit_input(opened.data, found.shown)), "change": tell(make_map(change.sum(dim=0)))}
    if playground.kind != "table":
        return {}
    names, spread = feature_names(opened.data), playground.lookout.data.x.std(dim=0).clamp_min(1e-12)
    order = (change / spread).abs().argsort(descending=True, stable=True)[:_MOST_FEATURES].tolist()
    return {
        "features": [(names[i], float(original[i]), float(found.shown[i]), float(change[i] / spread[i])) for i in order]
    }


def _playground(request: Request) -> tuple[Opened, Playground]:
    workspace: Workspace = request.app.state.workspace
    opened = workspace.require_opened()
    with opened.lock, naming(opened.sources):
        return opened, instruments_of(workspace, opened).playground
