"""Property inference from reconstructions (Leino2022, algorithm 8.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate, measured
from modelkeep.privacy.inversion import InvertModel
from modelkeep.privacy.property.baselines import claim_linearly
from modelkeep.privacy.property.extractors import Extractor
from modelkeep.privacy.property.meta_classifier import MetaTraining
from modelkeep.privacy.property.result import PropertyInferred
from modelkeep.privacy.property.score import f1
from modelkeep.privacy.property.shadow_sets import Procedure, draw_properties, make_sets
from modelkeep.privacy.property.watermarks import Property
from modelkeep.training import Objective, Recipe, cross_entropy
from modelkeep.training.batches import derive_seed


@dataclass(frozen=True, eq=False)
class Shadowed:
    """What shadow models showed: reconstructions `sets: (n, pictures, channels, h, w)`, `weights: (n, channels, h, w)`.

    `labels: (n,)` is the property of each. The `held_out` last ones are not learned from.
    """

    names: tuple[str, ...]
    sets: torch.Tensor
    weights: torch.Tensor
    labels: torch.Tensor
    held_out: int

    @property
    def learned(self) -> torch.Tensor:
        """The properties of the models that are learned from."""
        return self.labels[: len(self.labels) - self.held_out]

    @property
    def truth(self) -> torch.Tensor:
        """The properties of those held out."""
        return self.labels[len(self.labels) - self.held_out :]

    def first(self, count: int) -> Shadowed:
        """As if only the first `count` had been there to learn from; those held out stay."""
        kept = [*range(count), *range(len(self.labels) - self.held_out, len(self.labels))]
        return Shadowed(self.names, self.sets[kept], self.weights[kept], self.labels[kept], self.held_out)


@dataclass(frozen=True, eq=False)
class Told:
    """A trained meta-classifier and how well it tells properties."""

    judge: Model = field(repr=False)
    f1: Estimate
    f1_learned: Estimate
    accuracy: Estimate
    confusion: torch.Tensor


def learn_properties(shadowed: Shadowed, training: MetaTraining, *, seed: int = 0) -> Told:
    """Train the meta-classifier on the shadows but those held out, and measure it on these."""
    properties, learned, truth = len(shadowed.names), shadowed.learned, shadowed.truth
    judge = training(Data(shadowed.sets[: len(learned)], learned, shadowed.names), seed=seed)
    logits = judge.logits(shadowed.sets)
    claimed, likeliest = logits > 0, logits[len(learned) :].argmax(dim=1)
    confusion = torch.zeros(properties, properties, dtype=torch.int64)
    confusion.index_put_((truth, likeliest), torch.ones_like(truth), accumulate=True)
    return Told(
        judge=judge,
        f1=f1(claimed[len(learned) :], truth, seed),
        f1_learned=f1(claimed[: len(learned)], learned, seed),
        accuracy=Estimate.rate(int((likeliest == truth).sum()), len(truth)),
        confusion=confusion,
    )


def measure_baselines(shadowed: Shadowed, training: MetaTraining, *, seed: int = 0) -> dict[str, Estimate]:
    """The F1 of simpler attacks on the same shadows, and of a control: the same attack after shuffling its labels."""
    learned, count, properties = shadowed.learned, len(shadowed.learned), len(shadowed.names)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(derive_seed(seed, "shuffle")))
    control = training(Data(shadowed.sets[:count], learned[order], shadowed.names), seed=seed)
    means, weights = shadowed.sets.mean(dim=1), shadowed.weights
    claims = {
        "logistic regression on the mean reconstruction": claim_linearly(
            means[:count], learned, means[count:], properties
        ),
        "logistic regression on the weights": claim_linearly(weights[:count], learned, weights[count:], properties),
        "the control with shuffled labels": control.logits(shadowed.sets[count:]) > 0,
    }
    return {name: f1(claimed, shadowed.truth, seed) for name, claimed in claims.items()}


@declare("measurement", "property-inference", access="weights", paper="Leino2022, algorithm 8.4")
class InferProperty:
    """Which property the training data of a model had, told from its reconstructions by what shadow models show.

    The attacker trains shadow models on data with each property, inverts them, and trains a meta-classifier to tell
    the property from the reconstructions. Some shadows are held out, and say how far its answer can be trusted. The
    set transformer and the settings are the thesis'. The small CNN before it is ours; "resnet18" is the thesis'.
    """

    shadows: int = setting("Shadow models, those that are held out included.", default=160, at_least=10)
    held_out: float = setting("The share of them that the attack does not learn from.", default=0.2, above=0, below=1)
    inversion: InvertModel = setting("How a model is inverted.", default_factory=lambda: InvertModel(per_class=6))
    extractor: Extractor = setting("What sees a picture; the thesis has resnet18.", default="small-cnn")
    epochs: int = setting("Epochs of the meta-classifier.", default=100, at_least=1)

    def __call__(
        self,
        model: Model,
        data: Data,
        *,
        properties: Sequence[Property],
        recipe: Recipe,
        objective: Objective = cross_entropy,
        seed: int = 0,
    ) -> PropertyInferred:
        """Attack a model that this recipe and objective have trained, on data like these with one of the properties."""
        if model.bounds is None:
            raise InputError("Inversion searches within the range of an input. Give the model bounds=(low, high).")
        model.require_fit(data)
        procedure = Procedure(model, data, objective, recipe, tuple(properties))
        held_out = max(1, round(self.held_out * self.shadows))
        which = draw_properties(self.shadows, len(procedure.names), seed)
        seeds = [derive_seed(seed, "shadow", i) for i in range(self.shadows)]
        of_model, of_data = model.fingerprint(), data.fingerprint()
        with measured(seed, of_model, of_data) as provenance:
            sets, weights = make_sets(procedure, self.inversion, which, seeds)
            shadowed = Shadowed(procedure.names, sets, weights, torch.tensor(which), held_out)
            training = MetaTraining(extractor=self.extractor, epochs=self.epochs)
            told = learn_properties(shadowed, training, seed=seed)
            target = self.inversion(model, seed=seed).x
            return PropertyInferred(
                provenance=provenance(),
                properties=procedure.names,
                shadows=self.shadows,
                bounds=model.bounds,
                f1=told.f1,
                f1_learned=told.f1_learned,
                baselines=measure_baselines(shadowed, training, seed=seed),
                confusion=told.confusion,
                scores=told.judge.logits(target[None])[0].sigmoid(),
                x=target,
            )
