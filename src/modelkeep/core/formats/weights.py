"""Weights in a safetensors file: written atomically, with a JSON header, and loaded strictly."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

from modelkeep.core.errors import ModelError, Remedy
from modelkeep.core.files import replace_file

HEADER = "modelkeep"
"""The key of safetensors' `__metadata__` under which our JSON stands."""


def write_weights(path: Path, module: nn.Module, header: Mapping[str, Any]) -> Path:
    """Write the weights of `module` and `header` to `path`. Either all of it is there afterwards, or the old file."""
    kept, aliases = _without_aliases(_state(module))
    text = json.dumps({**header, "aliases": aliases}, ensure_ascii=False)
    try:
        with replace_file(path) as unfinished:
            save_file(kept, unfinished, metadata={"format": "pt", HEADER: text})
    except (OSError, SafetensorError) as error:
        raise ModelError(
            f"'{path}' cannot be written: {error}. Does its folder exist, may you write there, and is there space? "
            "A file that was there before is unchanged."
        ) from error
    return path


def read_weights(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The tensors of a safetensors file, aliases included, and our header (empty in files of other makers)."""
    try:
        with safe_open(path, framework="pt") as file:
            text = (file.metadata() or {}).get(HEADER, "{}")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        header = json.loads(text)
        tensors |= {alias: tensors[name] for alias, name in header.pop("aliases", {}).items()}
    except (OSError, SafetensorError) as error:
        raise ModelError(f"'{path}' cannot be read as safetensors: {error}. Is it complete?") from error
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise ModelError(f"The ModelKeep header of '{path}' is damaged: {error!r}. Save the model again.") from error
    return tensors, header


def load_weights(module: nn.Module, tensors: Mapping[str, torch.Tensor], source: object) -> None:
    """Copy `tensors` into `module`. Every tensor must have its place, and every place its tensor."""
    floating = {tensor.dtype for tensor in tensors.values() if tensor.is_floating_point()}
    if len(floating) == 1:
        module.to(floating.pop())
    wanted = _state(module)
    # Where the module itself shares a weight under two names, a file may hold it under one of them.
    held = {_place(wanted[name]) for name in tensors if name in wanted}
    missing = [name for name, tensor in wanted.items() if name not in tensors and _place(tensor) not in held]
    unexpected = [name for name in tensors if name not in wanted]
    different = [
        f"{name} is {_describe(tensors[name])} in the file, {_describe(tensor)} in the module"
        for name, tensor in wanted.items()
        if name in tensors and _describe(tensors[name]) != _describe(tensor)
    ]
    problems = [
        f"{what}: {', '.join(names)}"
        for what, names in (("missing", missing), ("unexpected", unexpected), ("different", different))
        if names
    ]
    if problems:
        raise ModelError(
            f"The weights in '{source}' are not those of {type(module).__name__}; {'; '.join(problems)}. "
            "Is the factory right,",
            remedy=Remedy(
                "and are its arguments (arguments={…}) those that the model was trained with?",
                "and are its --arguments those that the model was trained with?",
            ),
        )
    module.load_state_dict(dict(tensors), strict=False)


def _state(module: nn.Module) -> dict[str, torch.Tensor]:
    state = module.state_dict()
    others = [name for name, value in state.items() if not isinstance(value, torch.Tensor)]
    if others:
        raise ModelError(f"Only tensors can be saved, but the module keeps other state in: {', '.join(others)}.")
    return state


def _place(tensor: torch.Tensor) -> tuple[int, torch.Size, tuple[int, ...]] | int:
    """Where a tensor lies in memory: equal for two names of one weight. Empty tensors lie nowhere."""
    return (tensor.data_ptr(), tensor.shape, tensor.stride()) if tensor.numel() else id(tensor)


def _without_aliases(state: Mapping[str, torch.Tensor]) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Each weight once, and the other names of those that have several: safetensors refuses shared memory."""
    first: dict[object, str] = {}
    aliases = {}
    for name, tensor in state.items():
        known = first.setdefault(_place(tensor), name)
        if known != name:
            aliases[name] = known
    kept = {name: tensor.detach() for name, tensor in state.items() if name not in aliases}
    # Different views of one storage are not aliases: they become copies.
    storages = Counter(tensor.untyped_storage().data_ptr() for tensor in kept.values())
    shared = {pointer for pointer, count in storages.items() if count > 1}
    return {
        name: tensor.clone(memory_format=torch.contiguous_format)
        if tensor.untyped_storage().data_ptr() in shared
        else tensor.contiguous()
        for name, tensor in kept.items()
    }, aliases


def _describe(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"
