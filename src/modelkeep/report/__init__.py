"""The pages that people read: one form for every verb."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelkeep.core.lazy import attach

if TYPE_CHECKING:
    from modelkeep.report.attack import AttackReport, attack_page
    from modelkeep.report.bias import Bias, bias_page, measure_bias
    from modelkeep.report.completion import completion_page
    from modelkeep.report.explanations import Explanations, explain_examples, explanations_page
    from modelkeep.report.extraction import extraction_page
    from modelkeep.report.hardening import hardening_page
    from modelkeep.report.measure import Measure
    from modelkeep.report.page import Card, Note, Page, Part, Table
    from modelkeep.report.picture import Picture
    from modelkeep.report.privacy import PrivacyReport, measure_privacy, privacy_page
    from modelkeep.report.private_training import private_training_page

__all__ = [
    "AttackReport",
    "Bias",
    "Card",
    "Explanations",
    "Measure",
    "Note",
    "Page",
    "Part",
    "Picture",
    "PrivacyReport",
    "Table",
    "attack_page",
    "bias_page",
    "completion_page",
    "explain_examples",
    "explanations_page",
    "extraction_page",
    "hardening_page",
    "measure_bias",
    "measure_privacy",
    "privacy_page",
    "private_training_page",
]

# Loaded on first use: the page of an extraction needs the extra 'guard', and the others do without.
if not TYPE_CHECKING:  # a type checker shall know these names and no others
    __getattr__, __dir__ = attach(__name__)
