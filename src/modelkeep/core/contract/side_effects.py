"""What no run of a method may touch: pictures of it before and after, compared.

A picture says for each thing by its name whether it is still the same. Each promise is the docstring of the function
that takes the picture.
"""

from __future__ import annotations

import hashlib
import os
import random
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules import module as torch_modules

from modelkeep.core.data import Data
from modelkeep.core.model import Model

Picture = dict[str, object]
_GONE = object()


class ContractViolation(AssertionError):
    """A method broke a promise that all methods give."""


def violation(promise: Callable[..., Any], occasion: str, what: str) -> ContractViolation:
    """The one form of message: the promise, when it was broken, and how."""
    return ContractViolation(f"{promise.__doc__} Broken {occasion}: {what}.")


@contextmanager
def forbid_side_effects(model: Model, data: Data, occasion: str) -> Iterator[None]:
    """Compare the pictures before and after the block, also where it raises."""
    # An empty working directory, where every file is news.
    with tempfile.TemporaryDirectory() as empty, chdir(empty):
        before = [picture(model, data) for picture in PICTURES]
        try:
            with prints_nothing(occasion):
                yield
        finally:
            for picture, was in zip(PICTURES, before, strict=True):
                now = picture(model, data)
                changed = [name for name in {**was, **now} if was.get(name, _GONE) != now.get(name, _GONE)]
                if changed:
                    more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
                    raise violation(picture, occasion, f"it changed {', '.join(changed[:3])}{more}")


@contextmanager
def prints_nothing(occasion: str) -> Iterator[None]:
    """A method prints nothing."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    with tempfile.TemporaryFile("w+") as paper:
        try:
            os.dup2(paper.fileno(), 1)
            os.dup2(paper.fileno(), 2)
            # Python's own streams need not end in these descriptors. A warning does not count as a print.
            with redirect_stdout(paper), redirect_stderr(paper), warnings.catch_warnings(record=True):
                yield
        finally:
            for number, descriptor in enumerate(kept, start=1):
                os.dup2(descriptor, number)
                os.close(descriptor)
            paper.seek(0)
            printed = paper.read()
            if printed:
                raise violation(prints_nothing, occasion, f"it printed {printed[:80]!r}")


def _picture_of_model(model: Model, data: Data) -> Picture:
    """A method leaves the model as it was."""
    picture: Picture = {}
    for name, value in vars(model).items():
        picture[f"{name} of the model"] = id(value) if isinstance(value, nn.Module) else repr(value)
        if isinstance(value, nn.Module):
            for path, part in value.named_modules(prefix=name):
                picture |= _module(path, part)
    return picture


def _picture_of_data(model: Model, data: Data) -> Picture:
    """A method leaves the data as they were."""
    picture: Picture = {}
    for name, value in vars(data).items():
        picture |= _tensor(f"data.{name}", value) if isinstance(value, torch.Tensor) else {f"data.{name}": repr(value)}
    return picture


def _picture_of_random_state(model: Model, data: Data) -> Picture:
    """A method leaves the global random state as it was."""
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {
        "torch's random state": [_bits(state) for state in (torch.get_rng_state(), *cuda)],
        "numpy's random state": [np.asarray(part).tolist() for part in np.random.get_state()],
        "python's random state": random.getstate(),
    }


def _picture_of_settings(model: Model, data: Data) -> Picture:
    """A method leaves the settings of torch and of the process as they were."""
    everywhere = {name: hooks for name, hooks in vars(torch_modules).items() if name.startswith("_global_")}
    return {
        "the working directory": os.getcwd(),
        "the default dtype": torch.get_default_dtype(),
        "the grad mode": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "the number of threads": torch.get_num_threads(),
        "the deterministic flags": (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
            torch.backends.cudnn.deterministic,
            torch.backends.cudnn.benchmark,
        ),
        "the precision of matrix products": torch.get_float32_matmul_precision(),
        "the fast path of attention": torch.backends.mha.get_fastpath_enabled(),
        "the hooks on all modules": {name: tuple(hooks) for name, hooks in everywhere.items() if hooks},
    }


def _picture_of_files(model: Model, data: Data) -> Picture:
    """A method writes no file."""
    return {f"the file '{name}'": True for name in os.listdir()}


PICTURES = (_picture_of_model, _picture_of_data, _picture_of_random_state, _picture_of_settings, _picture_of_files)


def _module(path: str, part: nn.Module) -> Picture:
    picture: Picture = {}
    for name, value in vars(part).items():
        label = f"{name} of {path}"
        if name in ("_parameters", "_buffers"):
            picture[label] = tuple(value)
            for key, tensor in value.items():
                picture |= {f"{path}.{key}": None} if tensor is None else _tensor(f"{path}.{key}", tensor)
        elif name == "_modules":
            picture[label] = [(key, id(child)) for key, child in value.items()]
        elif "hooks" in name:
            picture[label] = tuple(value or ())
        elif isinstance(value, torch.Tensor):
            picture |= _tensor(f"{path}.{name}", value)
        else:  # `training` is one of these
            picture[label] = repr(value) if isinstance(value, bool | int | float | str | tuple | None) else id(value)
    return picture


def _tensor(name: str, tensor: torch.Tensor) -> Picture:
    hooks = tensor._backward_hooks, getattr(tensor, "_post_accumulate_grad_hooks", None)
    return {
        f"the bits of {name}": (tensor.dtype, tensor.shape, _bits(tensor)),
        f"the identity of {name}": (id(tensor), tensor.device),
        f"requires_grad of {name}": tensor.requires_grad,
        f"grad of {name}": _bits(tensor.grad) if tensor.is_leaf and tensor.grad is not None else None,
        f"the hooks of {name}": [tuple(found or ()) for found in hooks],
    }


def _bits(tensor: torch.Tensor) -> str:
    return hashlib.sha256(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data).hexdigest()
