"""Each finding says how to measure it again, unless it says so itself."""

from __future__ import annotations

from modelkeep.audit import Finding, Section
from modelkeep.audit.again import repeatable
from modelkeep.audit.certification import CheckCertification


def test_a_finding_without_a_command_gets_that_of_its_check() -> None:
    one = Finding("a.one", "low", "One", "1", "", "")
    two = Finding("a.two", "low", "Two", "2", "", "", command="modelkeep attack MODEL --data DATA")
    section = repeatable(
        Section("A", "", findings=(one, two)), "certification", CheckCertification(examples=20), seed=3
    )
    assert section.check == "certification"
    first, second = section.findings
    assert first.command == "modelkeep audit MODEL --data DATA --check certification --examples 20 --seed 3"
    assert first.python == "CheckCertification(examples=20)(model, data, seed=3)"
    assert second.command == "modelkeep attack MODEL --data DATA"
