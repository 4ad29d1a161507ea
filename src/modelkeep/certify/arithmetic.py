"""Arithmetic: the kernels that may compute a certified network: they sum products directly, and in its own type."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import Any

import torch

from modelkeep.core.errors import ModelError

# By these the libraries round more coarsely than torch says; their plain values follow.
_ENVIRONMENT = {
    "ONEDNN_DEFAULT_FPMATH_MODE": ("STRICT",),
    "DNNL_DEFAULT_FPMATH_MODE": ("STRICT",),
    "MKL_BLAS_COMPUTE_MODE": ("STANDARD",),
    "NVIDIA_TF32_OVERRIDE": ("0",),
}


@contextmanager
def plain_kernels(device: torch.device) -> Iterator[None]:
    """Within, a convolution is a sum of products in some order. Settings that rule this out are refused.

    NNPACK computes a convolution by Winograd's transform, at batches of 16 and more where oneDNN is off or not there
    (macOS), and was seen to err by 14 times what a sum can. What cuDNN chooses is not known. Both are left out here;
    torch's own kernels take their place.
    """
    require_plain_arithmetic(device)
    with _WITHOUT.held():
        yield


class _Without:
    """Turns the fast kernels off while at least one thread needs that, as their switches are those of the process."""

    def __init__(self) -> None:
        self._lock, self._holders = Lock(), 0
        self._before: tuple[bool, bool] = (True, True)

    @contextmanager
    def held(self) -> Iterator[None]:
        with self._lock:
            if not self._holders:
                self._before = torch._C._get_nnpack_enabled(), torch._C._get_cudnn_enabled()
                self._switch(False, False)
            self._holders += 1
        try:
            yield
        finally:
            with self._lock:
                self._holders -= 1
                if not self._holders:
                    self._switch(*self._before)

    @staticmethod
    def _switch(nnpack: bool, cudnn: bool) -> None:
        torch._C._set_nnpack_enabled(nnpack)
        torch._C._set_cudnn_enabled(cudnn)


_WITHOUT = _Without()


def require_plain_arithmetic(device: torch.device) -> None:
    """Refuse devices and settings of torch under which a network rounds more coarsely than its type does."""
    if device.type not in ("cpu", "cuda") or torch.version.hip is not None:
        raise ModelError(
            f"How the kernels of the device '{device.type}' round is not known, so nothing computed there can be "
            'certified. Use the CPU: Model(..., device="cpu").'
        )
    if _read(torch.get_float32_matmul_precision) != "highest":
        raise ModelError(
            "torch may round float32 products to fewer digits than float32 has (TF32, bfloat16): no bound covers that. "
            'Call torch.set_float32_matmul_precision("highest") first, or set torch.backends.fp32_precision = "ieee".'
        )
    backends: Any = torch.backends
    for library in ("mkldnn", "cuda") if device.type == "cuda" else ("mkldnn",):
        for kind in ("matmul", "conv"):
            settings = getattr(getattr(backends, library), kind, None)  # newer than torch 2.6
            found = _read(partial(getattr, settings, "fp32_precision", "none"))
            if found not in ("none", "ieee"):
                raise ModelError(
                    f"{'oneDNN' if library == 'mkldnn' else 'CUDA'} may round float32 products to fewer digits than "
                    f"float32 has: no bound covers that. Set torch.backends.{library}.{kind}.fp32_precision to "
                    '"ieee" first.'
                )
    for name, plain in _ENVIRONMENT.items():
        if os.environ.get(name, plain[0]).upper() not in plain:
            raise ModelError(
                f"The environment sets {name}={os.environ[name]}, by which products are rounded to fewer digits than "
                "their type has: no bound covers that. Start again without it."
            )
    if torch.is_autocast_enabled(device.type):
        raise ModelError("Under torch.autocast a network computes in another type than its own. Leave it out here.")


def _read(setting: Callable[[], Any]) -> Any:
    """The setting; None where torch says that settings contradict each other."""
    try:
        return setting()
    except RuntimeError:
        return None
