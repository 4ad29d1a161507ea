"""The report of a verification: its checks, the one word that follows, and what the certificate claims."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

Status = Literal["holds", "fails", "open", "not checked"]
Word = Literal["verified", "consistent", "refused"]
EXIT_CODES: Mapping[Word, int] = {"verified": 0, "refused": 1, "consistent": 3}


@dataclass(frozen=True)
class Check:
    """One line of the table. "open": neither shown nor refuted by this verifier's own bounds."""

    name: str
    status: Status
    says: str


@dataclass(frozen=True)
class Report:
    """All checks, what the certificate says, who signed, and how many inputs are certified: as claimed, and as shown.

    `shown` uses the verifier's own constants and nothing that the certificate claims of them.
    """

    checks: tuple[Check, ...]
    signer: str | None = None
    norm: str | None = None
    guarantee: str | None = None
    radius: float | None = None
    examples: int | None = None
    claimed: int | None = None
    shown: int | None = None

    @property
    def word(self) -> Word:
        """*verified*: the signer is the one that was named, and all was computed again from weights and data.

        *consistent*: nothing that was checked fails, but not all could be checked or shown. Otherwise *refused*.
        """
        statuses = {check.status for check in self.checks}
        if "fails" in statuses:
            return "refused"
        return "verified" if statuses == {"holds"} else "consistent"

    @property
    def exit_code(self) -> int:
        """For the command line: 0 verified, 1 refused, 3 consistent."""
        return EXIT_CODES[self.word]

    def to_json(self) -> str:
        return json.dumps({"word": self.word, "verdict": self.verdict, **asdict(self)}, indent=1)

    @property
    def verdict(self) -> str:
        """The word, why, what is claimed, and who claims it."""
        failed = [check.name for check in self.checks if check.status == "fails"]
        if failed:
            return f"REFUSED: {', '.join(failed)}."
        claim = (
            f"{self.guarantee}, {self.norm}, radius {self.radius:g}: {self.claimed} of {self.examples} inputs "
            f"certified. Signed by {self.signer}."
        )
        left = [check.name for check in self.checks if check.status in ("open", "not checked")]
        if left:
            return f"CONSISTENT, not verified; not shown: {', '.join(left)}. It claims: {claim}"
        return f"VERIFIED: {claim}"
