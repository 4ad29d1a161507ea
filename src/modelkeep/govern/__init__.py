"""Govern: one model with several owners, where every pass needs the consent of all (Martic2018)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelkeep.core.lazy import attach

if TYPE_CHECKING:
    from modelkeep.govern.agreement.agreement import Agreement
    from modelkeep.govern.agreement.draft import draft
    from modelkeep.govern.agreement.limits import Limits
    from modelkeep.govern.agreement.terms import Material
    from modelkeep.govern.consent import ConsentState, Policy, Window
    from modelkeep.govern.exposure import Advice, advise, infer_labels, invert
    from modelkeep.govern.folder import Folder
    from modelkeep.govern.identity import Identity, PublicIdentity
    from modelkeep.govern.ledger import Audit, audit, read_ledger
    from modelkeep.govern.passes import Pass
    from modelkeep.govern.piece.files import assemble, split
    from modelkeep.govern.session.leader import Leader
    from modelkeep.govern.session.party import Party
    from modelkeep.govern.session.runs import Evaluated, Trained, evaluate, infer, train
    from modelkeep.govern.session.service import serve
    from modelkeep.govern.wire.settings import Wire

__all__ = [
    "Advice",
    "Agreement",
    "Audit",
    "ConsentState",
    "Evaluated",
    "Folder",
    "Identity",
    "Leader",
    "Limits",
    "Material",
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
    "read_ledger",
    "serve",
    "split",
    "train",
]

# Loaded on first use: a person who withdraws consent must not wait for torch.
if not TYPE_CHECKING:  # a type checker shall know these names and no others
    __getattr__, __dir__ = attach(__name__)
