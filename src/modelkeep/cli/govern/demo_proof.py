"""What `modelkeep govern demo` proves after the training: one party's part is worth nothing, and ledgers do not lie."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from modelkeep import Data
    from modelkeep.govern import Agreement, Folder, Party


@dataclass
class Story:
    """What the demo tells: sentences as they come, and the facts for machines."""

    quiet: bool
    facts: dict[str, Any] = field(default_factory=dict)

    def tell(self, sentence: str, **facts: Any) -> None:
        """Say a sentence."""
        self.facts |= facts
        if not self.quiet:
            typer.echo(sentence)

    def scene(self, title: str) -> None:
        """Begin a part of the story."""
        if not self.quiet:
            typer.secho(f"\n{title}", bold=True)


def worth_alone(agreement: Agreement, folders: dict[str, Folder], test: Data, story: Story) -> None:
    """What Alice has without Bob: her own trained part, and in place of his one that is random."""
    from modelkeep import Estimate
    from modelkeep.govern.piece.checkpoints import Checkpoints

    story.scene("What is Alice's part worth alone?")
    kept = Checkpoints(folders["alice"].checkpoints)
    model = agreement.build()  # Bob's part as the factory makes it
    own = dict(model.module.named_parameters())
    for name, tensor in kept.read(kept.steps()[-1]).part("piece/").items():
        own[name].data.copy_(tensor)
    right = sum(int((model.predict(x) == y).sum()) for x, y in test.batches(512))
    alone = Estimate.rate(right, len(test))
    story.tell(
        f"With a random part in place of Bob's it reads {alone.value:.1%} right; guessing gives "
        f"{1 / len(test.classes):.0%}. As it is, the model is useless without Bob.",
        alone=alone.value,
    )


def cheat(alice: Party, x: Tensor, withdraw: Callable[[], None], story: Story) -> None:
    """Alice changes her software: she keeps a consent of Bob's, and uses it after he has withdrawn."""
    from modelkeep.core.errors import ConsentRefused, GovernError
    from modelkeep.core.fingerprint import fingerprint
    from modelkeep.govern import Pass
    from modelkeep.govern.session.member import RemoteParty
    from modelkeep.govern.session.session_protocol import open_session

    story.scene("Alice changes her software")
    bob, deadline = RemoteParty(alice.links, "bob"), alice.agreement.wire.deadline
    alice.links.dial("bob", deadline)
    open_session(alice.sessions, [bob])
    of = Pass(
        agreement=alice.agreement.fingerprint,
        number=alice.ledger.committed,
        purpose="infer",
        asker="alice",
        source="alice",
        sink="alice",
        step=alice.pieces.step,
        data=fingerprint({"x": x}),
        labels="",
        rows=len(x),
    )
    consents = [alice.passes.consent(of), bob.ask(of).result(deadline)]
    withdraw()
    try:
        bob.begin(of, consents).result(deadline)
    except ConsentRefused as refused:
        told = str(refused)
    else:
        raise GovernError("An old consent of Bob's was good for a pass. This must not be: please report it.")
    story.tell(
        "She asks for Bob's consent to a prediction and keeps it, signed and true. Bob withdraws. Then she begins the "
        f"pass with it. Bob's party answers: {told}",
        old_consent_refused=told,
    )


def audits(agreement: Agreement, folders: dict[str, Folder], place: Path, story: Story) -> None:
    """The ledgers as they are, and after Alice has rewritten hers with her own key."""
    from modelkeep.govern import audit

    story.scene("The audit")
    ledgers = {name: folder.ledger for name, folder in folders.items()}
    found = audit(agreement, ledgers)
    story.tell(
        f"Both ledgers have {found.ledgers[0].entries} passes, each with both consents. Found: {len(found.findings)}.",
        findings=len(found.findings),
        passes=found.ledgers[0].entries,
    )
    forged, number = _forged(folders["alice"], place / "alice-forged.sqlite3")
    found = audit(agreement, {**ledgers, "alice": forged})
    story.tell(
        f"In a copy, Alice now changes what she says to have sent in pass {number}, and signs all entries anew with "
        "her own key. The audit finds:",
        forged_findings=[f"{each.kind}: {each.where}" for each in found.findings],
    )
    for each in found.findings[:3]:
        story.tell(f"  {each.kind} ({each.where}): {each.text}")


def _forged(folder: Folder, path: Path) -> tuple[Path, int]:
    """A copy of a ledger in which one entry in the middle lies, and every entry is signed by its true owner."""
    from dataclasses import replace

    from modelkeep.govern.ledger import Ledger, read_ledger

    identity = folder.identity()
    entries = list(read_ledger(folder.ledger).entries())
    lie = len(entries) // 2
    with Ledger(path, identity.name, identity.signer) as ledger:
        for entry in entries:
            sent = entry.sent
            if entry.number == lie:
                sent = (replace(sent[0], digest="0" * 64), *sent[1:])
            ledger.prepare(entry.of, entry.consents, sent, entry.received, entry.metrics)
            ledger.commit(entry.number)
    return path, lie
