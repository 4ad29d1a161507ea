"""Draw: which earlier pass a check looks at, chosen by all parties together and by none of them alone.

Each party draws a secret and gives its SHA-256 as the nonce of its consent. When all consents are there, each one shows
its secret with its intent. So no party can choose its secret after it has seen another one's; it can only break the
check off, which stays in every account.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from modelkeep.core.errors import GovernError, WireError
from modelkeep.core.signing import canonical
from modelkeep.govern.consent.policy import USES
from modelkeep.govern.ledger.ledger import Ledger
from modelkeep.govern.passes import Consent


def hide(secret: str) -> str:
    """By what a party is bound to its secret before it shows it.

    >>> hide("a")[:8]
    'ca978112'
    """
    return sha256(secret.encode()).hexdigest()


def join_secrets(consents: Sequence[Consent], secrets: Mapping[str, Any]) -> str:
    """What all secrets give together, each of which must be the one that its party is bound to."""
    for consent in consents:
        secret = secrets.get(consent.party)
        if not isinstance(secret, str) or hide(secret) != consent.nonce:
            raise WireError(f"'{consent.party}' shows another secret than the one that it was bound to.")
    return sha256(canonical({consent.party: secrets[consent.party] for consent in consents})).hexdigest()


def draw(joined: str, ledger: Ledger, number: int, most: int) -> int:
    """One of the last `most` passes before `number` in which the model was used, each as likely as the others."""
    last = [entry.of for entry in ledger.entries(max(0, number - most)) if entry.number < number]
    used = [of.number for of in last if of.purpose in USES]
    if not used:
        raise GovernError(f"There is no pass among the last {most} that could be checked.")
    return used[int(joined, 16) % len(used)]  # 2**256 is so large that the remainder favours none
