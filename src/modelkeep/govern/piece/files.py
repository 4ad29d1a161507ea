"""Piece files: each party's part of the weights, dealt from a whole model and, when all agree, put together again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from modelkeep.core.errors import GovernError, join_names
from modelkeep.core.files import replace_file
from modelkeep.core.model import Model
from modelkeep.core.signing import canonical
from modelkeep.govern.agreement.agreement import Agreement
from modelkeep.govern.folder import Folder
from modelkeep.govern.piece.release import Release, read_release

Tensors = dict[str, torch.Tensor]


def split(model: Model, agreement: Agreement, folders: Mapping[str, Folder]) -> None:
    """Write to each party's folder the piece of the weights that it holds.

    The person who splits a model has seen all of its weights. So split a model that is not trained yet, or delete it
    afterwards.
    """
    _require_same(model, agreement)
    parts = _parts(model, agreement)
    missing = [party for party in parts if party not in folders]
    if missing:
        raise GovernError(f"Where do their pieces go? There is no folder for: {', '.join(missing)}.")
    for party in parts:
        if folders[party].piece.exists():
            raise GovernError(
                f"'{folders[party].piece}' is there already. If '{party}' does not need it, move it away first."
            )
    for party, tensors in parts.items():
        write_piece(folders[party].piece, agreement, party, tensors)


def assemble(agreement: Agreement, paths: Mapping[str, Path]) -> Model:
    """The whole model, from pieces that were released with the consent of all, in one and the same pass."""
    released: dict[str, Release] = {}
    for party, path in paths.items():
        tensors = read_piece(path, agreement, party)
        released[party] = read_release(_read_metadata(path, party).get("release"), party)
        released[party].check(agreement, party, tensors)
    passes = {release.of for release in released.values()}
    if len(passes) > 1:
        told = ", ".join(f"{party}: {release.of.step}" for party, release in sorted(released.items()))
        raise GovernError(f"The pieces are of different releases (after updates: {told}). They make no model together.")
    return join(agreement, paths)


def join(agreement: Agreement, paths: Mapping[str, Path]) -> Model:
    """The network with the weights of all pieces, whether or not they were released. `assemble` asks for that."""
    model = agreement.build()
    parts = _parts(model, agreement)
    missing = [party for party in parts if party not in paths]
    if missing:
        raise GovernError(f"The model is not whole without the pieces of: {', '.join(missing)}.")
    for party, own in parts.items():
        fill(own, read_piece(paths[party], agreement, party), party)
    return model


def fill(own: Mapping[str, torch.Tensor], found: Mapping[str, torch.Tensor], party: str) -> None:
    """Copy a piece's tensors into those of the network, which must have the same names, types and shapes."""
    if own.keys() != found.keys():
        missing, extra = join_names(sorted(own.keys() - found.keys())), join_names(sorted(found.keys() - own.keys()))
        raise GovernError(
            f"The piece of '{party}' does not fit the agreement: {missing or 'none'} missing, {extra or 'none'} too "
            "many."
        )
    for name, tensor in own.items():
        if (tensor.shape, tensor.dtype) != (found[name].shape, found[name].dtype):
            raise GovernError(
                f"'{name}' in the piece of '{party}' should be {tensor.dtype} of shape {tuple(tensor.shape)}. "
                f"Got {found[name].dtype} of shape {tuple(found[name].shape)}."
            )
    for name, tensor in own.items():
        tensor.detach().copy_(found[name])


def write_piece(
    path: Path, agreement: Agreement, party: str, tensors: Mapping[str, torch.Tensor], release: Release | None = None
) -> Path:
    """Write a party's part of the weights, whole or not at all, and readable by its owner only."""
    metadata = {"agreement": agreement.name, "party": party}
    if release is not None:
        metadata["release"] = release.line()
    # Copies: safetensors refuses tensors that share memory, and the file must not depend on strides.
    copies = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
    try:
        with replace_file(path) as unfinished:
            save_file(copies, unfinished, metadata=metadata)
        path.chmod(0o600)
    except (OSError, SafetensorError) as error:
        raise GovernError(
            f"The piece '{path}' cannot be written: {error}. Is there space, and may you write there? A piece that was "
            "there before is unchanged."
        ) from error
    return path


def read_piece(path: Path, agreement: Agreement, party: str) -> Tensors:
    """The tensors of a party's piece by their names in the network; none where it brings only data or labels."""
    if party not in agreement.holders:
        return {}
    metadata = _read_metadata(path, party)
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    found = (metadata.get("agreement"), metadata.get("party"))
    if found != (agreement.name, party):
        raise GovernError(
            f"'{path}' is the piece of {found[1]!r} under the agreement {found[0]!r}, not of {party!r} under "
            f"{agreement.name!r}."
        )
    damaged = [name for name, tensor in tensors.items() if tensor.isnan().any()]
    if damaged:
        raise GovernError(f"The piece '{path}' of '{party}' has NaN in {join_names(damaged)}.")
    return tensors


def _read_metadata(path: Path, party: str) -> dict[str, str]:
    try:
        with safe_open(path, framework="pt") as file:
            return dict(file.metadata() or {})
    except (OSError, SafetensorError) as error:
        raise GovernError(f"The piece '{path}' of '{party}' cannot be read: {error}. Is it complete?") from error


def _require_same(model: Model, agreement: Agreement) -> None:
    """Refuse to deal out a model that the parties could not build again."""
    # As JSON: a file makes lists of tuples.
    if canonical(asdict(model.card)) != canonical(asdict(agreement.card)):
        raise GovernError(f"'{agreement.name}' is about another model: {agreement.card}. Got {model.card}.")
    built = agreement.build().dtype
    if model.dtype != built:
        raise GovernError(f"The model's weights are {model.dtype}, but its factory makes {built}, as all parties will.")


def _parts(model: Model, agreement: Agreement) -> dict[str, Tensors]:
    """Each holder's parameters and buffers, by their names in the network."""
    parts: dict[str, Tensors] = {holder: {} for holder in agreement.holders}
    for piece, holder in zip(model.pieces(agreement.cuts), agreement.holders, strict=True):
        parts[holder] |= {**piece.parameters, **piece.buffers}
    return parts
