"""Rail: the views in the order of the left rail, and all routes of the application."""

from __future__ import annotations

from dataclasses import dataclass

from modelkeep.web.views import (
    attack,
    compare,
    explain,
    guard,
    jobs,
    opening,
    overview,
    parties,
    privacy,
    prove,
    reports,
    studies,
)


@dataclass(frozen=True)
class View:
    """A view as the rail shows it; `icon` names a picture in `icons.html`."""

    label: str
    path: str
    icon: str


VIEWS = (
    View("Overview", "/", "overview"),
    View("Explain", "/explain", "explain"),
    View("Attack", "/attack", "attack"),
    View("Prove", "/prove", "prove"),
    View("Privacy", "/privacy", "privacy"),
    View("Guard", "/guard", "guard"),
    View("Parties", "/parties", "parties"),
    View("Studies", "/studies", "studies"),
    View("Compare", "/compare", "compare"),
)
ROUTERS = tuple(
    each.router
    for each in (overview, explain, attack, prove, privacy, guard, parties, studies, compare, opening, jobs, reports)
)
