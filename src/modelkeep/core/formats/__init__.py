"""The files that a model is read from and written to; none of them is a pickle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from modelkeep.core.answerers import describe_onnx, describe_url, is_url, known_about
from modelkeep.core.black_box import Answerer
from modelkeep.core.card import Card, from_layout, in_layout
from modelkeep.core.errors import InputError, MissingExtra, ModelError, Remedy
from modelkeep.core.formats.advice import refuse_pickle
from modelkeep.core.formats.factory import SPEC, build, build_ours, find_drawn
from modelkeep.core.formats.hugging_face import is_folder, read_folder
from modelkeep.core.formats.onnx import UnknownOperation, read_onnx
from modelkeep.core.formats.pt2 import read_pt2
from modelkeep.core.formats.reading import Reading
from modelkeep.core.formats.weights import load_weights, read_weights, write_weights
from modelkeep.core.model_file import Description, find_description

__all__ = ["Reading", "read", "write"]

SCHEMA = 1
_Found = tuple[nn.Module | Answerer, dict[str, Any]]


def read(
    source: str | Path,
    *,
    weights: str | Path | None = None,
    card: Mapping[str, Any],
    defaults: Mapping[str, Any] = MappingProxyType({}),
    describe: str | Path | None = None,
) -> Reading:
    """Read a module and what is known about it.

    Args:
        source: `package.module:factory` (then `weights` names a safetensors file), a file (`.safetensors` that was
            written by `write` or names a factory of ours, `.pt2` of `torch.export.save`, `.onnx`), a folder of
            Hugging Face, or the URL of a model that only answers.
        weights: The safetensors file for a factory; without it, the module is taken as the factory makes it.
        card: What the file does not say, or says wrongly: any field of `Card`.
        defaults: What holds where nothing else is said.
        describe: The description of the model; without it, the `NAME.toml` or `model.toml` beside it.
    """
    _refuse_unknown(card)
    is_factory = isinstance(source, str) and SPEC.fullmatch(source) is not None
    place = Path(describe) if describe is not None else find_description(source)
    if is_factory and describe is None and weights is not None:
        place = find_description(weights)
    said = Description() if place is None else Description.read(place)
    told = {**said.card(), **card}
    module: nn.Module | Answerer
    drawn: tuple[str, ...] = ()
    if isinstance(source, str) and is_url(source):
        module = describe_url(source, "scores", told.get("classes"))
        found, origin = known_about(module), f"'{source}'"
    elif is_factory:
        weights = weights or said.weights
        module, found = _from_factory(str(source), weights, told, defaults)
        if weights is None and isinstance(module, nn.Module):
            drawn = find_drawn(str(source), found["arguments"], module)
        origin = "the factory" if weights is None else f"'{weights}'"
    elif weights is not None:
        raise InputError(f"Weights belong to a factory 'package.module:factory'. Got {str(source)!r} with weights.")
    else:
        module, found = _from_path(Path(source), told, defaults, said.factory)
        origin = f"'{source}'"
    if isinstance(module, nn.Module):
        _refuse_damaged(module, source)
    elif "bounds" not in defaults:
        defaults = {"bounds": None, **defaults}
    if "arguments" in found:  # what was said of them is in there
        told.pop("arguments", None)
    layers = {
        "the data": defaults,
        origin: found,
        f"'{place}'": {name: value for name, value in said.card().items() if name in told},
        "what was given": {name: value for name, value in card.items() if name in told},
    }
    return Reading.of(source, module, layers, drawn=drawn, device=said.device)


def write(path: str | Path, module: nn.Module, card: Card) -> Path:
    """Write weights and card to one `.safetensors` file: the whole new file, or the old one stays."""
    path = Path(path)
    if path.suffix != ".safetensors":
        raise InputError(f"A model is saved as a '.safetensors' file. Got '{path}'.")
    _refuse_damaged(module, "The module")
    try:
        return write_weights(path, module, {"schema": SCHEMA, "card": card.told()})
    except TypeError as error:
        raise InputError(
            f"The arguments of the architecture must be JSON values: {error}. Got {card.arguments}."
        ) from error


def _refuse_unknown(card: Mapping[str, Any]) -> None:
    allowed = [*(field.name for field in fields(Card)), "layout"]
    unknown = sorted(set(card) - set(allowed))
    if unknown:
        near = get_close_matches(unknown[0], allowed, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise InputError(
            f"A model has no '{', '.join(unknown)}'.{hint} What one can say about it: {', '.join(allowed)}."
        )


def _from_factory(
    spec: str, weights: str | Path | None, told: Mapping[str, Any], defaults: Mapping[str, Any]
) -> _Found:
    tensors: dict[str, torch.Tensor] | None = None
    found: dict[str, Any] = {}
    if weights is not None:
        shape = told.get("input_shape", defaults.get("input_shape"))
        tensors, found = _tensors_and_card(_file(Path(weights), ".safetensors", shape=shape, factory=spec))
    # The arguments in a header belong to the factory that it names, not to another one.
    arguments = found.get("arguments", {}) if found.get("architecture") == spec else {}
    arguments = told.get("arguments", arguments)
    module = build(spec, arguments)
    whole = {**found, "architecture": spec, "arguments": dict(arguments)}
    if isinstance(module, Answerer):
        if weights is not None:
            raise InputError(f"'{spec}' gives an estimator, which has no weights to load. Got {str(weights)!r}.")
        return module, {**known_about(module), **whole}
    if tensors is not None:
        load_weights(module, tensors, weights)
    return module, whole


def _from_path(path: Path, told: Mapping[str, Any], defaults: Mapping[str, Any], factory: str | None) -> _Found:
    if is_folder(path):
        return read_folder(path)
    layout, shape = told.get("layout"), told.get("input_shape")
    taken = None if shape is None else in_layout(shape, layout)
    advised = defaults.get("input_shape") if shape is None else shape
    module: nn.Module | Answerer
    match _file(path, ".safetensors", ".pt2", ".onnx", shape=advised).suffix.lower():
        case ".pt2":
            module, found = read_pt2(path, taken)
        case ".onnx":
            module, found = _from_onnx(path, taken)
        case _:
            return _from_safetensors(path, told, factory)
    if "input_shape" in found:
        found = {**found, "input_shape": from_layout(found["input_shape"], layout)}
    return module, found


def _from_onnx(path: Path, input_shape: Sequence[int] | None) -> _Found:
    """The network itself or, where it has an operator that ModelKeep does not read, a session that only answers."""
    try:
        return read_onnx(path, input_shape)
    except UnknownOperation as error:
        try:
            answerer = describe_onnx(path)
        except (MissingExtra, ModelError) as reason:
            raise ModelError(f"{error} It cannot be run as a black box either: {reason}") from error
        return answerer, known_about(answerer)


def _from_safetensors(path: Path, told: Mapping[str, Any], factory: str | None) -> _Found:
    tensors, found = _tensors_and_card(path)
    spec = found.get("architecture") if factory is None else factory
    if not isinstance(spec, str):
        raise ModelError(
            f"'{path}' holds weights, but does not say what network they belong to. Name the factory that builds it:",
            remedy=Remedy(
                f'Model.load("package.module:factory", weights={str(path)!r}, input_shape=…, classes=…).',
                f"package.module:factory --weights {path} in place of the file.",
            ),
        )
    arguments = {**found.get("arguments", {}), **told.get("arguments", {})}
    module = build_ours(spec, arguments, path)
    load_weights(module, tensors, path)
    return module, {**found, "architecture": spec, "arguments": arguments}


def _file(path: Path, *suffixes: str, shape: Sequence[int] | None = None, factory: str | None = None) -> Path:
    """The path, if a file of one of these kinds is there; `shape` and `factory` make the advice for others exact."""
    refuse_pickle(path, shape, factory)
    if path.suffix.lower() not in suffixes:
        raise ModelError(
            f"Models are read from {', '.join(suffixes)} files, folders of Hugging Face or 'package.module:factory'. "
            f"Got '{path}'."
        )
    if not path.is_file():
        raise ModelError(f"There is no file '{path}'.")
    if path.stat().st_size == 0:
        raise ModelError(f"'{path}' is empty. Was it copied completely?")
    return path


def _tensors_and_card(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    tensors, header = read_weights(path)
    if header and header.get("schema") != SCHEMA:
        raise ModelError(
            f"The header of '{path}' has schema {header.get('schema')!r}; this version of ModelKeep reads {SCHEMA}."
        )
    found = header.get("card", {})
    if not isinstance(found, dict):
        raise ModelError(f"The ModelKeep header of '{path}' is damaged: its card is {found!r}. Save the model again.")
    return tensors, found


def _refuse_damaged(module: nn.Module, source: object) -> None:
    damaged = [name for name, weight in module.named_parameters() if not torch.isfinite(weight).all()]
    # A buffer may be infinite: attention masks are.
    damaged += [name for name, buffer in module.named_buffers() if torch.isnan(buffer).any()]
    if damaged:
        shown = ", ".join(damaged[:3]) + (" …" if len(damaged) > 3 else "")
        raise ModelError(f"'{source}' has NaN or infinite weights in {shown}. Did its training diverge?")
