"""Govern: one model with several owners, where every pass needs the consent of them all (papers 000 and 001)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from modelkeep.govern.agreement.agreement import Agreement
    from modelkeep.govern.agreement.draft import draft
    from modelkeep.govern.agreement.terms import Material, Member
    from modelkeep.govern.consent import ConsentState, Policy, Window
    from modelkeep.govern.exposure import Advice, advise, infer_labels, invert
    from modelkeep.govern.folder import Folder
    from modelkeep.govern.identity import Identity, PublicIdentity
    from modelkeep.govern.ledger import Audit, Ledger, audit, open_reading
    from modelkeep.govern.piece.files import assemble, split
    from modelkeep.govern.session.leader import Leader
    from modelkeep.govern.session.member import serve
    from modelkeep.govern.session.party import Party
    from modelkeep.govern.session.passes import Consent, Pass
    from modelkeep.govern.session.runs import Evaluated, Trained, evaluate, infer, train
    from modelkeep.govern.wire.settings import Wire

# Loaded on first use: a person who withdraws consent must not wait for torch.
_HOMES = {
    "Advice": "exposure",
    "Agreement": "agreement.agreement",
    "Audit": "ledger",
    "Consent": "session.passes",
    "ConsentState": "consent",
    "Evaluated": "session.runs",
    "Folder": "folder",
    "Identity": "identity",
    "Leader": "session.leader",
    "Ledger": "ledger",
    "Material": "agreement.terms",
    "Member": "agreement.terms",
    "Party": "session.party",
    "Pass": "session.passes",
    "Policy": "consent",
    "PublicIdentity": "identity",
    "Trained": "session.runs",
    "Window": "consent",
    "Wire": "wire.settings",
    "advise": "exposure",
    "assemble": "piece.files",
    "audit": "ledger",
    "draft": "agreement.draft",
    "evaluate": "session.runs",
    "infer": "session.runs",
    "infer_labels": "exposure",
    "invert": "exposure",
    "open_reading": "ledger",
    "serve": "session.member",
    "split": "piece.files",
    "train": "session.runs",
}

__all__ = [
    "Advice",
    "Agreement",
    "Audit",
    "Consent",
    "ConsentState",
    "Evaluated",
    "Folder",
    "Identity",
    "Leader",
    "Ledger",
    "Material",
    "Member",
    "Party",
    "Pass",
    "Policy",
    "PublicIdentity",
    "Trained",
    "Window",
    "Wire",
    "advise",
    "assemble",
    "audit",
    "draft",
    "evaluate",
    "infer",
    "infer_labels",
    "invert",
    "open_reading",
    "serve",
    "split",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'modelkeep.govern' has no attribute '{name}'")
    return getattr(import_module(f"modelkeep.govern.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
