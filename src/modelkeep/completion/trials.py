"""The trials of `modelkeep complete`: an owner's model, a part that is missing, a procedure and a seed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from time import perf_counter
from typing import Any

from modelkeep.completion.curve import Curve
from modelkeep.completion.hardness import Retraining
from modelkeep.completion.part import Part
from modelkeep.completion.problem import Problem
from modelkeep.completion.procedures import read_procedure
from modelkeep.completion.retraining import WHOLE, RetrainedModel, train_and_measure, train_from_scratch
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.files import replace_file
from modelkeep.core.model import Model
from modelkeep.core.tokenizer import Tokenizer
from modelkeep.study.folder import shared_folder, workdir
from modelkeep.study.names import trial
from modelkeep.study.trials import canonical
from modelkeep.training import Recipe, evaluate
from modelkeep.training.batches import derive_seed
from modelkeep.zoo import datasets, pretrained
from modelkeep.zoo.tokenizers import read_tokenizer

_Opened = tuple[Model, Data, Data]
"""The owner's model, what it is trained on, and what it is judged on."""


@trial("completion/part", version=2, formerly=("modelkeep.completion.trials:complete",))
def complete(*, part: dict[str, Any], procedure: str, setting: dict[str, Any], seed: int) -> dict[str, Any]:
    """Retrain a part of the owner's model: the curves of the original and of this training, and how long steps took.

    Where the procedure cannot be used for such a part, the value says why: `{"refused": …}`. The setting is the
    `recipe` and what is `owned`, see `open_owned`; `part` and `recipe` are as their `to_json` has them. With a `curve`,
    that of the training that made the model, no other is trained for comparison.
    """
    model, data, held_out = open_owned(setting["owned"])
    problem = Problem(model, Part.from_json(part), data, held_out, Recipe.from_json(setting["recipe"]))
    first = _original_once(problem, setting, seed)
    again = derive_seed(seed, "retraining")  # or it would see the batches of the original of the same seed again
    try:
        retrained = _time(
            lambda path: read_procedure(procedure)(problem, seed=again, checkpoint=path),
            problem,
            workdir() / "checkpoint",
        )
    except InputError as error:
        return {"refused": str(error)}
    return {"original": first, "retrained": retrained}


def read_retraining(value: Mapping[str, Any], part: str, procedure: str, seed: int) -> Retraining:
    """What a trial's value says, for the measure."""
    first, again = value["original"], value["retrained"]
    return Retraining(
        part,
        procedure,
        seed,
        original=Curve.from_json(first),
        retrained=Curve.from_json(again),
        seconds_per_step=again["seconds_per_step"],
        original_seconds_per_step=first["seconds_per_step"],
    )


def open_owned(owned: Mapping[str, Any]) -> _Opened:
    """Open what is `owned`: a model and data as the user named them, all in JSON.

    It has model, weights, input_shape, device; train, test, label; and `examples`, how many of the test data judge,
    drawn by `seed`. Where given, `card` says more about the model, `ignore`, `missing` and `positive` more about a
    table, `text` is the column of texts and `tokenizer` the file and length of what reads them, and `fingerprints`
    are those that the model and the data must have.
    """
    return _open(canonical(owned))


@lru_cache(maxsize=1)
def _open(text: str) -> _Opened:
    named = json.loads(text)
    shape = None if named["input_shape"] is None else tuple(named["input_shape"])
    device = named["device"]
    read = partial(
        datasets.open,
        label=named["label"],
        ignore=named.get("ignore", ()),
        missing=named.get("missing", "refuse"),
        positive=named.get("positive"),
        text=named.get("text"),
        tokenizer=_tokenizer(named),
    )
    if named["model"] in pretrained.names():
        model = pretrained.load(named["model"], device=device)
        shape = model.input_shape
        test = read(named["test"], part="test", shape=shape)
    else:
        known = named.get("card", {}) | ({} if shape is None else {"input_shape": shape})
        test = read(named["test"], part="test", shape=shape)
        model = Model.load(named["model"], weights=named["weights"], like=test, device=device, **known)
    data = read(named["train"], part="train", shape=shape)
    held_out = test.sample(min(named["examples"], len(test)), named["seed"])
    if named.get("fingerprints", found := fingerprints(model, data, held_out)) != found:
        raise InputError("The model or the data changed since the study began. Start `modelkeep complete` again.")
    return model, data, held_out


def _tokenizer(named: Mapping[str, Any]) -> Tokenizer | None:
    if named["model"] in pretrained.names():
        return pretrained.load_tokenizer(named["model"])
    kept = named.get("tokenizer")
    return None if kept is None else read_tokenizer(kept["file"], length=kept["length"])


def fingerprints(model: Model, data: Data, held_out: Data) -> list[str]:
    """What tells that all three are the same as before."""
    return [model.fingerprint(), data.fingerprint(), held_out.fingerprint()]


def _original_once(problem: Problem, setting: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The original training: the owner's own, where its curve is known; else one with this seed.

    The first trial that comes makes it, for all parts and procedures.
    """
    if "curve" in setting:
        return {**setting["curve"], "seconds_per_step": None}
    model, data, held_out, recipe = problem.model, problem.data, problem.held_out, problem.recipe
    with shared_folder("original", [setting, seed]) as folder:
        kept = folder / "curve.json"
        if not kept.exists():
            found = _time(
                lambda path: train_from_scratch(model, data, held_out, recipe, seed=seed, checkpoint=path),
                Problem(model, WHOLE, data, held_out, recipe),
                folder / "checkpoint",
            )
            with replace_file(kept) as unfinished:
                unfinished.write_text(json.dumps(found), encoding="utf-8")
        value: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        return value


def _time(train: Callable[[Path], RetrainedModel], problem: Problem, checkpoint: Path) -> dict[str, Any]:
    """The curve of a training, and its seconds per step without the evaluations; None where it went on from before."""
    went_on = any(checkpoint.parent.glob(f"{checkpoint.name}*"))
    recipe = problem.recipe
    # One step that does not count: torch loads much of itself with the first optimizer and the first pass.
    once = replace(recipe, steps=1, evaluate_every=1)
    train_and_measure(problem.initial_model(0), problem.data, problem.held_out, once, seed=0)
    begun = perf_counter()
    evaluate(problem.model, problem.held_out, 4 * recipe.batch_size)
    evaluated = perf_counter()
    curve = train(checkpoint).curve
    training = perf_counter() - evaluated - len(curve.steps) * (evaluated - begun)
    for left in checkpoint.parent.glob(f"{checkpoint.name}*"):
        left.unlink()
    seconds = None if went_on else max(0.0, training) / curve.steps[-1]
    return {**curve.to_json(), "seconds_per_step": seconds}
