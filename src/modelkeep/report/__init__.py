"""The pages that people read: one writer for every verb."""

from __future__ import annotations

from modelkeep.report.attack import AttackReport
from modelkeep.report.bias import Bias, Mitigation, bias
from modelkeep.report.explanations import Explanations, a_few, explanations, usual_quantities
from modelkeep.report.hardening import hardening_verdict
from modelkeep.report.measure import Measure
from modelkeep.report.picture import Picture
from modelkeep.report.writer import (
    render_explanations,
    write_attack,
    write_bias,
    write_explanations,
    write_hardening,
)

__all__ = [
    "AttackReport",
    "Bias",
    "Explanations",
    "Measure",
    "Mitigation",
    "Picture",
    "a_few",
    "bias",
    "explanations",
    "hardening_verdict",
    "render_explanations",
    "usual_quantities",
    "write_attack",
    "write_bias",
    "write_explanations",
    "write_hardening",
]
