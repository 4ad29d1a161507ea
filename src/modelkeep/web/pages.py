"""Pages: one environment of templates for all views, on the style sheet of the reports."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from modelkeep.core.errors import MissingExtra
from modelkeep.core.version import __version__

try:
    from fastapi import Request
    from fastapi.responses import HTMLResponse
except ImportError as missing:
    raise MissingExtra("ui", "fastapi", "modelkeep ui") from missing

if TYPE_CHECKING:
    import jinja2

LET_IN = "modelkeep.let_in"
"""In the scope of a request that the gate let pass."""


@cache
def environment() -> jinja2.Environment:
    """The templates of the views; those of the reports are there as `report/…`."""
    import jinja2
    from markupsafe import Markup

    made = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [
                jinja2.PackageLoader("modelkeep.web"),
                jinja2.PrefixLoader({"report": jinja2.PackageLoader("modelkeep.report")}),
            ]
        ),
        autoescape=True,  # the names of models, classes and files come from outside
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["inline"] = lambda svg: Markup(svg)  # `Picture.svg` draws and does no more
    return made


def show(request: Request, template: str, status: int = 200, /, **values: Any) -> HTMLResponse:
    """A page: a template with its values and with what all pages show."""
    from modelkeep.web.rail import VIEWS

    # Somebody whom the gate refused is told nothing but why.
    state = request.app.state if request.scope.get(LET_IN) else None
    text = (
        environment()
        .get_template(template)
        .render(
            {
                "views": VIEWS if state is not None else (),
                "path": request.url.path,
                "workspace": getattr(state, "workspace", None),
                "opened": state.workspace.opened if state is not None else None,
                "csrf": getattr(state, "csrf", ""),
                "version": __version__,
                **values,
            }
        )
    )
    return HTMLResponse(text, status)
