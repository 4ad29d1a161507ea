"""One name for each thing: in every verb, in every method, and old names say the new one."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import pytest
import typer

from cli.running import Run
from modelkeep import cli
from modelkeep.cli.vocabulary import _OLD
from modelkeep.core.method import options_of
from modelkeep.core.registry import declarations, families

# What an option is called elsewhere, or was once called here, and what it is called in this house.
SYNONYMS = {
    "radius": "eps max-distance perturbation",
    "norm": "metric distance lp",
    "seed": "random-state random-seed rng",
    "out": "output output-dir outdir out-dir output-file dest destination to report-dir",
    "device": "gpu cuda on",
    "data": "dataset data-set test-data inputs",
    "train": "train-data training-data train-set",
    "batch-size": "batch bs minibatch",
    "learning-rate": "lr rate-of-learning",
    "epochs": "epoch num-epochs",
    "examples": "n num-examples n-examples limit count-of-examples",
    "classes": "class-names names",
    "input-shape": "shape size-of-input",
    "label": "target-column label-column",
    "json": "as-json format-json",
    "slice": "layer place module",
    "method": "algorithm",
}
# The same words wherever a verb has the option itself, but for these verbs, in which the thing is a narrower one.
SAME = {
    "--again": (), "--arguments": (), "--batch-size": (), "--bounds": (), "--cache": (), "--classes": (),
    "--config": (),
    "--data": ("certify verify", "govern demo", "govern draft", "govern serve", "guard init", "privacy"),
    "--device": (), "--engine": ("audit",),
    "--epochs": ("privacy",), "--guarantee": (), "--ignore": (), "--input-shape": (), "--label": (),
    "--mean": (), "--missing": (), "--norm": (), "--patience": (), "--processes": (), "--radius": (), "--seed": (),
    "--std": (), "--text": (), "--tokenizer": (), "--train": ("audit",), "--weights": ("certify verify",),
}  # fmt: skip
# Of these a verb says more, but begins with the same words.
BEGINNINGS = {
    "--examples": ("How many examples",),
    "--json": ("Print",),
    "--ledger": ("The ledger's file",),
    "--list": ("Print",),
    "--out": ("The folder for", "The file for"),
    "--save": ("Where to save the",),
}
# Of these the help says what they are of: the steps of an attack or of a training, a part of a network or of a set.
OF_THE_VERB = [
    "--attack",
    "--curve",
    "--cut",
    "--defence",
    "--folder",
    "--format",
    "--key",
    "--labels-at",
    "--learning-rate",
    "--method",
    "--model",
    "--name",
    "--optimizer",
    "--part",
    "--port",
    "--price",
    "--purpose",
    "--queries",
    "--rate",
    "--slice",
    "--steps",
    "--store",
    "--policy",
]


def _commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    below = getattr(command, "commands", None)
    if below is None:
        yield " ".join(path), command
    for name, each in (below or {}).items():
        yield from _commands(each, (*path, name))


VERBS = dict(_commands(typer.main.get_command(cli.app)))


def _own_options() -> dict[str, dict[str, Any]]:
    """The options that the verbs have themselves: by name, then by verb."""
    found: dict[str, dict[str, Any]] = defaultdict(dict)
    for verb, command in VERBS.items():
        for option in command.params:
            if option.param_type_name == "option" and option.name != "help":
                for name in option.opts:
                    found[name][verb] = option
    return found


def _settings() -> dict[str, list[str]]:
    """The settings of all methods, as options are spelled, and who has them."""
    found: dict[str, list[str]] = defaultdict(list)
    for family in families():
        for name, declared in declarations(family).items():
            method = declared.load()
            if isinstance(method, type) and is_dataclass(method):
                for option in options_of(method):
                    found[option.name.replace("_", "-")].append(f"{family}/{name}")
    return found


def test_no_verb_and_no_method_calls_a_thing_by_another_name() -> None:
    names = {name.lstrip("-"): list(verbs) for name, verbs in _own_options().items()} | dict(_settings())
    assert len(names) > 150
    for ours, others in SYNONYMS.items():
        assert ours in names
        for other in others.split():
            assert other not in names, f"{names[other]}: --{other} is called --{ours}"


def test_an_option_that_several_verbs_have_means_the_same() -> None:
    shared = {name: verbs for name, verbs in _own_options().items() if len(verbs) > 1}
    for name, verbs in shared.items():
        helps = {verb: option.help or "" for verb, option in verbs.items()}
        assert all(helps.values()), f"{name} has no help: {helps}"
        if name in SAME:
            alike = {verb: text for verb, text in helps.items() if verb not in SAME[name]}
            assert len(set(alike.values())) == 1, f"{name} is said in several ways: {alike}"
        elif name in BEGINNINGS:
            assert all(text.startswith(BEGINNINGS[name]) for text in helps.values()), f"{name}: {helps}"
        elif len(set(helps.values())) > 1:
            assert name in OF_THE_VERB, f"{name} means several things: {helps}"


def test_a_verb_that_takes_a_model_takes_what_describes_it() -> None:
    plain = ("audit", "explain", "attack", "harden", "bias", "extract", "complete")
    for verb in (*plain, "certify model", "govern advise"):
        names = {name for option in VERBS[verb].params for name in option.opts}
        assert {"--data", "--device", "--seed", "--out", "--weights", "--input-shape", "--label"} <= names, verb


@pytest.mark.parametrize("verb", _OLD)
def test_an_old_name_stands_for_an_option_of_today(verb: str, modelkeep: Run) -> None:
    """The value is refused under the new name, or the command goes on to the next thing that is missing."""
    method = ["--method", "pgd"] if verb == "attack" else []
    shown = modelkeep(*verb.split(), *method, "--help").out
    for old, new in _OLD[verb].items():
        assert new in shown
        assert f"{old} " not in shown
        ran = modelkeep(*verb.split(), f"{old}=?", "--hepl")
        assert f"modelkeep: {old} is now called {new}.\n" in ran.err
        assert f"There is no option {old}" not in ran.err


def test_old_names_do_the_same(modelkeep: Run, digits_model: Path, tmp_path: Path) -> None:
    few = ("--data", "digits", "--examples", "20", "--steps", "3", "--no-curve", "--json")
    ran = modelkeep("attack", digits_model, *few, "--attack", "pgd", "--eps=1/10")
    assert ran.code == 0, ran.err
    today = modelkeep("attack", digits_model, *few, "--method", "pgd", "--radius", "0.1")
    assert _without_time(ran.out) == _without_time(today.out)


def _without_time(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    found["provenance"].pop("seconds")
    return found
