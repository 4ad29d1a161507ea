"""A device that is not there: tensors that are said to be on CUDA must not meet those that are not, as with real CUDA.

They are computed on the CPU all the same. So what a program does on a GPU can be followed where there is none: whatever
it forgets to move is an error here as there, and what comes out can be compared with the CPU's, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self
from unittest.mock import patch

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

CUDA = torch.device("cuda")
# Those of CUDA may be copied from the CPU, indexed from there, and asked about.
_MEET = {"copy_", "__getitem__", "__setitem__", "_has_compatible_shallow_copy_type"}


class Elsewhere(TorchFunctionMode):
    """Inside of it `x.to("cuda")` works. What is there is known by its storage, which is kept, so that no other one
    gets its address."""

    def __init__(self) -> None:
        super().__init__()
        self._there: dict[int, torch.UntypedStorage] = {}
        generators: list[torch.Generator] = []
        drawing, made = torch.Generator(), torch.Generator

        class Generator:  # a class: torch writes `torch.Generator | None`
            def __new__(cls, device: Any = "cpu") -> torch.Generator:  # type: ignore[misc]
                found = made()
                if torch.device(device) == CUDA:
                    generators.append(found)
                return found

        self._generators = generators
        self._patches: list[Any] = [
            patch.object(torch, "Generator", Generator),
            patch.object(torch.cuda, "get_rng_state", lambda device=CUDA: drawing.get_state()),
            patch.object(torch.cuda, "set_rng_state", lambda state, device=CUDA: drawing.set_state(state)),
            patch.object(torch.cuda, "manual_seed", drawing.manual_seed),
        ]

    def __enter__(self) -> Self:
        for each in self._patches:
            each.start()
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)  # type: ignore[no-untyped-call]
        for each in self._patches:
            each.stop()

    def has(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor is said to be on CUDA."""
        with torch._C.DisableTorchFunction():
            return tensor.untyped_storage().data_ptr() in self._there

    def _put(self, result: Any) -> Any:
        with torch._C.DisableTorchFunction():
            for tensor in _tensors(result):
                if tensor.numel():
                    storage = tensor.untyped_storage()
                    self._there[storage.data_ptr()] = storage
        return result

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs, name = dict(kwargs or {}), getattr(func, "__name__", "")
        with torch._C.DisableTorchFunction():
            given = [tensor for tensor in _tensors((args, kwargs)) if tensor.numel()]
        there = [tensor for tensor in given if self.has(tensor)]
        if func == torch.Tensor.device.__get__:
            return CUDA if there else torch.device("cpu")
        if func == torch.Tensor.data.__set__:  # type: ignore[attr-defined]
            return func(*args)
        if name in ("numpy", "__array__") and there:
            raise TypeError("can't convert cuda device type tensor to numpy")
        if name in ("to", "as_tensor"):
            return self._moved(func, args, kwargs, bool(there))
        if name == "cpu":
            return args[0].clone() if there else args[0]
        asked, drawn_by = kwargs.get("device"), kwargs.get("generator")
        made_there = asked is not None and torch.device(asked) == CUDA
        if made_there:
            kwargs["device"] = "cpu"
        # The device of a generator is the CPU's here, whatever it was made for.
        drawn_there = any(drawn_by is own for own in self._generators)
        if drawn_by is not None and not drawn_there and (there or made_there):
            raise RuntimeError(f"{name}: the generator is not on the device of what is drawn")
        with torch._C.DisableTorchFunction():
            apart = [tensor for tensor in given if tensor.dim() and not self.has(tensor)]
        if (there or drawn_there) and apart and name not in _MEET:
            raise RuntimeError(f"{name}: expected all tensors to be on the same device")
        result = func(*args, **kwargs)
        return self._put(result) if (there or made_there or drawn_there) and name != "copy_" else result

    def _moved(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], there: bool) -> Any:
        """`x.to(…)`: with a device, a copy that is there, or that is no longer."""
        tensor, *wanted = args
        target = there
        for i, value in enumerate(wanted):
            if isinstance(value, torch.device | str):
                target, wanted[i] = torch.device(value) == CUDA, "cpu"
        if "device" in kwargs and kwargs["device"] is not None:
            target, kwargs["device"] = torch.device(kwargs["device"]) == CUDA, "cpu"
        result = func(tensor, *wanted, **kwargs)
        if target != self.has(result):
            with torch._C.DisableTorchFunction():
                result = result.clone()
        return self._put(result) if target else result


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor))
