"""The view Prove: drag the radius; the share that is proved, and the examples that lose their proof, move with it."""

from __future__ import annotations

from typing import cast

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse

from modelkeep.core.norms import Norm
from modelkeep.web.exhibits import exhibit
from modelkeep.web.instruments import instruments_of
from modelkeep.web.pages import show
from modelkeep.web.playground import NORMS, round_up
from modelkeep.web.proofs import Proofs
from modelkeep.web.rasters import THUMB
from modelkeep.web.told import naming, tell, tell_result
from modelkeep.web.views.attack import NORM_NAMES
from modelkeep.web.workspace import Opened, Workspace

router = APIRouter()
STEPS = 100
"""Positions of the slider above 0."""
_SHOWN = 24
_LARGEST = 0.98  # of the radii: the few largest ones would squeeze all others together


@router.get("/prove")
def page(request: Request) -> HTMLResponse:
    """The page."""
    return show(request, "prove.html", norms={norm: NORM_NAMES[norm] for norm in NORMS})


@router.get("/api/prove/model")
def describe(request: Request, norm: str = "l2") -> JSONResponse:
    """The proved share at each radius of the slider, and the bounds that it comes from."""
    opened, proofs = _proofs(request)
    with opened.lock, naming(opened.sources):
        found = proofs.certified(cast(Norm, norm))
        finite = found.radii[found.radii.isfinite()]
        end = round_up(1.1 * float(finite.quantile(_LARGEST))) if len(finite) else 1.0
        radii = [end * step / STEPS for step in range(STEPS + 1)]
        at = [proofs.at(cast(Norm, norm), radius) for radius in radii]
        return JSONResponse(
            {
                "norm": norm,
                "radii": radii,
                "verified": [tell(each.verified) for each in at],
                "clean": tell(at[0].clean),
                "median": tell(float(found.radii.median())),
                "constant": found.bounds.constant,
                "layers": tell(found.bounds.layers),
                "trained_for": None if opened.model.card.guarantee is None else str(opened.model.card.guarantee),
                "made": tell_result(found, opened.sources, n=len(found.radii)),
            }
        )


@router.get("/api/prove/at")
def prove(request: Request, radius: float, norm: str = "l2") -> JSONResponse:
    """What is proved at one radius, and which right answers have lost their proof."""
    opened, proofs = _proofs(request)
    with opened.lock:
        found = proofs.at(cast(Norm, norm), radius)
        lost = [
            {
                "index": i,
                "radius": tell(proofs.radius(i, cast(Norm, norm))),
                "label": opened.data.classes[int(opened.data.y[i])],
                "exhibit": tell(exhibit(opened.data, i, THUMB)),
            }
            for i in found.lost[-_SHOWN:][::-1]
        ]
        command = f"modelkeep certify MODEL --data DATA --radius {radius:.4g} --norm {norm}"
        return JSONResponse(
            {
                "radius": radius,
                "verified": tell(found.verified),
                "certified": tell(found.certified),
                "clean": tell(found.clean),
                "lost": lost,
                "lost_count": len(found.lost),
                "command": opened.sources.fill(command),
            }
        )


def _proofs(request: Request) -> tuple[Opened, Proofs]:
    workspace: Workspace = request.app.state.workspace
    opened = workspace.require_opened()
    with opened.lock:
        return opened, instruments_of(workspace, opened).proofs
