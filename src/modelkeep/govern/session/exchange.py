"""Exchange: an agreement and its signatures go from party to party over the wire, before there is a session.

Every party listens; one that has the agreement also calls on the others, and each answers with what it has. Nothing is
signed here: a proposal lies in the folder until a person says `modelkeep govern sign`. A signature is taken over only
if it is under the very document that this party has, so a party to which another one was shown never completes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from modelkeep.core.errors import GovernError, PartyUnavailable
from modelkeep.govern.agreement.agreement import Agreement
from modelkeep.govern.folder import Folder
from modelkeep.govern.identity import Identity, PublicIdentity
from modelkeep.govern.passes import read
from modelkeep.govern.session.messages import answer_question
from modelkeep.govern.wire.connection import Connection
from modelkeep.govern.wire.endpoint import Endpoint
from modelkeep.govern.wire.message import Message
from modelkeep.govern.wire.settings import Wire

_EVERY = 1.0  # seconds between two rounds of calls
_CALL = 10.0  # seconds that a call may take
_LONGEST_IDLE = 60.0  # seconds that another party may stay on a line without a word


def know_parties(folder: Folder, handed: Sequence[Path]) -> dict[str, PublicIdentity]:
    """The parties whose public identities were handed over, now or earlier. A second key for a name is refused."""
    folder.parties.mkdir(exist_ok=True)
    for path in handed:
        party = PublicIdentity.read(path)
        kept = folder.parties / f"{party.name}.party.json"
        if kept.exists() and PublicIdentity.read(kept).public_key != party.public_key:
            raise GovernError(
                f"'{kept}' has another key for '{party.name}' than '{path}'. Compare fingerprints by phone; if the new "
                "one is right, remove the old file."
            )
        party.write(kept)
    found = [PublicIdentity.read(path) for path in sorted(folder.parties.glob("*.party.json"))]
    return {party.name: party for party in found}


class Exchange:
    """One party's side. `tell` is called with each thing that a person should know, once.

    Args:
        folder: The party's folder.
        identity: Who the party is.
        known: The other parties, by their names; nobody else is spoken to.
        tell: Called with a sentence.
    """

    def __init__(
        self, folder: Folder, identity: Identity, known: Mapping[str, PublicIdentity], tell: Callable[[str], None]
    ) -> None:
        self._folder, self._identity, self._tell_once = folder, identity, tell
        self._keys = {name: party.public_key for name, party in known.items() if name != identity.name}
        self._endpoint = Endpoint(identity, self._keys, wire=Wire(deadline=_CALL), on_refused=self._tell)
        self._told: set[str] = set()
        self._complete_at: set[str] = set()
        self._ended = threading.Event()

    def run(self, address: str | None, patience: float) -> Agreement | None:
        """Exchange until all parties have all signatures, for up to `patience` seconds. None: not all are there yet.

        `address` is where to listen; None: where the agreement says.
        """
        agreement = self.agreement()
        if address is None and agreement is None:
            raise GovernError(f"'{self._folder.path}' has no agreement that says where to listen. Say --at HOST:PORT.")
        at = address or (agreement.member(self._identity.name).address if agreement is not None else "")
        listener, until = self._endpoint.listen(at), time.monotonic() + patience
        threading.Thread(target=self._accept, args=(listener.accept,), name="proposals", daemon=True).start()
        try:
            while True:
                agreement = self.agreement()
                if agreement is not None:
                    for member in agreement.parties:
                        if member.name != self._identity.name:
                            self._call(member.name, member.address)
                    if self.is_over():
                        return self.agreement()
                if time.monotonic() > until or self._ended.wait(_EVERY):
                    agreement = self.agreement()
                    return None if agreement is None or missing_signatures(agreement) else agreement
        finally:
            self._ended.set()
            listener.close()

    def stop(self) -> None:
        """End `run`, from another thread."""
        self._ended.set()

    def agreement(self) -> Agreement | None:
        """What lies in the folder now; a person may have signed it meanwhile."""
        return Agreement.read(self._folder.agreement) if self._folder.agreement.exists() else None

    def is_over(self) -> bool:
        """Whether all have all signatures."""
        agreement = self.agreement()
        if agreement is None or missing_signatures(agreement):
            return False
        return self._complete_at >= {member.name for member in agreement.parties} - {self._identity.name}

    def take(self, values: Any, peer: str) -> bool:
        """Look at the agreement that another party shows: keep a proposal for a person, and take signatures over.

        Returns whether that party has all signatures.
        """
        shown = read(Agreement, values)
        shown.require_member(self._identity.public)
        for member in shown.parties:
            known = self._keys.get(member.name)
            if known is not None and member.public_key != known:
                raise GovernError(f"'{peer}' proposes an agreement with another key of '{member.name}' than its own.")
        if peer not in [member.name for member in shown.parties]:
            raise GovernError(f"'{peer}' proposes an agreement to which it is not a party.")
        with self._folder.agreement_lock():
            own = self.agreement()
            if own is None:
                self._keep_proposal(shown, peer)
                return False
            if own.fingerprint != shown.fingerprint:
                raise GovernError(
                    f"'{peer}' shows another agreement ({shown.fingerprint[:12]}…) than the one in this folder "
                    f"({own.fingerprint[:12]}…). Nothing is taken over. Compare the fingerprints by phone."
                )
            merged = own.merge_signatures(shown)
            if merged.signatures != own.signatures:
                merged.write(self._folder.agreement)
                new = sorted(merged.signatures.keys() - own.signatures.keys())
                self._tell(f"The signature of {', '.join(new)} has come.")
        return not missing_signatures(shown)

    def _keep_proposal(self, shown: Agreement, peer: str) -> None:
        path = self._folder.path / f"proposed-{peer}.json"
        if not path.exists() or Agreement.read(path) != shown:
            shown.write(path)
        self._tell(
            f"'{peer}' proposes the agreement '{shown.name}' ({shown.fingerprint[:12]}…). Read it and sign it with: "
            f"modelkeep govern sign {path} --folder {self._folder.path}"
        )

    def _call(self, name: str, address: str) -> None:
        """Show a party what there is, and look at what it has."""
        if name in self._complete_at and not missing_signatures(self._require_agreement()):
            return
        if name not in self._keys:
            self._tell(f"'{name}' is a party to the agreement, but its {name}.party.json was not handed over (--with).")
            return
        try:
            connection = self._endpoint.connect(name, address, _CALL)
        except PartyUnavailable as error:
            self._tell(f"waiting: {error}")
            return
        try:
            told = self._require_agreement()
            connection.send(Message("propose", {"agreement": describe(told), "question": 0}))
            answer = connection.receive(_CALL)
            if answer.header.get("agreement") is not None:
                self._note(name, self.take(answer.header["agreement"], name), told)
        except GovernError as error:
            self._tell(str(error))
        finally:
            connection.close()

    def _accept(self, accept: Callable[[], Connection]) -> None:
        while not self._ended.is_set():
            try:
                connection = accept()
            except GovernError:
                return  # it was closed
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: Connection) -> None:
        """Look at what a party shows, and show it what there is."""
        connection.admits = lambda *tensors: False
        with suppress(PartyUnavailable):
            while (message := connection.receive(_LONGEST_IDLE)) is not None:
                complete = False
                try:
                    if message.kind != "propose":
                        raise GovernError(
                            f"'{connection.peer}' says '{message.kind}', and here agreements are exchanged."
                        )
                    complete = self.take(message.header.get("agreement"), connection.peer)
                except GovernError as error:
                    self._tell(str(error))
                own = self.agreement()
                answer_question(connection, message, {"agreement": None if own is None else describe(own)})
                self._note(connection.peer, complete, own)
        connection.close()

    def _note(self, peer: str, complete: bool, told: Agreement | None) -> None:
        """The exchange with a party is over when both have shown each other all signatures."""
        if complete and told is not None and not missing_signatures(told):
            self._complete_at.add(peer)

    def _require_agreement(self) -> Agreement:
        found = self.agreement()
        assert found is not None
        return found

    def _tell(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._tell_once(text)


def describe(agreement: Agreement) -> dict[str, Any]:
    """The agreement and its signatures as values for a message."""
    values: dict[str, Any] = TypeAdapter(Agreement).dump_python(agreement, mode="json")
    return values


def missing_signatures(agreement: Agreement) -> list[str]:
    """The parties whose signatures are not under it."""
    return [member.name for member in agreement.parties if member.name not in agreement.signatures]
