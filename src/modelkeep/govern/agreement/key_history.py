"""KeyHistory: which key of each party speaks at which pass: those of the agreement, and all changes since.

Two changes cannot both take the same place. Of those who must consent, the first by name signs last, when all others
have, and takes the change in with its signature; so it can complete only one of the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from modelkeep.core.errors import GovernError
from modelkeep.govern.agreement.agreement import Agreement
from modelkeep.govern.agreement.key_change import KeyChange
from modelkeep.govern.identity import Identity, PublicIdentity


@dataclass(frozen=True)
class KeyHistory:
    """The keys under one agreement. `changes` are complete: `follow` takes no others in."""

    agreement: Agreement
    changes: tuple[KeyChange, ...] = ()

    @classmethod
    def of(cls, agreement: Agreement, changes: Iterable[KeyChange] = ()) -> KeyHistory:
        """The history after these changes; one that does not follow from those before it is refused."""
        found = cls(agreement)
        for change in changes:
            found = found.follow(change)
        return found

    @property
    def names(self) -> list[str]:
        """All parties."""
        return [member.name for member in self.agreement.parties]

    @property
    def current(self) -> dict[str, str]:
        """The keys that speak now, by party. A party whose key was revoked, or that has left, has none."""
        keys = {name: self.ever(name)[-1] for name in self.names}
        return {name: key for name, key in keys.items() if key}

    def ever(self, party: str) -> list[str]:
        """All keys of the party from the first to the last; "" where it had none."""
        own = [change.new_key for change in self.changes if change.party == party]
        return [self.agreement.member(party).public_key, *own]

    def at_pass(self, party: str, number: int) -> str:
        """The key that speaks for the party in the pass of that number; "" where it has none."""
        keys = [change.new_key for change in self.changes if change.party == party and change.passes <= number]
        return keys[-1] if keys else self.ever(party)[0]

    def until(self, party: str, number: int) -> list[str]:
        """The keys of the party that may speak of the pass of that number, which may run again under a later one."""
        changes = [change for change in self.changes if change.party == party]
        keys = self.ever(party)
        return [key for i, key in enumerate(keys) if i == len(changes) or changes[i].passes > number]

    def require_all(self) -> dict[str, str]:
        """The keys that speak now. Nothing runs while a party has none."""
        for change in self.changes:
            if change.kind == "leave":
                raise GovernError(
                    f"'{change.party}' has left ({change.reason or 'no reason given'}), so nothing runs under the "
                    f"agreement '{self.agreement.name}' any more. The others can make a new agreement without it."
                )
        for name in self.names:
            if name not in self.current:
                raise GovernError(
                    f"The key of '{name}' was revoked, and it has no other one, so nothing runs. Say: modelkeep govern "
                    f"keys replace, when '{name}' has made a new key."
                )
        return self.current

    def require_member(self, identity: Identity | PublicIdentity) -> None:
        """Refuse an identity whose key is not the last that the party had, whether or not it still speaks."""
        last = [key for key in self.ever(identity.name) if key][-1]
        if last != identity.public_key:
            raise GovernError(
                f"The agreement '{self.agreement.name}', with {len(self.changes)} key changes, names another key for "
                f"'{identity.name}' ({last[:16]}…), and not this one ({identity.public_key[:16]}…). Was it drafted "
                f"with an old {identity.name}.party.json?"
            )

    def follow(self, change: KeyChange) -> KeyHistory:
        """The history with one more change, if that has every consent that it needs."""
        self.require_next(change)
        if missing := change.missing(self.names):
            raise GovernError(f"The {change} has not the consent of {', '.join(missing)}.")
        return replace(self, changes=(*self.changes, change))

    def require_next(self, change: KeyChange) -> None:
        """Refuse a change that does not fit here, or that bears a signature of a key which does not speak now."""
        current, place = self.current, (len(self.changes), self.changes[-1].digest if self.changes else "")
        if change.agreement != self.agreement.fingerprint:
            raise GovernError(f"The {change} is of another agreement ({change.agreement[:12]}…).")
        self.agreement.member(change.party)
        if any(before.kind == "leave" for before in self.changes):
            raise GovernError(f"The {change} comes after a party has left. The agreement has ended.")
        if change.kind != "leave" and (change.number, change.previous) != place:  # who leaves waits for no other
            raise GovernError(
                f"The {change} does not follow from the {len(self.changes)} changes before it: it was taken in before, "
                "or another one was meanwhile. Ask for it again."
            )
        if change.old_key != current.get(change.party, ""):
            raise GovernError(f"The {change} is about another key than '{change.party}' has now.")
        if change.passes < max((before.passes for before in self.changes), default=0):
            raise GovernError(f"The {change} takes effect before the change before it.")
        if change.new_key and any(change.new_key in self.ever(name) for name in self.names):
            raise GovernError(f"The {change} brings a key that was used before. Make a new one.")
        self._require_signatures(change)

    def _require_signatures(self, change: KeyChange) -> None:
        current, required = self.current, change.required(self.names)
        if not change.is_asked_with(current.get(change.asker, "")):
            raise GovernError(f"The {change} is not asked for by '{change.asker}': its key has not signed the request.")
        for name in change.consents:
            if name not in required or not change.is_consented_with(name, current.get(name, "")):
                raise GovernError(f"The consent of '{name}' to the {change} is not signed with its key, or not due.")
        last = required[0]
        if last in change.consents and (missing := change.missing(self.names)):
            raise GovernError(f"'{last}' consents last to the {change}, and {', '.join(missing)} must before.")
