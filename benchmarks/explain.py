"""Integrated Gradients against the bare floor and against captum: time in one run, memory in fresh processes.

Floor: the same number of forward and input-gradient passes by hand, summed in place, and nothing else. `extra_mb` is by
how much the process's peak memory grows above what it held before the explanation; captum's own way to bound it,
`internal_batch_size`, is measured beside its default.
"""

from __future__ import annotations

import copy
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from captum.attr import IntegratedGradients

from _measure import arguments, interleaved, report
from modelkeep import Model
from modelkeep.architectures import small_cnn
from modelkeep.explain import Line, influence

SHAPE, CLASSES, BATCH, COUNT = (1, 28, 28), 10, 64, 50


def rivals(seed: int, count: int, batch: int = BATCH) -> dict[str, Callable[[], torch.Tensor]]:
    """Who explains the predicted class of one batch with `count` points on the line from black."""
    torch.manual_seed(seed)
    model = Model(small_cnn(SHAPE, CLASSES), input_shape=SHAPE, classes=CLASSES)
    x = torch.rand(batch, *SHAPE, generator=torch.Generator().manual_seed(seed))
    bare = copy.deepcopy(model.module).requires_grad_(False)
    peer = IntegratedGradients(model.forward)

    def floor() -> torch.Tensor:
        with torch.no_grad():
            predicted = bare(x).argmax(dim=1, keepdim=True)
        total = torch.zeros_like(x)
        for i in range(count):
            sample = (x * ((i + 0.5) / count)).requires_grad_()
            logits = bare(sample)
            total += torch.autograd.grad(logits.gather(1, predicted).sum(), sample)[0]
        return total / count * x

    def ours() -> torch.Tensor:
        found = influence(model, x, distribution=Line(0.0, count=count), seed=seed).attribution
        assert found is not None
        return found

    def captum(internal_batch_size: int | None = None) -> torch.Tensor:
        answer: torch.Tensor = peer.attribute(
            x, target=model.predict(x), n_steps=count, method="riemann_middle", internal_batch_size=internal_batch_size
        )
        return answer

    return {"floor": floor, "ig": ours, "captum_ig": captum, "captum_ig_chunked": lambda: captum(batch)}


def extra_mb(name: str, seed: int, count: int) -> float:
    """The growth of the peak memory in a process of its own, median of three."""
    command = [sys.executable, __file__, "--seed", str(seed), "--memory-of", name, "--count", str(count)]
    runs = [subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(3)]
    return statistics.median(map(float, runs))


def print_memory(name: str, seed: int, count: int) -> None:
    """What the fresh process does: warm up on one example and two points of the line, then explain the batch."""
    rivals(seed, 2, batch=1)[name]()
    before = _peak_mb()
    rivals(seed, count)[name]()
    print(_peak_mb() - before)


def _peak_mb() -> float:
    """The peak of this process alone; the kernel's getrusage would begin with the peak of the parent (Linux only)."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines["VmHWM"].split()[0]) / 1024


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--count", type=int, default=COUNT, help="points on the line")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--memory-of", help="only print the extra memory of this rival (used by the benchmark itself)")
    options = parser.parse_args()
    if options.memory_of is not None:
        print_memory(options.memory_of, options.seed, options.count)
        return
    competing = rivals(options.seed, options.count)
    answers = {name: run() for name, run in competing.items()}
    figures: dict[str, float | int | str] = {"batch": BATCH, "points": options.count, "cores": os.cpu_count() or 1}
    figures["largest_difference_to_captum"] = float((answers["ig"] - answers["captum_ig"]).abs().max())
    times = interleaved(competing, repeats=options.repeats)
    figures |= {f"{name}_over_floor": taken / times["floor"] for name, taken in times.items() if name != "floor"}
    figures |= {f"{name}_extra_mb": extra_mb(name, options.seed, options.count) for name in competing}
    figures["ig_extra_mb_at_a_tenth_of_the_points"] = extra_mb("ig", options.seed, max(1, options.count // 10))
    report(figures, options.json)


if __name__ == "__main__":
    main()
