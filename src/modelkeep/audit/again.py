"""Again: the command and the Python line that run one check alone, for findings that have none of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace

from modelkeep.audit.findings import Section
from modelkeep.core.method import python_of

_DEFAULTS = {"examples": 256, "steps": 40, "slice": None, "attack": None, "cut": None}  # of the command line


def repeatable(section: Section, name: str, check: Callable[..., Section], seed: int) -> Section:
    """The section of the check `name`, each finding of which says how to measure it again."""
    python = f"{python_of(check)}(model, data, seed={seed})" if is_dataclass(check) else ""
    told = {each.name: getattr(check, each.name) for each in fields(check)} if is_dataclass(check) else {}
    given = [f"--{key} {told[key]}" for key, usual in _DEFAULTS.items() if key in told and told[key] != usual]
    train = ["--train TRAIN"] if told.get("train") is not None else []
    command = " ".join(["modelkeep audit MODEL --data DATA", *train, f"--check {name}", *given, f"--seed {seed}"])
    findings = tuple(
        replace(each, command=each.command or command, python=each.python or python) for each in section.findings
    )
    return replace(section, findings=findings, check=name)
