"""The frame of every attack: check, search on what still stands, verify in a fresh pass, and say what was noticed."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from modelkeep.attack.adaptive import averaged, victim_of
from modelkeep.attack.answers import LOOKED_AT, Answers, ask, bare_logits, differ
from modelkeep.attack.campaign import Campaign
from modelkeep.attack.case import Search, Target
from modelkeep.attack.checkpoint import Checkpoint
from modelkeep.attack.pooling import quick_pooling
from modelkeep.attack.result import Attacked, Rewritten, summarise
from modelkeep.core.data import Data
from modelkeep.core.description import describe
from modelkeep.core.embedding import free_values
from modelkeep.core.errors import InputError, bad_parameter
from modelkeep.core.fingerprint import fingerprint
from modelkeep.core.model import Model
from modelkeep.core.norms import Ball
from modelkeep.core.results import measured
from modelkeep.core.tokenizer import word_changes
from modelkeep.core.version import __version__

DRAWS = 10
"""Passes over which a random model is averaged in each step, unless the owner says otherwise."""

_JUDGED = 5  # times as many answers judge what was found: with 50, the share of one example is known to about 0.07
_RECHECKED = 256  # of what was found, that many are asked again, to see whether the model is random there


def carry_out(
    model: Model,
    data: Data,
    searches: Sequence[Search],
    *,
    attack: str,
    ball: Ball,
    target: str | Target | torch.Tensor | None = None,
    mask: torch.Tensor | None = None,
    batch_size: int = 256,
    draws: int = DRAWS,
    seed: int,
) -> Attacked:
    """Run the searches one after the other, each on the examples that still stand.

    What a search returns counts only if it lies in the ball and the bounds, differs from the original only where
    `mask` is True, and is answered as wanted in a fresh pass. Where all fail, the original is returned.

    A model that answers the same input differently is random. The searches then see its mean answer over `draws`
    passes, and in a ball go on after it is wrong; the input that is answered as wanted most often is kept, and what
    is reported is measured on draws that no search has seen.

    Args:
        model: The model; gradients of its weights are not computed, and it is left as it was.
        data: Examples with their true labels.
        searches: Inner loops; the same one again is a restart, different ones are an ensemble.
        attack: What to call it.
        ball: How far an example may be moved; without a radius the norm only measures.
        target: The class that the answer should become, or a label for each example `(n,)`; without it, any wrong
            answer will do.
        mask: True where the input may change; it must broadcast to `(n, *input_shape)`.
        batch_size: Examples that are run at once.
        draws: Passes over which a random model is averaged in each step.
        seed: For all that is random.
    """
    if batch_size < 1:
        raise bad_parameter(attack, "batch_size", "at least 1", batch_size)
    model.require_fit(data)
    asked, model = model, victim_of(model)
    original, labels = model.check_inputs(data.x), data.y.to(model.device)
    if model.bounds is not None and not torch.equal(original.clamp(*model.bounds), original):
        raise InputError(
            f"The model takes values in {model.bounds}, but those of '{data.name}' span "
            f"[{float(original.min())}, {float(original.max())}]. Are the data in the owner's units, or normalised?"
        )
    allowed = None if mask is None else _broadcast(mask, original)
    of_model, of_data = model.fingerprint(), data.fingerprint()
    with measured(seed, of_model, of_data) as provenance, model.frozen(seed), quick_pooling(model.module):
        clean, few = _clean_logits(model, original, batch_size), original[:LOOKED_AT]
        seen, judging, before, random = (
            model,
            1,
            Answers.once(clean),
            differ(clean[: len(few)], bare_logits(model, few)),
        )
        if random:
            seen, judging = averaged(asked, draws), _JUDGED * draws
            clean = _clean_logits(seen, original, batch_size)
            before = ask(model, original, judging, batch_size)
        goal, target_name = _goal(model, clean, labels, target)
        campaign = Campaign(
            model, seen, original, labels, goal, target is not None, ball, allowed, before, random, judging
        )
        checkpoint = Checkpoint(
            lambda: {
                "model": of_model,
                "data": of_data,
                "goal": fingerprint({"goal": goal} | ({} if allowed is None else {"allowed": allowed})),
                "searches": describe(searches),
                "attack": attack,
                "ball": describe(ball),
                "batch_size": batch_size,
                "seed": seed,
                "version": __version__,
            }
        )
        campaign.run(searches, attack, batch_size, seed, checkpoint)
        campaign.require_sight(attack)
        after = _judge(campaign, _JUDGED * draws, batch_size)
        return Attacked(
            provenance=provenance(),
            attack=attack,
            norm=ball.norm,
            radius=ball.radius,
            target=target_name,
            bounds=model.bounds,
            classes=model.classes,
            original=original.cpu(),
            adversarial=campaign.adversarial.cpu(),
            labels=labels.cpu(),
            before=before.labels.cpu(),
            after=after.labels.cpu(),
            distance=ball.distance(campaign.adversarial, original).cpu(),
            health=campaign.notes(searches),
            solved_by=campaign.solved_by(searches),
            queries=sum(stage.queries for stage in campaign.stages),
            gradients=sum(stage.health.gradients for stage in campaign.stages),
            texts=_texts(data, campaign.adversarial.cpu()),
            **summarise(labels, goal, campaign.targeted, before, after),
        )


def _clean_logits(model: Model, original: torch.Tensor, batch_size: int) -> torch.Tensor:
    return torch.cat([model.logits(part) for part in torch.split(original, batch_size)])


def _judge(campaign: Campaign, draws: int, batch_size: int) -> Answers:
    """The answers to what was found: fresh ones where the model is random, also where it is random only there."""
    found, after = campaign.adversarial, Answers.of_labels(campaign.after, len(campaign.model.classes))
    if not campaign.random:
        few = torch.nonzero(campaign.after != campaign.before.labels).flatten()[:_RECHECKED]
        if len(few) == 0 or torch.equal(ask(campaign.model, found[few], 1, batch_size).labels, campaign.after[few]):
            return after
        pair = [bare_logits(campaign.model, found[few]) for _ in "ab"]
        if not differ(*pair):  # a rounding, in a batch of another size
            return after
        campaign.stages[-1].health.random = True
    return ask(campaign.model, found, draws, batch_size)


def move_to_real_values(model: Model, data: Data, mask: torch.Tensor | None) -> tuple[Model, Data, torch.Tensor | None]:
    """The model, data and mask on which a ball attack works.

    A ball is made of real numbers. Where the input is packed, tokens, masks and integers stay; where it has tokens and
    no real values, the attack works on their embedding, of which padding stays.
    """
    if model.nest is None:
        return model, data, mask
    if model.nest.tokens is not None and all(leaf.kind != "real" for leaf in model.nest.leaves):
        if mask is not None:
            raise InputError(
                "A mask of token ids says nothing about their embedding, where this attack works. Attack "
                "model.at_embedding() and model.embed(data) with a mask of theirs."
            )
        model, data = model.at_embedding(), model.embed(data)
    assert model.nest is not None
    free = free_values(model.nest, data.x)
    if free is None or mask is None:
        return model, data, mask if free is None else free
    return model, data, free & _broadcast(mask, data.x)


def _goal(
    model: Model, clean: torch.Tensor, labels: torch.Tensor, target: str | Target | torch.Tensor | None
) -> tuple[torch.Tensor, str | None]:
    if target is None:
        return labels, None
    if isinstance(target, str):
        return torch.full_like(labels, model.class_index(target)), target
    if isinstance(target, torch.Tensor):
        return _wanted_labels(model, target, labels), "a class for each example"
    return target.of(clean), target.name


def _wanted_labels(model: Model, target: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    kind = "a tensor with a label for each example"
    if target.is_floating_point() or target.dtype == torch.bool or target.shape != labels.shape:
        raise InputError(
            f"The target must be a class by its name, or {kind}: integers of shape {tuple(labels.shape)}. "
            f"Got {target.dtype} of shape {tuple(target.shape)}."
        )
    if target.min() < 0 or target.max() >= len(model.classes):
        raise InputError(
            f"The target must be {kind}, within 0..{len(model.classes) - 1}. "
            f"Got labels from {int(target.min())} to {int(target.max())}."
        )
    return target.to(labels)


def _texts(data: Data, adversarial: torch.Tensor) -> tuple[Rewritten, ...]:
    """The texts that were changed, as words, where the data has a tokenizer."""
    if data.tokenizer is None or data.nest is None or data.nest.tokens is None:
        return ()
    columns = data.nest.columns(data.nest.tokens.name)
    before, after = data.x[:, columns].long(), adversarial[:, columns].round().long()
    changed = torch.nonzero((before != after).any(dim=1)).flatten().tolist()
    return tuple(
        Rewritten(i, tuple(word_changes(data.tokenizer, before[i].tolist(), after[i].tolist()))) for i in changed
    )


def _broadcast(mask: torch.Tensor, original: torch.Tensor) -> torch.Tensor:
    if mask.dtype != torch.bool:
        raise InputError(f"The mask must be a boolean tensor, True where the input may change. Got {mask.dtype}.")
    try:
        return mask.to(original.device).expand(original.shape)
    except RuntimeError as error:
        raise InputError(
            f"The mask must broadcast to the inputs' shape {tuple(original.shape)}. Got {tuple(mask.shape)}."
        ) from error
