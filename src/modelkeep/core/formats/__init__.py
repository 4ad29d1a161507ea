"""The files that a model is read from and written to; none of them is a pickle."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from modelkeep.core.answerers import describe_onnx, describe_url, is_url, known_about, make_black_box
from modelkeep.core.black_box import Answerer
from modelkeep.core.card import Card, class_names
from modelkeep.core.errors import InputError, MissingExtra, ModelError, Remedy
from modelkeep.core.formats.factory import SPEC, build, build_ours
from modelkeep.core.formats.onnx import UnknownOperation, read_onnx
from modelkeep.core.formats.pt2 import read_pt2
from modelkeep.core.formats.weights import load_weights, read_weights, write_weights
from modelkeep.core.nest import Nest

__all__ = ["read", "write"]

SCHEMA = 1
_PICKLES = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle", ".joblib", ".model")


def read(
    source: str | Path,
    *,
    weights: str | Path | None = None,
    card: Mapping[str, Any],
    defaults: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[nn.Module, Card]:
    """Read a module and its card.

    Args:
        source: `package.module:factory` (then `weights` names a safetensors file), or a file: `.safetensors` that
            was written by `write` for a network of `modelkeep.architectures`, `.pt2` of `torch.export.save`, `.onnx`.
        weights: The safetensors file for a factory; without it, the module is taken as the factory makes it.
        card: What the file does not say, or says wrongly: any field of `Card`.
        defaults: What holds where neither the file nor `card` says anything.
    """
    unknown = set(card) - {field.name for field in fields(Card)}
    if unknown:
        allowed = ", ".join(field.name for field in fields(Card))
        raise InputError(f"A model has no '{', '.join(sorted(unknown))}'. What one can say about it: {allowed}.")
    module: nn.Module | Answerer
    if isinstance(source, str) and is_url(source):
        answerer = describe_url(source, "scores", card.get("classes"))
        module, found = answerer, known_about(answerer)
    elif isinstance(source, str) and SPEC.fullmatch(source):
        module, found = _from_factory(source, weights, card)
    elif weights is not None:
        raise InputError(f"Weights belong to a factory 'package.module:factory'. Got {str(source)!r} with weights.")
    else:
        module, found = _from_file(Path(source), card)
    if isinstance(module, Answerer):
        whole = _card({"bounds": None, **defaults, **found, **card}, source)
        return make_black_box(module, whole), whole
    _refuse_damaged(module, source)
    return module, _card({**defaults, **found, **card}, source)


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


def _from_factory(
    spec: str, weights: str | Path | None, card: Mapping[str, Any]
) -> tuple[nn.Module | Answerer, dict[str, Any]]:
    tensors, found = (None, {}) if weights is None else _tensors_and_card(_file(Path(weights), ".safetensors"))
    # The arguments in a header belong to the factory that it names, not to another one.
    arguments = found.get("arguments", {}) if found.get("architecture") == spec else {}
    arguments = card.get("arguments", arguments)
    module = build(spec, arguments)
    told = {**found, "architecture": spec, "arguments": dict(arguments)}
    if isinstance(module, Answerer):
        if weights is not None:
            raise InputError(f"'{spec}' gives an estimator, which has no weights to load. Got {str(weights)!r}.")
        return module, {**known_about(module), **told}
    if tensors is not None:
        load_weights(module, tensors, weights)
    return module, told


def _from_file(path: Path, card: Mapping[str, Any]) -> tuple[nn.Module | Answerer, dict[str, Any]]:
    match _file(path, ".safetensors", ".pt2", ".onnx").suffix.lower():
        case ".pt2":
            return read_pt2(path, card.get("input_shape"))
        case ".onnx":
            return _from_onnx(path, card)
    tensors, found = _tensors_and_card(path)
    spec = found.get("architecture")
    if not isinstance(spec, str):
        raise ModelError(
            f"'{path}' holds weights, but does not say what network they belong to. Name the factory that builds it:",
            remedy=Remedy(
                f'Model.load("package.module:factory", weights={str(path)!r}, input_shape=…, classes=…).',
                f"package.module:factory --weights {path} in place of the file.",
            ),
        )
    module = build_ours(spec, {**found.get("arguments", {}), **card.get("arguments", {})}, path)
    load_weights(module, tensors, path)
    return module, found


def _from_onnx(path: Path, card: Mapping[str, Any]) -> tuple[nn.Module | Answerer, dict[str, Any]]:
    """The network itself or, where it has an operator that ModelKeep does not read, a session that only answers."""
    try:
        return read_onnx(path, card.get("input_shape"))
    except UnknownOperation as error:
        try:
            answerer = describe_onnx(path)
        except (MissingExtra, ModelError) as reason:
            raise ModelError(f"{error} It cannot be run as a black box either: {reason}") from error
        return answerer, known_about(answerer)


def _file(path: Path, *suffixes: str) -> Path:
    """The path, if a file of one of these kinds is there."""
    if path.suffix.lower() in _PICKLES or _is_pickle(path):
        raise ModelError(
            f"'{path}' is a pickle: to read it can run whatever code its author put in, so ModelKeep never does. "
            "Convert it once: `safetensors.torch.save_file(torch.load(path, weights_only=True), "
            '"model.safetensors")`; then Model.load("package.module:factory", weights="model.safetensors").'
        )
    if path.suffix.lower() not in suffixes:
        raise ModelError(f"Models are read from {', '.join(suffixes)} files or 'package.module:factory'. Got '{path}'.")
    if not path.is_file():
        raise ModelError(f"There is no file '{path}'.")
    if path.stat().st_size == 0:
        raise ModelError(f"'{path}' is empty. Was it copied completely?")
    return path


def _is_pickle(path: Path) -> bool:
    """Whether the content is a pickle, or a zip around one as torch.save writes it, whatever the file is called."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(2)
    if start == b"PK" and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("/data.pkl") for name in archive.namelist())
    return start[:1] == b"\x80" and start[1:] in (b"\x02", b"\x03", b"\x04", b"\x05")


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


def _card(known: dict[str, Any], source: object) -> Card:
    from pydantic import TypeAdapter, ValidationError

    if known.get("inputs") is not None:  # what follows from it need not be said
        nest = TypeAdapter(Nest).validate_python(known["inputs"])
        known = {"bounds": None, **known, "input_shape": (nest.width,)}
    missing = [name for name in ("input_shape", "classes") if name not in known]
    if missing:
        wanted = ", ".join(f"{name}=…" for name in missing)
        options = ", ".join(f"--{name.replace('_', '-')}" for name in missing)
        raise InputError(
            f"'{source}' does not say everything about the model.",
            remedy=Remedy(f"Add: Model.load(…, {wanted}).", f"Add: {options}."),
        )
    try:
        return TypeAdapter(Card).validate_python({**known, "classes": class_names(known["classes"])})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "card"
        raise InputError(f"What is known about '{source}' is not valid at {where}: {first['msg']}.") from error


def _refuse_damaged(module: nn.Module, source: object) -> None:
    damaged = [name for name, weight in module.named_parameters() if not torch.isfinite(weight).all()]
    # A buffer may be infinite: attention masks are.
    damaged += [name for name, buffer in module.named_buffers() if torch.isnan(buffer).any()]
    if damaged:
        shown = ", ".join(damaged[:3]) + (" …" if len(damaged) > 3 else "")
        raise ModelError(f"'{source}' has NaN or infinite weights in {shown}. Did its training diverge?")
