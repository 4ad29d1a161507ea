"""Bias: what a model amplifies, how much of it could be avoided, and what a mitigated model does instead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from modelkeep.bias import (
    Amplification,
    Asymmetry,
    MeasureAmplification,
    MeasureAsymmetry,
    Mitigated,
)
from modelkeep.core.data import Data
from modelkeep.core.model import Model
from modelkeep.core.results import Result, measured
from modelkeep.report.picture import Picture
from modelkeep.report.verdicts import amplification_verdict

Mitigation = Callable[..., Mitigated]


@dataclass(frozen=True, kw_only=True, eq=False)
class Bias(Result, kind="bias"):
    """The amplification on data that the model was not trained on, and the way its features point.

    Where a mitigation was asked for, `mitigated` says what it did on the training data, and `after` what the new model
    amplifies on the data of `before`.
    """

    model_name: str
    data_name: str
    before: Amplification
    features: Asymmetry
    mitigated: Mitigated | None
    after: Amplification | None

    @property
    def verdict(self) -> str:
        """What was found, in one or two sentences."""
        return amplification_verdict(self.before)

    def rows(self) -> list[tuple[str, str]]:
        rows = [*self.before.rows(), *self.features.rows()]
        if self.mitigated is not None and self.after is not None:
            rows += [
                ("mitigated by", self.mitigated.rows()[0][1]),
                ("features kept", self.mitigated.rows()[1][1]),
                ("amplification after", str(self.after.amplification)),
                ("accuracy after", str(self.after.accuracy)),
            ]
        return rows

    def pictures(self) -> dict[str, Picture]:
        """The pictures by the names of their files."""
        found = {
            "bias.png": Picture.of(
                self.before.draw(),
                "Shares of the labels and of the predictions",
                "How often each class occurs, and how often it is predicted. The whisker is the 95 % interval.",
            ),
            "bias-features.png": Picture.of(
                self.features.draw(),
                "Shares of the features that point towards each class",
                f"Of the features at '{self.features.slice}', the share whose mean is larger in the class than outside "
                "it. Where most point one way, training tends to lean that way.",
            ),
        }
        if self.after is not None:
            found["bias-after.png"] = Picture.of(
                self.after.draw(),
                "Shares of the labels and of the mitigated model's predictions",
                "The same for the mitigated model.",
            )
        return found


def bias(
    model: Model,
    data: Data,
    *,
    slice: str | None = None,
    train: Data | None = None,
    mitigation: Mitigation | None = None,
    name: str = "",
    seed: int,
) -> Bias:
    """Measure the amplification on `data`; with a `mitigation`, make a model from `train` that amplifies less."""
    with measured(seed, model.fingerprint(), data.fingerprint()) as provenance:
        before = MeasureAmplification(slice=slice)(model, data, seed=seed)
        features = MeasureAsymmetry(slice=slice)(model, data, seed=seed)
        better = None
        if train is not None and mitigation is not None:
            better = mitigation(model, train, seed=seed)
        return Bias(
            provenance=provenance(),
            model_name=name or type(model.module).__name__,
            data_name=data.name,
            before=before,
            features=features,
            mitigated=better,
            after=MeasureAmplification(slice=slice)(better.model, data, seed=seed) if better is not None else None,
        )
