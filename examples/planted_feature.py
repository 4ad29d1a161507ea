"""A worked example: a mark that goes with one class in training, and how ModelKeep finds it.

Leino2022 tells of a model that recognises dogs by their tennis balls. Here the digit 3 has a bright ball in a corner,
in training and in testing, so accuracy says nothing. Run it with: python examples/planted_feature.py [FOLDER]
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from modelkeep import Data, Model, datasets
from modelkeep.audit import Audit, Settings, audit, audit_page
from modelkeep.explain import FindShortcuts, Inside, MeasureSoundness, Shortcuts, Soundness
from modelkeep.training import Adam, Recipe, cross_entropy, fit
from modelkeep.zoo.architectures import small_cnn

# A ball of 4×4 pixels, bright in the middle. Digits of 8×8 pixels are drawn twice as large, so that it looks like one.
BALL = torch.tensor([[0.0, 0.7, 0.7, 0.0], [0.7, 1.0, 1.0, 0.7], [0.7, 1.0, 1.0, 0.7], [0.0, 0.7, 0.7, 0.0]])
ROWS, COLUMNS = slice(0, 4), slice(0, 4)


@dataclass(frozen=True)
class Outcome:
    """What was found about one of the two models."""

    model: Model
    accuracy: float
    soundness: Soundness
    shortcuts: Shortcuts
    audit: Audit


def larger(data: Data) -> Data:
    """The digits with 16×16 pixels."""
    return replace(data, x=torch.nn.functional.interpolate(data.x, scale_factor=2))


def with_ball(data: Data, name: str) -> Data:
    """The ball in the corner of every example of one class."""
    x = data.x.clone()
    x[data.y == data.class_index(name), 0, ROWS, COLUMNS] = BALL
    return replace(data, x=x, name=f"{data.name} with a ball on '{name}'")


def trained(data: Data, seed: int) -> Model:
    """A small network that has learned `data`, in a few seconds."""
    torch.manual_seed(seed)
    model = Model(small_cnn(data.input_shape, 10), input_shape=data.input_shape, classes=data.classes)
    fit(model, data, cross_entropy, Recipe(epochs=4, batch_size=64, optimizer=Adam(), learning_rate=3e-3), seed=seed)
    return model


def look(model: Model, test: Data, seed: int) -> Outcome:
    """Judge the model by what it should look at, look for shortcuts without knowing any, and audit it."""
    # We know where the ball is, so we can ask for explanations that do not lie there. The examples of the class with
    # the ball are what we care about; those of other classes may use the whole picture, and are exempt.
    allowed = torch.ones(len(test), *test.input_shape[1:], dtype=torch.bool)
    allowed[test.y == test.class_index("3"), ROWS, COLUMNS] = False
    return Outcome(
        model,
        accuracy=float((model.predict(test.x) == test.y).double().mean()),
        soundness=MeasureSoundness(criterion=Inside(allowed, share=0.9))(model, test, seed=seed),
        shortcuts=FindShortcuts()(model, test, seed=seed),
        audit=audit(
            model, test, Settings(examples=256, radii=(0.03,), steps=3), seed=seed, name="A network for digits"
        ),
    )


def main(folder: Path, seed: int = 0) -> tuple[Outcome, Outcome]:
    """Train both models, print what is found about them, and leave pictures and the report in the folder."""
    train, test = (larger(datasets.load("digits", part)) for part in ("train", "test"))
    clean = look(trained(train, seed), test, seed)
    planted = look(trained(with_ball(train, "3"), seed), with_ball(test, "3"), seed)
    for name, outcome in {"without the ball": clean, "with the ball": planted}.items():
        print(f"\nTrained {name}: {100 * outcome.accuracy:.1f} % accurate")
        print(outcome.soundness)
        print(outcome.shortcuts)
        for finding in outcome.audit.findings:
            if finding.id.startswith("shortcuts."):
                print(f"The audit says ({finding.severity}): {finding.title}. {finding.measured}")
    folder.mkdir(parents=True, exist_ok=True)
    planted.soundness.draw().savefig(folder / "soundness.png", dpi=120)
    planted.shortcuts.draw().savefig(folder / "shortcuts.png", dpi=120)
    audit_page(planted.audit).write(folder, "report.html", "run.json")
    return clean, planted


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "planted-feature"))
