"""The checks of an audit as trials of a study, so that several processes, or a Ray cluster, run them at a time."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from modelkeep.study.names import trial
from modelkeep.study.trials import Trial

if TYPE_CHECKING:
    from modelkeep.audit import Settings
    from modelkeep.audit.journal import Journal
    from modelkeep.audit.plan import Plan, Step
    from modelkeep.audit.sources import Sources
    from modelkeep.core.data import Data
    from modelkeep.core.model import Model
    from modelkeep.study.study import Engine


@trial("audit/check", version=1)
def run_check(
    *, seed: int, check: str, depth: str, settings: dict[str, Any], sources: dict[str, str], model: str, data: str
) -> Any:
    """One check on the model and the data that `sources` name, as the JSON of its section.

    `model` and `data` are their fingerprints: another file under the same name is another trial.
    """
    from pydantic import TypeAdapter

    from modelkeep.audit import Section, Settings
    from modelkeep.audit.audit import run_step
    from modelkeep.audit.plan import Step
    from modelkeep.audit.sources import Sources
    from modelkeep.core.errors import InputError

    loaded, examined, train = open_sources(Sources(**sources))
    if (loaded.fingerprint(), examined.fingerprint()) != (model, data):
        raise InputError(f"The model or the data changed while it was audited: {sources['model']}, {sources['data']}.")
    ready = Settings.read(settings, checks=(check,)).prepare_checks(loaded, train=train, sources=Sources(**sources))[
        check
    ]
    if is_dataclass(ready) and any(each.name == "depth" for each in fields(ready)):
        ready = cast(Any, replace(cast(Any, ready), depth=depth))
    section = run_step(Step(check, ready, 0.0), loaded, examined, seed)
    return json.loads(TypeAdapter(Section).dump_json(section))


def open_sources(sources: Sources) -> tuple[Model, Data, Data | None]:
    """The model, the data and the training data that were named on a command line."""
    from modelkeep.cli.model_options import ModelOptions, model_and_data, read_like

    options = ModelOptions.read(sources.options)
    model, data = model_and_data(sources.model, sources.data, options, sources.train or None)
    if not sources.train:
        return model, data, None
    return model, data, read_like(data, sources.train, options.description(sources.model), part="train")


def run_elsewhere(
    plan: Plan,
    model: Model,
    data: Data,
    settings: Settings,
    sources: Sources,
    *,
    train: Data | None,
    journal: Journal,
    engine: Engine,
    seed: int,
) -> None:
    """Run the steps of the plan on the engine, and write each section into the journal, where the audit finds it.

    A check that fails there is left to the audit, which says why.
    """
    from pydantic import TypeAdapter

    from modelkeep.audit import Section
    from modelkeep.core.method import settings_of
    from modelkeep.study.ledger import Ledger
    from modelkeep.study.study import Study, run

    if not plan.steps or journal.folder is None:
        return

    def make_trial(step: Step) -> Trial:
        parameters = {
            "check": step.name,
            "depth": step.depth,
            "settings": settings_of(settings),
            "sources": _absolute(sources),
            "model": model.fingerprint(),
            "data": data.fingerprint(),
        }
        return Trial.of(run_check, parameters, seed)

    steps = {make_trial(step).identity: step for step in plan.steps}
    with Ledger(journal.folder / "ledger.sqlite3") as ledger:
        done = run(Study("audit", [make_trial(step) for step in plan.steps]), ledger, engine, retries=0)
    for record in done.records:
        step = steps.get(Trial.of(run_check, record.parameters, record.seed).identity)
        if step is not None and record.state == "done":
            section = TypeAdapter(Section).validate_python(record.value)
            journal.recall(step, model, data, train, seed).keep(section)


def _absolute(sources: Sources) -> dict[str, str]:
    """The sources as a process in another folder finds them."""

    def place(name: str) -> str:
        return str(Path(name).resolve()) if name and Path(name).exists() else name

    return {
        "model": place(sources.model),
        "data": place(sources.data),
        "train": place(sources.train),
        "options": sources.options,
    }
