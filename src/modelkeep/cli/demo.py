"""`modelkeep demo`: train, attack and explain a small network on real digits, and write the report."""

from __future__ import annotations

from pathlib import Path

from modelkeep.cli.audit import AsJson, Out, conclude
from modelkeep.cli.model_options import Seed


def demo(out: Out = Path("modelkeep-out"), seed: Seed = 0, as_json: AsJson = False) -> None:
    """Train a small CNN on real digits, attack it, explain it, and write a report. Takes less than a minute.

    Also leaves the trained model in the folder, so that you can go on with it:
    `modelkeep audit modelkeep-out/digits.safetensors --data digits`
    """
    from dataclasses import replace

    import torch

    from modelkeep import Model
    from modelkeep.audit import Section, Settings, audit
    from modelkeep.cli.checks import check_out
    from modelkeep.core import plots, progress
    from modelkeep.report import Picture
    from modelkeep.training import Adam, Recipe, cross_entropy, fit
    from modelkeep.zoo import datasets
    from modelkeep.zoo.architectures import small_cnn

    check_out(out)
    train, test = datasets.load("digits", "train"), datasets.load("digits", "test")
    arguments = {"input_shape": list(train.input_shape), "classes": len(train.classes)}
    torch.manual_seed(seed)  # the first weights; this process is ours
    model = Model(
        small_cnn(train.input_shape, len(train.classes)),
        input_shape=train.input_shape,
        classes=train.classes,
        architecture="modelkeep.architectures:small_cnn",
        arguments=arguments,
    )
    with progress.show():
        recipe = Recipe(epochs=20, batch_size=64, optimizer=Adam(), learning_rate=2e-3)
        fitted = fit(model, train, cross_entropy, recipe, seed=seed, held_out=test)
        # Digits have 16 grey levels: one of them is 6 % of the range.
        found = audit(model, test, Settings(radii=(0.03, 0.1, 0.2)), seed=seed, name="A small CNN")
    out.mkdir(parents=True, exist_ok=True)
    model.save(out / "digits.safetensors")
    learned = Section(
        "How it was trained",
        f"{recipe.epochs} epochs of Adam on {len(train)} digits of 8×8 pixels; {fitted.stopped}.",
        pictures=(
            Picture(plots.data_uri(fitted.draw()), "Loss and accuracy during training", "Training, step by step."),
        ),
    )
    conclude(replace(found, sections=(*found.sections, learned)), out, as_json)
