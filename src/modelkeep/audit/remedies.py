"""Remedies: the command that mends a finding, and the model that it leaves behind."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from modelkeep.audit.audit import Audit
from modelkeep.audit.findings import Finding
from modelkeep.core.errors import InputError, did_you_mean

# The model that a verb leaves in its --out.
_MAKES = {
    "harden": "hardened.safetensors",
    "certify train": "certified.safetensors",
    "train-privately": "private.safetensors",
    "bias": "mitigated.safetensors",
}
_UNFILLED = re.compile(r"^(MODEL|DATA|TRAIN|…|\.\.\.)$")


@dataclass(frozen=True)
class Remedy:
    """The words of a command after `modelkeep`, and the model's file that it makes; None where it makes settings."""

    words: tuple[str, ...]
    makes: Path | None

    @property
    def command(self) -> str:
        """The command as a shell takes it."""
        return shlex.join(["modelkeep", *self.words])


def find_finding(audit: Audit, name: str) -> Finding:
    """The finding of that id, or the only one whose id begins with it."""
    known = {finding.id: finding for finding in audit.findings}
    if name in known:
        return known[name]
    begin = [each for each in known if each.startswith(f"{name}.")]
    if len(begin) == 1:
        return known[begin[0]]
    meant = did_you_mean(name, known)
    raise InputError(f"The audit has no finding '{name}'.{meant} It has: {', '.join(known) or 'none'}.")


def find_remedy(audit: Audit, finding: Finding, out: Path) -> Remedy:
    """The command that the finding names as its fix, writing to `out`; one without such a command is refused."""
    if not finding.fix:
        raise InputError(f"No command mends '{finding.id}'. {finding.remedy}")
    words = shlex.split(finding.fix)[1:]
    missing = [word for word in words if _UNFILLED.match(word)]
    if missing:
        raise InputError(
            f"The audit does not say what {missing[0]} is: it was made in Python, or without it. Make it again with "
            "`modelkeep audit MODEL --data DATA --train TRAIN`, or run the fix yourself: " + finding.fix
        )
    makes = next((file for verb, file in _MAKES.items() if words[: len(verb.split())] == verb.split()), None)
    if makes is None:
        return Remedy(tuple(words), None)
    if audit.sources.train and "--train" not in words:
        words += ["--train", audit.sources.train]
    return Remedy((*words, "--out", str(out)), out / makes)
