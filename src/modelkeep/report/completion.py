"""The completion page: one HTML file that says how hard each part of a model is to get back, and what that costs."""

from __future__ import annotations

from pathlib import Path

from modelkeep.completion.hardness import SCRATCH, Hardness
from modelkeep.completion.price import Price
from modelkeep.completion.procedures import PROCEDURES
from modelkeep.core import plots
from modelkeep.report import page
from modelkeep.report.completion_words import answer, duration, strongest_for


def completion_page(
    hardness: Hardness, path: str | Path, price: Price | None = None, *, subject: str = "this model"
) -> Path:
    """Write the page about `subject` to `path`; it needs no other file.

    With a `price`, and where the seconds per step were measured, costs are also told in money.
    """
    bounds = strongest_for(hardness)
    environment = page.environment()
    environment.filters["duration"] = duration
    html = environment.get_template("completion.html").render(
        subject=subject,
        answer=answer(hardness),
        hardness=hardness,
        procedures=[_titled(name) for name in hardness.procedures],
        hardest=bounds[0],
        easiest=bounds[-1],
        seeds=max(len(cell.values) for cell in hardness.cells),
        censored=sum(cell.censored for cell in hardness.cells if cell.alpha == hardness.alphas[-1]),
        runs=sum(cell.runs for cell in hardness.cells if cell.alpha == hardness.alphas[-1]),
        timed=any(bound.seconds is not None for bound in bounds),
        price=price,
        scratch=SCRATCH,
        picture=plots.data_uri(hardness.draw()),
        provenance=hardness.provenance,
    )
    path = Path(path)
    return page.write_files(path.parent, {path.name: html})[0]


def _titled(name: str) -> str:
    """A procedure by its name and what it does, where it is one of ours."""
    return f"{name}: {PROCEDURES[name].title}" if name in PROCEDURES else name
