"""The view Explain: an example, a slice, a quantity and a distribution; influence, units and exemplars at once."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse

from modelkeep.web.exhibits import exhibit, top_shares
from modelkeep.web.explorer import DISTRIBUTIONS, OTHERS, Explorer
from modelkeep.web.instruments import instruments_of
from modelkeep.web.network import INPUT
from modelkeep.web.pages import show
from modelkeep.web.rasters import THUMB
from modelkeep.web.told import tell, tell_influence, tell_making
from modelkeep.web.workspace import Opened, Workspace

router = APIRouter()
MOST_THUMBS = 120


@router.get("/explain")
def page(request: Request) -> HTMLResponse:
    """The page."""
    return show(request, "explain.html", distributions={name: told for name, (told, _) in DISTRIBUTIONS.items()})


@router.get("/api/explain/model")
def describe(request: Request) -> JSONResponse:
    """The graph of the network, the examples (errors first), and what can be asked."""
    opened, explorer = _explorer(request)
    with opened.lock:
        return JSONResponse(
            {
                "kind": explorer.kind,
                "classes": list(explorer.model.classes),
                "places": tell(explorer.network),
                "visible": explorer.visible_place,
                "usual": explorer.usual_place,
                "usual_distribution": explorer.usual_distribution,
                "examples": tell(explorer.lookout.lines()),
                "of": len(opened.data),
                "others": OTHERS,
            }
        )


@router.get("/api/explain/thumbs")
def show_thumbs(request: Request, index: Annotated[str, Query(max_length=2000)]) -> JSONResponse:
    """Examples as small pictures, by their numbers with commas between."""
    numbers = [int(each) for each in index.split(",") if each.isdecimal()][:MOST_THUMBS]
    data = _workspace(request).require_opened().data
    return JSONResponse([tell(exhibit(data, i, THUMB)) for i in numbers if i < len(data)])


@router.get("/api/explain/example")
def explain(
    request: Request,
    example: int,
    slice: str,
    why: str = "",
    against: str = "",
    distribution: str = "line",
    seed: int = 0,
) -> JSONResponse:
    """One example explained, with the strongest units of the slice and what activates them in the data."""
    opened, explorer = _explorer(request)
    with opened.lock:
        found = explorer.explain(example, slice, why, against, distribution, seed)
        units = tuple(unit.index for unit in found.units)
        exemplars = explorer.exemplars(slice, units, seed) if units and slice != INPUT else ()
        result = found.at_slice
        probabilities = opened.model.probs(opened.data.rows([example]))[0].cpu()
        return JSONResponse(
            {
                "exhibit": tell(exhibit(opened.data, example)),
                "label": opened.data.classes[int(opened.data.y[example])],
                "answer": tell(top_shares(probabilities, opened.model.classes)),
                "quantity": result.quantity,
                "distribution": result.distribution,
                "value": float(result.values[0]),
                "gap": None if result.gap is None else float(result.gap[0]),
                "of": result.examples,
                "seen": None if found.seen is None else tell_influence(found.seen, explorer.spread),
                "slice": slice,
                "units": tell(found.units),
                "per": found.per,
                "exemplars": [[_thumb(opened, each.index, each.activation) for each in row] for row in exemplars],
                "made": tell_making(
                    result.provenance,
                    opened.sources,
                    n=result.examples,
                    command=explorer.command(example, why, against, slice, distribution, seed),
                    python=result.python,
                    data=f"data.take([{example}])" if result.examples == 1 else "data",
                ),
            }
        )


@router.get("/api/explain/unit")
def explain_unit(
    request: Request, example: int, slice: str, unit: int, distribution: str = "line", seed: int = 0
) -> JSONResponse:
    """What in the example makes one unit of the slice active."""
    opened, explorer = _explorer(request)
    with opened.lock:
        found = explorer.explain_unit(example, slice, unit, distribution, seed)
        return JSONResponse(
            {"quantity": found.quantity, "value": float(found.values[0]), **tell_influence(found, explorer.spread)}
        )


def _thumb(opened: Opened, index: int, activation: float) -> dict[str, Any]:
    return {
        "index": index,
        "label": opened.data.classes[int(opened.data.y[index])],
        "activation": activation,
        "exhibit": tell(exhibit(opened.data, index, THUMB)),
    }


def _workspace(request: Request) -> Workspace:
    workspace: Workspace = request.app.state.workspace
    return workspace


def _explorer(request: Request) -> tuple[Opened, Explorer]:
    workspace = _workspace(request)
    opened = workspace.require_opened()
    with opened.lock:
        return opened, instruments_of(workspace, opened).explorer
