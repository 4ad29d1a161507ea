"""`modelkeep complete`: how hard it is to get a missing part of a model back, and what that costs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modelkeep.cli.model_options import (
    DataSource,
    ModelOptions,
    ModelSource,
    Seed,
    model_and_data,
    with_model_options,
)
from modelkeep.cli.tokenizer_files import find_tokenizer

if TYPE_CHECKING:
    from torch import nn

    from modelkeep import Data, Model
    from modelkeep.completion.curve import Curve
    from modelkeep.completion.hardness import Hardness
    from modelkeep.completion.part import Part
    from modelkeep.completion.price import Price
    from modelkeep.core.model_file import Description
    from modelkeep.core.results import Estimate
    from modelkeep.study import StudyResult


@with_model_options
def complete(
    model: ModelSource,
    data: DataSource,
    *,
    options: ModelOptions,
    part: Annotated[
        list[str] | None,
        typer.Option(help="What is missing: conv1, 'block1 without block1.skip', 30% (of all). Default: each layer."),
    ] = None,
    procedure: Annotated[
        list[str] | None,
        typer.Option(
            help="How to retrain: T1, 'T3 width=8' …, all; `modelkeep methods procedure` lists them. Default: T1, T2."
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How often each training is repeated, with other seeds.")] = 3,
    steps: Annotated[int, typer.Option(min=1, help="How long a training is, from scratch and again.")] = 300,
    every: Annotated[int, typer.Option(min=1, help="After how many steps the loss is measured.")] = 5,
    alpha: Annotated[
        list[float] | None, typer.Option(help="The share of the original progress to get back. Default: 0.5 to 1.")
    ] = None,
    learning_rate: Annotated[float, typer.Option(min=0, help="Of Adam.")] = 1e-3,
    batch_size: Annotated[int, typer.Option(min=1, help="Examples per update.")] = 128,
    train: Annotated[str | None, typer.Option(help="The training data; of a built-in set it is known.")] = None,
    training_curve: Annotated[
        Path | None,
        typer.Option(
            help='The curve of the training that made the model: JSON, {"steps": [0, …], "losses": [0.9, …]}.'
        ),
    ] = None,
    examples: Annotated[int, typer.Option(min=1, help="How many examples of --data measure the loss.")] = 1000,
    price: Annotated[float | None, typer.Option(min=0, help="What an hour of this machine costs.")] = None,
    currency: Annotated[str, typer.Option(help="Of the price.")] = "€",
    out: Annotated[Path, typer.Option(help="The folder for report.html, result.json and figure.png.")] = Path(
        "modelkeep-out"
    ),
    ledger: Annotated[Path | None, typer.Option(help="The ledger's file; else ledger.sqlite3 in --out.")] = None,
    seed: Seed = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print result.json instead of the summary.")] = False,
) -> None:
    """Complete a model: how much training gets a missing part back, as a share of training it from scratch?

    That is what a cut of the model protects when several parties hold a part each: 1 as much as the whole training is
    worth, 0 nothing. What counts is to be as good as your model is. A network like yours is trained from scratch for
    comparison, or the curve of its own training is given; then each part of yours is drawn anew and retrained.
    **T1** trains everything, **T2** only the missing part, **T3** wider layers in its place, **T4** from other
    initialisations, **T5** on the whole model's answers, **T7** searches learning rates. The result is an upper bound:
    a faster way may exist. After Ctrl-C the same command goes on. Examples:

    * `modelkeep complete model.safetensors --data digits`

    * `modelkeep complete model.safetensors --data digits --part conv1 --part linear1 --procedure all --price 2.5`

    * `modelkeep complete model.safetensors --data test.npz --train train.npz --steps 2000 --every 20 --seeds 5`
    """
    from modelkeep.cli.checks import check_out
    from modelkeep.cli.study import require_all_done, run_shown
    from modelkeep.completion.hardness import ALPHAS
    from modelkeep.completion.price import Price
    from modelkeep.completion.trials import complete as trial
    from modelkeep.completion.trials import fingerprints, open_owned
    from modelkeep.core.errors import InputError
    from modelkeep.study import Ledger, Local, Study, grid
    from modelkeep.training import Recipe, evaluate

    if steps < every:
        raise InputError(f"A training of --steps {steps} is never measured when that is done --every {every} steps.")
    if train is None and Path(data).expanduser().exists():
        raise InputError("Retraining needs the training data: name it with --train.")
    asked = None if price is None else Price(price, currency)
    check_out(out)
    loaded, judged = model_and_data(model, data, options, train)
    loaded.require_fit(judged)
    said = options.description(model)
    card = said.card()
    shape = card.pop("input_shape", None)
    owned: dict[str, Any] = {
        "model": _resolved(model),
        "weights": None if said.weights is None else str(said.weights.resolve()),
        "input_shape": None if shape is None else list(loaded.input_shape),
        "device": said.device or "cpu",
        "train": _resolved(data if train is None else train),
        "test": _resolved(data),
        "label": said.label or "label",
        "examples": examples,
        "seed": seed,
    }
    # Only what was said: a ledger of an earlier version has trials without these.
    more = {
        "card": card,
        "ignore": said.ignore,
        "missing": said.missing,
        "positive": said.positive,
        "text": said.text,
        "tokenizer": _tokenizer(model, said, judged),
    }
    owned |= {name: value for name, value in more.items() if value}
    owner = open_owned(owned)
    owned["fingerprints"] = fingerprints(*owner)
    _, accuracy = evaluate(owner[0], owner[2])
    own = _wrong(accuracy)
    _require_trained(owner[0], owner[2], own, seed)
    recipe = Recipe(steps=steps, evaluate_every=every, batch_size=batch_size, learning_rate=learning_rate)
    setting: dict[str, Any] = {"owned": owned, "recipe": recipe.to_json()}
    if training_curve is not None:
        setting["curve"] = _read_curve(training_curve, own).to_json()
    axes: dict[str, list[Any]] = {
        "part": [each.to_json() for each in _parts(part, loaded.module)],
        "procedure": _procedures(procedure),
        "setting": [setting],
    }
    study = Study(f"complete {Path(model).name}", grid(trial, axes, range(seed, seed + seeds)))
    with Ledger(ledger or out / "ledger.sqlite3") as kept:
        done = run_shown(study, kept, Local(), "the same command")
    require_all_done(done)
    found = _measured(done, alpha or ALPHAS, own, seed, owned["fingerprints"], loaded.warnings)
    written = _write(found, out, asked, Path(model).name)
    if as_json:
        typer.echo(found.to_json())
        return
    _show(found, done, written)


def _tokenizer(model: str, said: Description, judged: Data) -> dict[str, Any] | None:
    """The file of a text model's tokenizer, and how long its texts are; a pretrained model has its own."""
    place = find_tokenizer(model, said)
    if judged.tokenizer is None or place is None:
        return None
    return {"file": _resolved(str(place)), "length": judged.tokenizer.length}


def _resolved(source: str) -> str:
    """A file as its whole path, so that a study finds it from any folder; anything else as it is."""
    path = Path(source).expanduser()
    return str(path.resolve()) if path.exists() else source


def _parts(wanted: list[str] | None, module: nn.Module) -> list[Part]:
    """The parts that the user named, or each layer of the network."""
    from modelkeep.completion.part import Part, parts_of
    from modelkeep.core.errors import InputError

    layers = {part.name: part for part in parts_of(module)}
    if not wanted:
        return list(layers.values())
    found = []
    for text in dict.fromkeys(wanted):
        name, _, kept = text.partition(" without ")
        if text.endswith("%"):
            try:
                found.append(Part(f"{text} of all", ("",), share=float(text[:-1]) / 100))
            except ValueError as error:
                raise InputError(f"A share of every layer is written such as --part 30%. Got '{text}'.") from error
        elif text in layers:
            found.append(layers[text])
        else:
            found.append(Part(text, (name,), (kept,) if kept else ()))
        found[-1].parameters(module)  # refuses a name that the network does not have
    return found


def _procedures(wanted: list[str] | None) -> list[str]:
    """The procedures that the user named: by name, with settings, or all variants of one (T4 is each scheme)."""
    from modelkeep.completion.procedures import PROCEDURES, read_procedure

    found: list[str] = []
    for text in wanted or ["T1", "T2"]:
        variants = [name for name in PROCEDURES if text.lower() in ("all", name.lower(), name.split()[0].lower())]
        if not variants:
            read_procedure(text)  # refuses what no declaration has
        found += variants or [text]
    return list(dict.fromkeys(found))


def _measured(
    done: StudyResult,
    alphas: Sequence[float],
    own: Estimate,
    seed: int,
    fingerprints: list[str],
    warnings: tuple[str, ...],
) -> Hardness:
    """The measure of what the trials found, where their procedures could be used."""
    from dataclasses import replace

    from modelkeep.completion.hardness import measure_hardness
    from modelkeep.completion.trials import read_retraining
    from modelkeep.core.errors import InputError

    runs = [
        read_retraining(record.value, record.parameters["part"]["name"], record.parameters["procedure"], record.seed)
        for record in done.records
        if "refused" not in record.value
    ]
    if not runs:
        raise InputError(f"No procedure can be used here. {done.records[0].value['refused']}")
    found = measure_hardness(runs, alphas=alphas, own_loss=own, seed=seed)
    model, data, _ = fingerprints
    source = replace(found.provenance, model=model, data=data, seconds=done.provenance.seconds, warnings=warnings)
    return replace(found, provenance=source)


def _write(found: Hardness, out: Path, price: Price | None, subject: str) -> tuple[Path, ...]:
    from modelkeep.report import completion_page

    return completion_page(found, price, subject=subject).write(out, "report.html", "result.json")


def _wrong(accuracy: Estimate) -> Estimate:
    """The error rate of an accuracy."""
    from modelkeep.core.results import Estimate

    return Estimate(1 - accuracy.value, 1 - accuracy.high, 1 - accuracy.low, accuracy.n)


def _require_trained(model: Model, held_out: Data, own: Estimate, seed: int) -> None:
    """Refuse a model that is no better than it would be before any training, before hours are spent on it."""
    from copy import deepcopy

    from modelkeep import Model
    from modelkeep.completion.initialisation import reset
    from modelkeep.completion.retraining import WHOLE
    from modelkeep.core.errors import InputError
    from modelkeep.training import evaluate

    fresh = Model.from_card(deepcopy(model.module), model.card, model.device)
    reset(fresh.module, WHOLE, seed=seed)
    untrained = _wrong(evaluate(fresh, held_out)[1]).value
    constant = 1 - float(held_out.y.bincount().max()) / len(held_out)
    if own.high >= min(untrained, constant):  # it may be no better than that
        raise InputError(
            f"The model is wrong on {own.value:.1%} of the judging data; the same network without any training is on "
            f"{untrained:.1%}, and one answer for all on {constant:.1%}: there is nothing to complete. Are the data "
            "those that it was made for?"
        )


def _read_curve(path: Path, own: Estimate) -> Curve:
    """The curve of the owner's training, if it can be the one that made this model."""
    import json

    from modelkeep.completion.curve import Curve
    from modelkeep.core.errors import InputError

    try:
        curve = Curve.from_json(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise InputError(f"The training curve {path} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f'{path} is not a training curve such as {{"steps": [0, 10], "losses": [0.9, 0.2]}}.'
        ) from error
    last = curve.losses[-1]
    if own.high < min(curve.best, last) or own.low > max(curve.best, last):
        raise InputError(
            f"The training curve {path} ends at a loss of {last:.1%} (at best {curve.best:.1%}), and the model is "
            f"wrong on {own.value:.1%} of the judging data: it is the curve of another model, or of other data."
        )
    return curve


def _show(found: Hardness, done: StudyResult, written: tuple[Path, ...]) -> None:
    from rich.console import Console

    from modelkeep.report.verdicts import completion_verdict

    console = Console(highlight=False)
    console.print(f"\n{completion_verdict(found)}", markup=False)
    assert found.own_loss is not None
    scratch = sum(found.original_best) / len(found.original_best)
    console.print(
        f"Wrong on the judging data: your model {found.own_loss.value:.1%}, the training that it is compared with at "
        f"best {scratch:.1%}."
    )
    console.print(found)
    refusals = {
        (record.parameters["procedure"], record.value["refused"]): None
        for record in done.records
        if "refused" in record.value
    }
    for procedure, why in refusals:
        console.print(f"{procedure} was left out: {why}", markup=False)
    console.print("written: " + ", ".join(str(path) for path in written), soft_wrap=True, markup=False)
