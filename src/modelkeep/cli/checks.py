"""What is checked before any work starts, so that an hour of it is not lost at its end."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from modelkeep.core.errors import InputError, ModelKeepError, did_you_mean

_ROOM = 50_000_000  # bytes: a report, its pictures and a model of a few million parameters


def check_out(folder: Path | None) -> None:
    """Refuse an --out that cannot be written to: a file in its place, no right to write, a full disk."""
    if folder is None:
        return
    there = folder.expanduser().absolute()
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        raise InputError(f"--out must be a folder, or the name of a new one. '{there}' is a file.")
    _try_to_write(there)


def check_out_file(file: Path | None) -> None:
    """Refuse an --out for one file that cannot be written: a folder of that name, or a place that is refused."""
    if file is None:
        return
    if file.is_dir():
        raise InputError(f"--out must be a file. '{file}' is a folder.")
    check_out(file.expanduser().absolute().parent)


def check_device(device: str | None) -> str | None:
    """The --device, where this machine has it."""
    if device is None or device == "cpu":
        return device
    import torch

    kind, _, number = device.partition(":")
    try:
        torch.device(device)
    except RuntimeError as error:
        meant = did_you_mean(kind, ["cpu", "cuda", "mps"])
        raise InputError(f"--device must be such as cpu, cuda or cuda:1. Got '{device}'.{meant}") from error
    if kind == "cuda" and int(number or 0) >= torch.cuda.device_count():
        raise InputError(f"--device must be one that is here. Got '{device}'; here: {_devices()}.")
    if kind not in ("cpu", "cuda") and not _runs_on(device):
        raise InputError(f"--device must be one that is here. Got '{device}'; here: {_devices()}.")
    return device


def _try_to_write(folder: Path) -> None:
    try:
        free = shutil.disk_usage(folder).free
        # A real file: permissions alone do not tell of a disk that is mounted for reading only.
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(f"--out must be a folder that can be written to. '{folder}': {error.strerror}.") from error
    if free < _ROOM:
        raise ModelKeepError(
            f"There are only {free / 1e6:.0f} MB left at '{folder}', and {_ROOM / 1e6:.0f} MB are needed. "
            "Make room, or name another place with --out."
        )


def _runs_on(device: str) -> bool:
    import torch

    try:
        torch.zeros(1, device=device)
    except (RuntimeError, NotImplementedError, AssertionError):
        return False
    return True


def _devices() -> str:
    import torch

    return ", ".join(["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))])
