"""What all benchmarks share: fair timing of rivals in one run, and the one JSON line at the end."""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Mapping
from time import perf_counter


def interleaved(rivals: Mapping[str, Callable[[], object]], *, repeats: int, warmups: int = 1) -> dict[str, float]:
    """Median seconds per rival. Rivals take turns, so that a slow moment of the machine hits all of them."""
    times: dict[str, list[float]] = {name: [] for name in rivals}
    for repeat in range(warmups + repeats):
        for name, run in rivals.items():
            start = perf_counter()
            run()
            if repeat >= warmups:
                times[name].append(perf_counter() - start)
    return {name: statistics.median(taken) for name, taken in times.items()}


def arguments(description: str) -> argparse.ArgumentParser:
    """The parser that every benchmark starts from: `--json` and `--seed`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--seed", type=int, default=0)
    return parser


def report(figures: Mapping[str, float | int | str], as_json: bool) -> None:
    """Print the figures for a person, and for a machine as the last line where `as_json`."""
    width = max(map(len, figures))
    for name, value in figures.items():
        print(f"{name:<{width}}  {value:.4g}" if isinstance(value, float) else f"{name:<{width}}  {value}")
    if as_json:
        print(json.dumps(figures))
