"""Factories that build a module. The user may name any; a file may only name one of ours."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from types import FunctionType
from typing import Any

import torch
from torch import nn

from modelkeep.core.answerers import describe_estimator, is_estimator
from modelkeep.core.black_box import Answerer
from modelkeep.core.errors import ModelError, Remedy
from modelkeep.core.formats.hugging_face import FACTORIES, build_hugging_face
from modelkeep.core.formats.timm import FACTORY as TIMM_FACTORY
from modelkeep.core.formats.timm import build_timm

OURS = "modelkeep.architectures"
"""How files and users name our factories. It is a name, not a path: files of every version have it in their header."""
_HOME = "modelkeep.zoo.architectures"
_OTHER_STATE = 20_261_118  # a seed that nobody's own random state is likely to stand at
SPEC = re.compile(r"(?P<package>[A-Za-z_]\w*(\.[A-Za-z_]\w*)*):(?P<name>[A-Za-z_]\w*(\.[A-Za-z_]\w*)*)")


def build(spec: str, arguments: Mapping[str, Any]) -> nn.Module | Answerer:
    """Call the factory `package.module:name` that the user named. What it imports runs with the user's rights.

    It gives a module, or a fitted scikit-learn estimator, which then only answers.
    """
    if spec in FACTORIES:
        return build_hugging_face(spec, arguments, spec)
    match = SPEC.fullmatch(spec)
    if match is None:
        raise ModelError(f"A factory is named 'package.module:factory'. Got '{spec}'.")
    try:
        factory: Any = import_module(_HOME if match["package"] == OURS else match["package"])
        for name in match["name"].split("."):
            factory = getattr(factory, name)
    except (ImportError, AttributeError) as error:
        raise ModelError(
            f"The factory '{spec}' cannot be imported: {error}. Is its package installed or on PYTHONPATH?"
        ) from error
    made = _call(spec, factory, arguments)
    if is_estimator(made):
        return describe_estimator(made)
    return _require_module(spec, made)


def may_be_named(spec: str) -> bool:
    """Whether a file may name this factory, because all of its code is known."""
    return spec.startswith(f"{OURS}:") or spec in FACTORIES or spec == TIMM_FACTORY


def build_ours(spec: str, arguments: Mapping[str, Any], source: object) -> nn.Module:
    """Call the factory that a file names: a public function of `modelkeep.zoo.architectures`, Hugging Face's, timm's.

    A file is untrusted input: to import whatever it names would be to run whatever its author likes.
    """
    if spec in FACTORIES:
        return build_hugging_face(spec, arguments, source)
    if spec == TIMM_FACTORY:
        return build_timm(arguments, source)
    package, _, name = spec.partition(":")
    found = getattr(import_module(_HOME), name, None) if package == OURS and not name.startswith("_") else None
    if not isinstance(found, FunctionType) or not f"{found.__module__}.".startswith(f"{_HOME}."):
        raise ModelError(
            f"'{source}' says that it was built by '{spec}'. A file may only name a factory of {OURS}, of timm "
            f"({TIMM_FACTORY}) or of Hugging Face ({', '.join(FACTORIES)}); any other you must name yourself:",
            remedy=Remedy(
                f'Model.load("package.module:factory", weights={str(source)!r}).',
                f"package.module:factory --weights {source} in place of the file.",
            ),
        )
    return _require_module(spec, _call(spec, found, arguments))


def find_drawn(spec: str, arguments: Mapping[str, Any], module: nn.Module) -> tuple[str, ...]:
    """The parameters of a factory's module that depend on chance: nothing has trained them.

    A factory may load trained weights by itself. Then a second module, made in another random state, has the same.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(_OTHER_STATE)
        again = build(spec, arguments)
    other = dict(again.named_parameters()) if isinstance(again, nn.Module) else {}
    return tuple(
        name
        for name, weight in module.named_parameters()
        if name not in other or weight.shape != other[name].shape or not torch.equal(weight, other[name])
    )


def _call(spec: str, factory: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    try:
        # A new module draws its first weights from the global generator; the caller's stream stays where it was.
        with torch.random.fork_rng(devices=[]):
            return factory(**arguments)
    except Exception as error:
        written = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        raise ModelError(
            f"{spec}({written}) raised {type(error).__name__}: {error}. Its arguments are given as",
            remedy=Remedy("arguments={…}.", "--arguments, in JSON."),
        ) from error


def _require_module(spec: str, module: Any) -> nn.Module:
    if not isinstance(module, nn.Module):
        raise ModelError(
            f"The factory '{spec}' must return an nn.Module or a fitted estimator. Got {type(module).__name__}."
        )
    return module
