"""The table [defence]: each declared guard can be chosen, with its own settings as keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modelkeep import Model
from modelkeep.core.errors import InputError
from modelkeep.core.registry import declarations
from modelkeep.guard.defences import MAD, AdaptiveMisinformation, ModelGuardS
from modelkeep.guard.gateway.assembly import make_plan
from modelkeep.guard.gateway.config import parse_config
from modelkeep.guard.gateway.defence_table import defence_table
from modelkeep.zoo.architectures import dense

NETWORK = {"architecture": "modelkeep.architectures:dense", "arguments": {"input_shape": [4], "classes": 3}}
NEEDED: dict[str, dict[str, Any]] = {
    "reverse-sigmoid": {"beta": 0.5},
    "mad": {"surrogate": "network.safetensors"},
    "adaptive-misinformation": {"threshold": 0.5, "misinformation": "network.safetensors"},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a network for the guards that need one."""
    Model(dense([4], 3), input_shape=(4,), classes=3, **NETWORK).save(tmp_path / "network.safetensors")  # type: ignore[arg-type]
    return tmp_path


@pytest.mark.parametrize("name", declarations("guard"))
def test_every_guard_can_be_chosen(name: str, folder: Path) -> None:
    given = {"model": {"path": "m"}, "defence": {"name": name, **NEEDED.get(name, {})}}
    assert parse_config(given, "x", folder).defence.build(folder).name == name


def test_an_old_name_still_works() -> None:
    defence = parse_config({"model": {"path": "m"}, "defence": {"name": "top1"}}, "x", Path()).defence
    assert defence.name == defence.build(Path()).name == "top-1"


def test_networks_and_secrets_are_read_from_their_files(folder: Path) -> None:
    mad = defence_table("mad").model_validate({**NEEDED["mad"], "epsilon": 0.5}).build(folder)
    assert isinstance(mad, MAD)
    assert (mad.epsilon, mad.exact, mad.surrogate.input_shape) == (0.5, 8, (4,))
    misleading = (
        defence_table("adaptive-misinformation").model_validate(NEEDED["adaptive-misinformation"]).build(folder)
    )
    assert isinstance(misleading, AdaptiveMisinformation)
    (folder / "secret").write_text("0123456789abcdef\n")
    (folder / "secret").chmod(0o600)
    keyed = defence_table("modelguard-s").model_validate({"secret_file": "secret"}).build(folder)
    assert keyed == ModelGuardS(secret=b"0123456789abcdef")


def test_a_network_that_does_not_fit_the_model_is_refused_before_anything_is_served(folder: Path) -> None:
    served = {"upstream": "http://127.0.0.1:9", "input_shape": [4], "classes": 3}
    defence = {"name": "mad", **NEEDED["mad"]}
    assert make_plan(parse_config({"model": served, "defence": defence}, "x", folder)).policy.defence.name == "mad"
    with pytest.raises(InputError, match="a model of 3 classes for predictions of 5"):
        make_plan(parse_config({"model": {**served, "classes": 5}, "defence": defence}, "x", folder))
