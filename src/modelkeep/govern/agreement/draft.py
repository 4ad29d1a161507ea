"""draft: an agreement from what the parties have handed over, for them all to read and to sign."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from modelkeep.core.errors import InputError
from modelkeep.core.model import Model
from modelkeep.core.slices import Place
from modelkeep.govern.agreement.agreement import Agreement
from modelkeep.govern.agreement.limits import Limits
from modelkeep.govern.agreement.terms import Material, Member
from modelkeep.govern.identity import PublicIdentity
from modelkeep.govern.wire.settings import Wire
from modelkeep.training.recipe import Recipe


def draft(
    name: str,
    model: Model,
    *,
    parties: Sequence[PublicIdentity],
    addresses: Mapping[str, str],
    cuts: Sequence[str | Place],
    holders: Sequence[str],
    data: Material,
    labels: Material,
    recipe: Recipe,
    objective: str = "cross_entropy",
    seed: int = 0,
    wire: Wire | None = None,
    checkpoint_every: int = 50,
    policies: Mapping[str, Mapping[str, Any]] | None = None,
    limits: Limits | None = None,
) -> Agreement:
    """An unsigned agreement about the network of `model`; the weights are not part of it.

    Args:
        name: What the agreement is called.
        model: A model that names its architecture.
        parties: What `PublicIdentity.read` gave for each party's file; compare the public keys by another way.
        addresses: Where each party listens: "host:port" by name.
        cuts: Where to cut, in the order of the run.
        holders: Who holds each piece, first to last.
        data: `Material.inputs(holder, data)`.
        labels: `Material.labels(holder, data)`.
        recipe: How to train.
        objective: "cross_entropy", or "package.module:name".
        seed: Where every random number comes from.
        wire: How tensors cross.
        checkpoint_every: How many steps apart the parties keep their state.
        policies: By party, what it consents to, as JSON.
        limits: Bounds on each pass, whoever asks.
    """
    without = [party.name for party in parties if party.name not in addresses]
    if without:
        raise InputError(f"Where do they listen? There is no address of: {', '.join(without)}.")
    drafted = Agreement(
        name=name,
        card=model.card,
        cuts=tuple(Place(cut) if isinstance(cut, str) else cut for cut in cuts),
        holders=tuple(holders),
        data=data,
        labels=labels,
        recipe=recipe,
        parties=tuple(Member(p.name, p.public_key, p.proof, p.certificate, address=addresses[p.name]) for p in parties),
        objective=objective,
        seed=seed,
        wire=wire if wire is not None else Wire(),
        checkpoint_every=checkpoint_every,
        policies={party: dict(policy) for party, policy in (policies or {}).items()},
        limits=limits if limits is not None else Limits(),
    )
    model.pieces(drafted.cuts)  # refuses a place that does not exist, and pieces that would share weights
    return drafted
