"""The page of a certification: of how many inputs it is proved that no small change matters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from modelkeep.core import plots
from modelkeep.core.results import Estimate, Provenance, Result
from modelkeep.core.version import __version__
from modelkeep.report.measure import percent
from modelkeep.report.page import Card, Page
from modelkeep.report.plain import plain_page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from modelkeep.certify.schema import Certificate

_POINTS = 50  # of the curve


@dataclass(frozen=True, kw_only=True, eq=False)
class CertificateReport(Result, kind="certificate-report"):
    """What a certificate says, in figures. `radii` are those below which nothing changes; None has no limit."""

    norm: str
    radius: float
    guarantee: str
    certified: Estimate
    verified: Estimate | None
    radii: tuple[float | None, ...]

    @classmethod
    def of(cls, made: Certificate, seed: int) -> CertificateReport:
        """The figures of a certificate."""
        summary, promise = made.summary, made.guarantee
        return cls(
            provenance=Provenance(None, None, seed, 0.0, __version__),
            norm=made.norm,
            radius=made.radius,
            guarantee=promise.kind if promise.k is None else f"top-{promise.k}",
            certified=Estimate.rate(summary.certified, summary.examples),
            verified=summary.verified_accuracy,
            radii=tuple(example.radius for example in made.inputs),
        )

    def rows(self) -> list[tuple[str, str]]:
        finite = sorted(radius for radius in self.radii if radius is not None)
        return [
            ("guarantee", f"{self.guarantee}, {self.norm}, radius {self.radius:.4g}"),
            ("certified", str(self.certified)),
            ("verified accuracy", "unknown: the data has no labels" if self.verified is None else str(self.verified)),
            ("median radius", f"{finite[len(finite) // 2]:.4g}" if finite else "no limit"),
        ]

    def draw(self) -> Figure:
        """The share of inputs that are certified, against the radius."""
        finite = [radius for radius in self.radii if radius is not None]
        steps = [max([self.radius, *finite]) * step / _POINTS for step in range(_POINTS + 1)]
        shares = []
        for least in steps:
            held = sum(radius is None or radius > least for radius in self.radii)
            shares.append(Estimate.rate(held, len(self.radii)))
        return plots.curve(
            steps, {self.guarantee: shares}, x_label=f"radius, {self.norm}", y_label="share of inputs certified"
        )


def certification_page(found: Result, *, model_name: str, data_name: str) -> Page:
    """The page of a certificate, or of the result of any method that certifies."""
    if isinstance(found, CertificateReport):
        verdict = (
            f"For {percent(found.certified.value)} of {found.certified.n} inputs it is proved that no change within "
            f"{found.radius:g} in {found.norm} matters."
        )
        cards = [Card.of_share("certified", found.certified)]
        if found.verified is not None:
            cards.append(Card.of_share("right, and certified", found.verified))
    else:
        label, value = found.rows()[0]
        verdict, cards = f"{label}: {value}. All figures are below.", []
    return plain_page(
        found,
        title=f"What is proved about {model_name} on {data_name}",
        verdict=verdict,
        cards=tuple(cards),
        shows="The share of the inputs that are certified, against the radius. The band is the 95 % interval.",
    )
