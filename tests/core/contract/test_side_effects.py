"""Whatever a method touches, the contract names."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from core.contract.little import Mean, honest, images, violation
from modelkeep import Data, Model


@pytest.fixture(autouse=True)
def _settings_of_torch() -> Iterator[None]:
    kept = torch.get_default_dtype(), torch.get_num_threads(), os.getcwd()
    yield
    torch.set_default_dtype(kept[0])
    torch.set_num_threads(kept[1])
    os.chdir(kept[2])
    torch.set_grad_enabled(True)
    torch.backends.cudnn.deterministic = False
    torch.backends.mha.set_fastpath_enabled(True)
    torch.set_float32_matmul_precision("highest")
    torch.nn.modules.module._global_forward_hooks.clear()


def part(model: Model, name: str) -> Any:
    return model.module.get_submodule(name)


def ignore(*_: object) -> None:
    """A hook that does nothing."""


MODEL, DATA = "A method leaves the model as it was.", "A method leaves the data as they were."
RANDOM, SETTINGS = "A method leaves the global random state as it was.", "A method leaves the settings of torch"
FILES, PRINTS = "A method writes no file.", "A method prints nothing."

SPOILS: list[tuple[Callable[[Model, Data], object], str, str]] = [
    (
        lambda m, d: part(m, "output").weight.data[0, 0].nextafter_(torch.tensor(9.0)),
        MODEL,
        "the bits of module.output",
    ),
    (lambda m, d: part(m, "normalisation").running_mean.add_(1), MODEL, "module.normalisation.running_mean"),
    (lambda m, d: part(m, "normalisation").num_batches_tracked.add_(1), MODEL, "num_batches_tracked"),
    (lambda m, d: setattr(part(m, "output"), "bias", nn.Parameter(part(m, "output").bias.detach())), MODEL, "identity"),
    (lambda m, d: part(m, "dropout").train(), MODEL, "training of module.dropout"),
    (lambda m, d: part(m, "output").bias.requires_grad_(False), MODEL, "requires_grad of module.output.bias"),
    (lambda m, d: torch.autograd.backward(m.forward(d.x).sum()), MODEL, "grad of module.convolution.weight"),
    (lambda m, d: part(m, "hidden").register_forward_hook(ignore), MODEL, "_forward_hooks of module.hidden"),
    (lambda m, d: part(m, "hidden").register_forward_pre_hook(ignore), MODEL, "_forward_pre_hooks of module.hidden"),
    (lambda m, d: part(m, "hidden").register_full_backward_hook(ignore), MODEL, "_backward_hooks of module.hidden"),
    (lambda m, d: m.module.register_full_backward_pre_hook(ignore), MODEL, "_backward_pre_hooks of module"),
    (lambda m, d: part(m, "").register_state_dict_post_hook(ignore), MODEL, "_state_dict_hooks of module"),
    (
        lambda m, d: part(m, "").register_load_state_dict_post_hook(ignore),
        MODEL,
        "_load_state_dict_post_hooks of module",
    ),
    (lambda m, d: part(m, "hidden").weight.register_hook(ignore), MODEL, "the hooks of module.hidden.weight"),
    (
        lambda m, d: part(m, "hidden").weight.register_post_accumulate_grad_hook(ignore),
        MODEL,
        "the hooks of module.hidden.weight",
    ),
    (lambda m, d: setattr(m.module, "cache", 1), MODEL, "cache of module"),
    (lambda m, d: setattr(part(m, "dropout"), "p", 0.0), MODEL, "p of module.dropout"),
    (lambda m, d: setattr(m.module, "dropout", nn.Identity()), MODEL, "_modules of module"),
    (lambda m, d: m.module.register_buffer("seen", None), MODEL, "_buffers of module"),
    (lambda m, d: setattr(m, "module", images().module), MODEL, "module of the model"),
    (lambda m, d: setattr(m, "device", torch.device("meta")), MODEL, "device of the model"),
    (lambda m, d: setattr(m, "card", replace(m.card, bounds=None)), MODEL, "card of the model"),
    (lambda m, d: m._preprocess.get_buffer("mean").add_(1), MODEL, "_preprocess.mean"),
    (lambda m, d: d.x[0].zero_(), DATA, "the bits of data.x"),
    (lambda m, d: d.y.zero_(), DATA, "the bits of data.y"),
    (lambda m, d: d.x.requires_grad_(), DATA, "requires_grad of data.x"),
    (lambda m, d: object.__setattr__(d, "name", "mine"), DATA, "data.name"),
    (lambda m, d: torch.rand(1), RANDOM, "torch's"),
    (lambda m, d: np.random.rand(), RANDOM, "numpy's"),
    (lambda m, d: random.random(), RANDOM, "python's"),
    (lambda m, d: torch.set_default_dtype(torch.float64), SETTINGS, "the default dtype"),
    (lambda m, d: torch.set_grad_enabled(False), SETTINGS, "the grad mode"),
    (lambda m, d: setattr(torch.backends.cudnn, "deterministic", True), SETTINGS, "the deterministic flags"),
    (lambda m, d: torch.set_num_threads(torch.get_num_threads() + 1), SETTINGS, "the number of threads"),
    (lambda m, d: torch.set_float32_matmul_precision("medium"), SETTINGS, "the precision of matrix products"),
    (lambda m, d: torch.backends.mha.set_fastpath_enabled(False), SETTINGS, "the fast path of attention"),
    (lambda m, d: nn.modules.module.register_module_forward_hook(ignore), SETTINGS, "the hooks on all modules"),
    (lambda m, d: os.chdir("/"), SETTINGS, "the working directory"),
    (lambda m, d: Path("notes.txt").write_text("x"), FILES, "'notes.txt'"),
    (lambda m, d: Path("a", "b").mkdir(parents=True), FILES, "'a'"),
    (lambda m, d: print("done", flush=True), PRINTS, "done"),  # noqa: T201
    (lambda m, d: print("oops", file=sys.stderr), PRINTS, "oops"),  # noqa: T201
    (lambda m, d: os.write(1, b"from C"), PRINTS, "from C"),
    (lambda m, d: os.write(2, b"from C++"), PRINTS, "from C++"),
]


@pytest.mark.parametrize(("spoil", "promise", "what"), SPOILS, ids=[what for _, _, what in SPOILS])
def test_what_a_method_touches_is_named(spoil: Callable[[Model, Data], object], promise: str, what: str) -> None:
    def touching(model: Model, data: Data, seed: int) -> Mean:
        result = honest(model, data, seed)
        spoil(model, data)
        return result

    message = violation(touching)
    assert message.startswith(promise)
    assert what in message
