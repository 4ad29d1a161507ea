"""Conversion: a model in another form, read without running code, and written so that it loads by itself.

A state dict in a pickle is read with `torch.load(weights_only=True)`, which builds nothing but tensors.
"""

from __future__ import annotations

import os
import pickle
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from modelkeep.core import formats
from modelkeep.core.errors import InputError, ModelError
from modelkeep.core.formats.advice import refuse_pickle
from modelkeep.core.formats.archives import require_stored_file
from modelkeep.core.formats.factory import build
from modelkeep.core.formats.hugging_face import is_folder, read_folder
from modelkeep.core.formats.pickles import recognise
from modelkeep.core.formats.reading import Reading
from modelkeep.core.formats.timm import TIMM, read_timm
from modelkeep.core.formats.weights import load_weights
from modelkeep.core.model import Model

_PICKLED = "pytorch_model.bin"  # how Hugging Face called the weights before safetensors
# Under which names a checkpoint keeps the weights of the network, the most usual one first.
_PLACES = ("state_dict", "model_state_dict", "model", "module", "network", "net", "weights")
_WRAPPERS = ("module.", "_orig_mod.", "model.", "net.", "network.")  # DataParallel, torch.compile, Lightning


def read_foreign(source: str, factory: str | None, card: Mapping[str, Any], weights: Path | None = None) -> Reading:
    """The model in a state dict (with the `factory` of its network), a folder of Hugging Face or timm's `timm/NAME`.

    What ModelKeep reads anyway is read as always, so that it can be written in another form.
    """
    if TIMM.fullmatch(source):
        module, found = read_timm(source, weights)
        return Reading.of(source, module, {source: found, "what was given": card})
    path = Path(source)
    if is_folder(path) and not list(path.glob("*.safetensors")) and (path / _PICKLED).is_file():
        module, found = _read_pickled_folder(path)
        return Reading.of(source, module, {f"'{source}'": found, "what was given": card})
    pickled = recognise(path)
    if pickled is None or pickled.kind != "state dict":
        return formats.read(factory or source, weights=path if factory else weights, card=card)
    if factory is None:
        refuse_pickle(path, card.get("input_shape"))
    assert factory is not None
    arguments = dict(card.get("arguments", {}))
    built = build(factory, arguments)
    if not isinstance(built, nn.Module):
        raise InputError(f"'{factory}' gives an estimator, which has no weights to load. Got '{source}'.")
    module = built
    load_weights(module, _unwrap(read_state_dict(path), module), path)
    return Reading.of(
        source, module, {"the factory": {"architecture": factory, "arguments": arguments}, "what was given": card}
    )


def read_state_dict(path: Path) -> dict[str, torch.Tensor]:
    """The weights by name in a pickle, also where a checkpoint keeps them beside other things."""
    require_stored_file(path)
    try:
        found: Any = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, OSError, ValueError, KeyError, AttributeError) as error:
        first = str(error).partition("\n")[0]
        raise ModelError(f"'{path}' holds more than weights, or is damaged: {first}") from error
    if not isinstance(found, dict):
        raise ModelError(f"'{path}' should hold weights by name. It holds a {type(found).__name__}.")
    if _are_weights(found):
        return _require_held(dict(found), path)
    places = [name for name in _PLACES if _are_weights(found.get(name))]
    places = places or [str(name) for name, value in found.items() if _are_weights(value)]
    if not places:
        raise ModelError(f"'{path}' holds {', '.join(map(str, found)) or 'nothing'}, none of which is weights by name.")
    return _require_held(dict(found[places[0]]), path)


def _require_held(tensors: dict[str, torch.Tensor], path: Path) -> dict[str, torch.Tensor]:
    """Refuse a tensor that repeats few numbers, by a stride of 0, to a size that was never stored."""
    for name, tensor in tensors.items():
        held = tensor.untyped_storage().nbytes()
        if tensor.numel() * tensor.element_size() > held:
            raise ModelError(f"'{name}' in '{path}' is of shape {tuple(tensor.shape)}, but holds {held:,} bytes.")
    return tensors


def _read_pickled_folder(folder: Path) -> tuple[nn.Module, dict[str, Any]]:
    """A folder of Hugging Face from before safetensors: the same folder with the same weights in a safe form."""
    weights = {name: tensor.contiguous().clone() for name, tensor in read_state_dict(folder / _PICKLED).items()}
    with TemporaryDirectory() as place:
        for file in folder.glob("*.json"):
            shutil.copy(file, place)
        save_file(weights, Path(place) / "model.safetensors", metadata={"format": "pt"})
        return read_folder(Path(place))


def _are_weights(value: object) -> bool:
    return isinstance(value, Mapping) and bool(value) and all(isinstance(each, torch.Tensor) for each in value.values())


def _unwrap(tensors: dict[str, torch.Tensor], module: nn.Module) -> dict[str, torch.Tensor]:
    """The tensors without the prefix that a wrapper around the network gave to all of them."""
    wanted = module.state_dict()
    while tensors and not set(tensors) & set(wanted):
        prefix = next((each for each in _WRAPPERS if all(name.startswith(each) for name in tensors)), None)
        if prefix is None:
            break
        tensors = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
    return tensors


def write_pt2(model: Model, path: Path) -> Path:
    """Write the network as a program of `torch.export` for batches of any size; class names do not fit in it."""
    if model.nest is not None:
        raise InputError("A .pt2 file holds a network of one input tensor. Write this one as .safetensors.")
    if not path.parent.is_dir():
        raise ModelError(f"'{path}' cannot be written: its folder does not exist.")
    x = model.preprocess(model.probe())
    try:
        program = torch.export.export(model.module, (x,), dynamic_shapes=({0: torch.export.Dim("batch")},))
        unfinished = path.with_name(f".{path.stem}.unfinished.pt2")  # torch insists on the suffix
        torch.export.save(program, unfinished)
        os.replace(unfinished, path)
    except OSError as error:
        raise ModelError(f"'{path}' cannot be written: {error.strerror}.") from error
    except Exception as error:  # whatever torch says about code that it cannot export
        told = re.sub(r"\s+", " ", str(error))[:300]
        raise ModelError(f"torch.export cannot export the network: {told}. Write it as .safetensors.") from error
    return path
