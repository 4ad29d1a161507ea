"""Key changes in a party's folder: to ask for one, to consent to one, and to take it in. Nothing runs meanwhile."""

from __future__ import annotations

from modelkeep.core.errors import GovernError
from modelkeep.govern.agreement.key_change import KeyChange, Kind
from modelkeep.govern.agreement.key_history import KeyHistory
from modelkeep.govern.folder import Folder
from modelkeep.govern.identity import Identity, PublicIdentity
from modelkeep.govern.ledger.ledger import Ledger


def ask_for_change(
    folder: Folder, kind: Kind, *, party: str = "", new: PublicIdentity | None = None, reason: str = ""
) -> KeyChange:
    """A change that the party of this folder asks for, with its signature, and its consent unless it signs last.

    Args:
        folder: Whose request it is.
        kind: "rotate" and "leave" are about the asker itself, "replace" and "revoke" about another party.
        party: The other party.
        new: The new key, for "rotate" and "replace".
        reason: Why, for the others and for the ledgers.
    """
    with folder.lock():
        identity, history = folder.identity(), folder.key_history()
        history.require_member(identity)
        about = party or identity.name
        if new is not None and new.name != about:
            raise GovernError(f"The new key is of '{new.name}', not of '{about}'.")
        with Ledger(folder.ledger, identity.name, identity.signer) as ledger:
            passes = ledger.length if kind == "leave" else ledger.committed  # the last one may be committed elsewhere
        change = KeyChange(
            agreement=history.agreement.fingerprint,
            number=len(history.changes),
            previous=history.changes[-1].digest if history.changes else "",
            kind=kind,
            party=about,
            old_key=history.current.get(about, ""),
            new_key="" if new is None else new.public_key,
            passes=passes,
            asker=identity.name,
            reason=reason,
            proof="" if new is None else new.proof,
        ).ask(identity.signer)
        history.require_next(change)
        if kind == "leave" or change.required(history.names)[0] != identity.name:
            change = _consent(folder, identity, history, change)
        if not change.missing(history.names):
            _take_in(folder, identity, history, change)
        return change


def sign_change(folder: Folder, change: KeyChange) -> KeyChange:
    """The change with this party's consent, if that is due. When it is complete, this party takes it in at once."""
    with folder.lock():
        history, own = folder.key_history(), folder.public().name
        for before in history.changes:
            if before.digest == change.digest:
                return before  # with all signatures: the file may have been lost when this party took it in
        history.require_next(change)
        following = _read_next(folder, change) if change.party == own and change.kind != "leave" else None
        current = folder.identity() if following is None or change.kind == "rotate" else None  # else it may be lost
        if current is not None and own in change.missing(history.names):
            history.require_member(current)
            _require_turn(own, history, change)
            change = _consent(folder, current, history, change)
        speaker = following or current
        if speaker is not None and not change.missing(history.names):
            _take_in(folder, speaker, history, change)
        return change


def _require_turn(own: str, history: KeyHistory, change: KeyChange) -> None:
    waits_for = [name for name in change.missing(history.names) if name != own]
    if own == change.required(history.names)[0] and waits_for:
        raise GovernError(
            f"'{own}' signs last, so that two key changes cannot both be made. Before it, {', '.join(waits_for)} must: "
            "hand the file to them."
        )


def _consent(folder: Folder, identity: Identity, history: KeyHistory, change: KeyChange) -> KeyChange:
    """Consent, if this party is settled and stands where the change says; who leaves need not be."""
    with Ledger(folder.ledger, identity.name, identity.signer) as ledger:
        settled = ledger.committed == ledger.length and not ledger.attempts.unended()
        if change.kind != "leave" and (not settled or ledger.committed != change.passes):
            open_pass = "" if settled else ", and one is not settled; let the parties meet once more"
            raise GovernError(
                f"The {change}, but '{identity.name}' has {ledger.committed} committed passes{open_pass}. Ask for the "
                "change again when all stand still."
            )
    signed = change.consent(identity.name, identity.signer)
    history.require_next(signed)
    return signed


def _take_in(folder: Folder, identity: Identity, history: KeyHistory, change: KeyChange) -> None:
    """Log the change, and use the new key from now on, if it is about this party."""
    history.follow(change)
    former = [key for key in history.ever(identity.name) if key][-1]  # what has written the ledger until now
    with Ledger(folder.ledger, identity.name, identity.signer, former_key=former) as ledger:
        ledger.take_key_change(change)
        ledger.sync()
    folder.public()  # the next key takes the place of the old one


def _read_next(folder: Folder, change: KeyChange) -> Identity:
    """The identity with the new key, which this party has made; what is revoked is not asked to sign."""
    if not folder.next_identity.is_dir():
        raise GovernError(
            f"The new key of '{change.party}' is not in '{folder.next_identity}'. Make one: modelkeep govern init "
            f"{change.party} --folder {folder.next_identity}"
        )
    following = Identity.read(folder.next_identity)
    if following.name != change.party or (change.new_key and following.public_key != change.new_key):
        raise GovernError(f"The key in '{folder.next_identity}' is not the one that the {change} brings.")
    return following
