"""An audit of a text model exchanges words, names the strongest, and says what it leaves out."""

from __future__ import annotations

from modelkeep.audit import audit
from texts import sentences, sentiment


def test_an_audit_of_texts() -> None:
    model = sentiment()
    found = audit(model, sentences(model), seed=0)
    (fooled,) = (section for section in found.sections if section.title == "Can it be fooled?")
    assert fooled.measures[0].estimate.value < 1
    assert fooled.findings[0].severity == "unclear"  # five texts are too few for a claim
    leads = " ".join(section.lead for section in found.sections)
    assert "Not done: it bounds what a small change of each number does" in leads
    assert "great +" in leads
