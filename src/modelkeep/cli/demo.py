"""`modelkeep demo`: the audit of a small network for real digits that comes with the package."""

from __future__ import annotations

from pathlib import Path

import typer

from modelkeep.cli.audit import AsJson, Budget, Out, conclude, read_minutes, show_plan
from modelkeep.cli.ending import ExitCode
from modelkeep.cli.model_options import Seed


def demo(out: Out = Path("modelkeep-out"), budget: Budget = "2m", seed: Seed = 0, as_json: AsJson = False) -> None:
    """Audit a small CNN that was trained on real digits, and write the report. Takes about two minutes.

    It also leaves the model in the folder, so that you can go on with it:
    `modelkeep audit modelkeep-out/digits.safetensors --data digits --train digits`
    """
    from modelkeep.audit import Settings, audit
    from modelkeep.audit.audit import plan_audit
    from modelkeep.audit.sources import Sources
    from modelkeep.cli.checks import check_out
    from modelkeep.core import progress
    from modelkeep.zoo import datasets, pretrained

    settings = Settings(radii=(0.03, 0.1, 0.2), minutes=read_minutes(budget))  # one of 16 grey levels is 6 %
    check_out(out)
    train, test = datasets.load("digits", "train"), datasets.load("digits", "test")
    model = pretrained.load("digits-cnn")
    out.mkdir(parents=True, exist_ok=True)
    file = out / "digits.safetensors"
    model.save(file)
    sources = Sources(str(file), "digits", "digits")
    plan = plan_audit(model, test, settings, train=train, sources=sources)
    show_plan(plan, len(test))
    with progress.show():
        found = audit(model, test, settings, train=train, seed=seed, name="A small CNN", sources=sources, plan=plan)
    conclude(found, out, as_json)
    if found.stopped:
        raise typer.Exit(ExitCode.STOPPED)
