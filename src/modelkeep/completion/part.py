"""Part: which parameters of a network are missing: a layer, a block, a block but its skip, a share of every layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from pydantic import TypeAdapter, ValidationError
from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from modelkeep.core.errors import InputError, bad_parameter, join_names
from modelkeep.training.batches import derive_seed

_NORMS = (_NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)


@dataclass(frozen=True)
class Part:
    """θ² of Martic2018, section 3.1: what the attacker does not have. Everything else, θ¹, is kept.

    `layers` names modules or parameters of the network, and `("",)` the whole of it; what stands in `without` is kept
    all the same, as the skip connection of the paper's "S4 B1 −W". With a `share` below 1 only that share of each
    parameter's elements is missing, chosen by `seed` ("horizontal" completion), and no buffers.

    >>> network = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> Part("Linear 2", ("2",)).count(network), Part("half", ("",), share=0.5).count(network)
    (8, 12)
    """

    name: str
    layers: tuple[str, ...]
    without: tuple[str, ...] = ()
    share: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.layers:
            raise bad_parameter("Part", "layers", 'names of layers, or ("",) for the whole network', self.layers)
        if not 0 < self.share <= 1:
            raise bad_parameter("Part", "share", "a share above 0 and at most 1", self.share)

    def __contains__(self, name: str) -> bool:
        """Whether the module, parameter or buffer called `name` belongs to the part."""
        return _within(name, self.layers) and not _within(name, self.without)

    def parameters(self, module: nn.Module) -> dict[str, nn.Parameter]:
        """The parameters that are missing, as a whole or in part."""
        known = [name for name, _ in module.named_modules()] + [name for name, _ in module.named_parameters()]
        for name in (*self.layers, *self.without):
            if name not in known:
                raise InputError(
                    f"The network has no layer '{name}' for the part '{self.name}'. It has: {_few(known)}."
                )
        for name in self.without:
            if not _within(name, self.layers):
                raise InputError(f"The part '{self.name}' leaves out '{name}', which is in none of {self.layers}.")
        found = {name: parameter for name, parameter in module.named_parameters() if name in self}
        if not found:
            raise InputError(f"The part '{self.name}' has no parameters: nothing would be missing.")
        return found

    def missing_elements(self, module: nn.Module) -> dict[str, torch.Tensor]:
        """For each of these parameters, which of its elements are missing: booleans of its shape."""
        return {name: self._choose(name, parameter) for name, parameter in self.parameters(module).items()}

    def count(self, module: nn.Module) -> int:
        """How many numbers are missing, as in the tables of Martic2018, appendix B."""
        return sum(round(self.share * parameter.numel()) for parameter in self.parameters(module).values())

    def _choose(self, name: str, parameter: nn.Parameter) -> torch.Tensor:
        if self.share == 1:
            return torch.ones_like(parameter, dtype=torch.bool)
        generator = torch.Generator().manual_seed(derive_seed(self.seed, f"missing {name}"))
        chosen = torch.zeros(parameter.numel(), dtype=torch.bool)
        chosen[torch.randperm(len(chosen), generator=generator)[: round(self.share * len(chosen))]] = True
        return chosen.view(parameter.shape).to(parameter.device)

    def trainable(self, module: nn.Module) -> tuple[str, ...]:
        """The names that make a recipe train only the part, for parts of whole parameters.

        Modules where they are missing as a whole, so that batch norm there learns its statistics too; else parameters.
        """
        return tuple(_widest(module, "", self, self.parameters(module)))

    def to_json(self) -> dict[str, Any]:
        """The part as JSON values."""
        return asdict(self) | {"layers": list(self.layers), "without": list(self.without)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Part:
        """The part that `to_json` wrote."""
        try:
            return TypeAdapter(Part).validate_python(dict(values))
        except ValidationError as error:
            raise InputError(f"This is not a part of a network: {error}") from error


def parts_of(module: nn.Module) -> tuple[Part, ...]:
    """A part for each layer or block with parameters, in the order of the network: a default for any network.

    Containers are opened, and so is the network itself; any other module of several layers, such as a residual block,
    is one part. A normalisation belongs to the layer before it where both stand in one `nn.Sequential`.

    >>> [part.name for part in parts_of(nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Linear(8, 2)))]
    ['0', '2']
    """
    if next(module.parameters(), None) is None:
        raise InputError("The network has no parameters, so no part of it can be missing.")
    if next(module.children(), None) is None:
        return (Part("all", ("",)),)
    return tuple(Part(layers[0], layers) for layers in _layers(module, ""))


def _layers(module: nn.Module, name: str) -> list[tuple[str, ...]]:
    """The layers below, each as the names that make it up."""
    prefix = f"{name}." if name else ""
    found: list[tuple[str, ...]] = [(prefix + own,) for own, _ in module.named_parameters(recurse=False)]
    for child_name, child in module.named_children():
        if next(child.parameters(), None) is None:
            continue
        full = prefix + child_name
        if isinstance(module, nn.Sequential) and isinstance(child, _NORMS) and found:
            found[-1] += (full,)
        elif _holds_layers(child):
            below = _layers(child, full)
            found += [(full,)] if len(below) == 1 and len(below[0]) > 1 else below
        else:
            found.append((full,))
    return found


def _holds_layers(module: nn.Module) -> bool:
    """Whether a module is there to hold layers: a container, or one that has lists of them, as `TransformerEncoder`."""
    holders = (nn.ModuleList, nn.ModuleDict)
    return isinstance(module, nn.Sequential | nn.ModuleList | nn.ModuleDict) or any(
        isinstance(child, holders) for child in module.children()
    )


def _widest(module: nn.Module, name: str, part: Part, missing: Mapping[str, nn.Parameter]) -> Iterator[str]:
    """The names of the largest modules that are missing as a whole, and of parameters outside of these."""
    whole = name in part and not any(_within(kept, (name,)) for kept in part.without)
    if name and whole and next(module.parameters(), None) is not None:
        yield name
        return
    prefix = f"{name}." if name else ""
    yield from (prefix + own for own, _ in module.named_parameters(recurse=False) if prefix + own in missing)
    for child_name, child in module.named_children():
        yield from _widest(child, prefix + child_name, part, missing)


def _within(name: str, layers: tuple[str, ...]) -> bool:
    return any(layer in ("", name) or name.startswith(f"{layer}.") for layer in layers)


def _few(names: list[str]) -> str:
    return join_names([name for name in names if name])
