"""Explanations against the bare floor and against captum: time in one run, memory in fresh processes.

Floor: the same number of forward and gradient passes by hand, summed in place, and nothing else. Methods of one pass
explain 1,024 examples, the others 64, all in batches of 64; what a call costs once, whatever it explains, is
`fixed_ms`. `time_over_floor` and `captum_time_over_ours` are those of the method with samples where we do worst, and
captum is taken as it does best: as it comes, or with its memory bounded (`chunked`).

Memory is that of Integrated Gradients: by how much the process's peak grows above what it held before. The processes
are told to give freed blocks back at once (glibc's MALLOC_MMAP_THRESHOLD_), so that the peak is what was needed.
"""

from __future__ import annotations

import copy
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from captum import attr as captum
from torch import nn

from _measure import arguments, interleaved, report
from modelkeep import Model
from modelkeep.explain import (
    ClassScore,
    Conductance,
    GradCAM,
    IntegratedGradients,
    Saliency,
    SmoothGrad,
)
from modelkeep.zoo.architectures import small_cnn

SHAPE, CLASSES, BATCH, COUNT, PLACE = (1, 28, 28), 10, 64, 50, "conv2_relu"
ONE_PASS = {"saliency": 1024, "grad_cam": 1024}
WHY = ClassScore("7")


@dataclass(frozen=True)
class Rivals:
    """One method in three hands; `chunked` is captum's with its memory bounded, where it can be."""

    floor: Callable[[], torch.Tensor]
    ours: Callable[[], torch.Tensor]
    captum: Callable[[], torch.Tensor]
    chunked: Callable[[], torch.Tensor] | None = None


def rivals(seed: int, count: int, batch: int = BATCH) -> dict[str, Rivals]:
    """Who explains class 7 on one batch, with `count` samples where the method draws any."""
    torch.manual_seed(seed)
    model = Model(small_cnn(SHAPE, CLASSES), input_shape=SHAPE, classes=CLASSES)
    x = torch.rand(batch, *SHAPE, generator=torch.Generator().manual_seed(seed))
    bare = copy.deepcopy(model.module).requires_grad_(False)
    assert isinstance(bare, nn.Sequential)
    at = [name for name, _ in bare.named_children()].index(PLACE) + 1
    below, above = bare[:at], bare[at:]
    place = model.module.get_submodule(PLACE)

    def slope(part: nn.Module, z: torch.Tensor) -> torch.Tensor:
        z = z.detach().requires_grad_()
        (found,) = torch.autograd.grad(part(z)[:, 7].sum(), z)
        return found

    def floor_line() -> torch.Tensor:
        total = torch.zeros_like(x)
        for i in range(count):
            total += slope(bare, x * ((i + 0.5) / count))
        return total / count * x

    def floor_noise() -> torch.Tensor:
        total, noise = torch.zeros_like(x), torch.Generator().manual_seed(seed)
        for _ in range(count):
            total += slope(bare, x + 0.1 * torch.randn(SHAPE, generator=noise))
        return total / count

    def floor_cam(part: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            z: torch.Tensor = below(part)
        return (slope(above, z).mean(dim=(2, 3), keepdim=True) * z).sum(dim=1)

    def floor_conductance() -> torch.Tensor:
        with torch.no_grad():
            before = below(torch.zeros_like(x))
        total = torch.zeros_like(before)
        for i in range(count):
            with torch.no_grad():
                middle, after = below(x * ((i + 0.5) / count)), below(x * ((i + 1) / count))
            total += slope(above, middle) * (after - before)
            before = after
        return total

    def attribution(found: torch.Tensor | None) -> torch.Tensor:
        assert found is not None
        return found

    def captum_line(internal_batch_size: int | None = None) -> torch.Tensor:
        settings = {"target": 7, "n_steps": count, "method": "riemann_middle"}
        peer = captum.IntegratedGradients(model.forward)
        answer: torch.Tensor = peer.attribute(x, internal_batch_size=internal_batch_size, **settings)
        return answer

    def leaf() -> torch.Tensor:
        return x.clone().requires_grad_()

    def batched(explain: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[], torch.Tensor]:
        return lambda: torch.cat([explain(part) for part in torch.split(x, BATCH)])

    gradient = captum.Saliency(model.forward)
    smooth, through = captum.NoiseTunnel(gradient), captum.LayerConductance(model.forward, place)
    return {
        "saliency": Rivals(
            batched(lambda part: slope(bare, part)),
            lambda: Saliency(quantity=WHY, batch_size=BATCH)(model, x, seed=seed).influence,
            batched(
                lambda part: captum.Saliency(model.forward).attribute(
                    part.clone().requires_grad_(), target=7, abs=False
                )
            ),
        ),
        "smooth_grad": Rivals(
            floor_noise,
            lambda: SmoothGrad(sigma=0.1, steps=count, quantity=WHY, batch_size=BATCH)(model, x, seed=seed).influence,
            lambda: smooth.attribute(leaf(), nt_samples=count, stdevs=0.1, target=7, abs=False),
            lambda: smooth.attribute(
                leaf(), nt_samples=count, nt_samples_batch_size=1, stdevs=0.1, target=7, abs=False
            ),
        ),
        "integrated_gradients": Rivals(
            floor_line,
            lambda: attribution(
                IntegratedGradients(baseline=0.0, steps=count, quantity=WHY, batch_size=BATCH)(
                    model, x, seed=seed
                ).attribution
            ),
            captum_line,
            lambda: captum_line(batch),
        ),
        "grad_cam": Rivals(
            batched(floor_cam),
            lambda: GradCAM(slice=PLACE, quantity=WHY, batch_size=BATCH)(model, x, seed=seed).heat(),
            batched(lambda part: captum.LayerGradCam(model.forward, place).attribute(part, target=7)[:, 0].detach()),
        ),
        "conductance": Rivals(
            floor_conductance,
            lambda: attribution(
                Conductance(slice=PLACE, baseline=0.0, steps=count, quantity=WHY, batch_size=BATCH)(
                    model, x, seed=seed
                ).attribution
            ),
            lambda: through.attribute(x, 0.0, target=7, n_steps=count, method="riemann_trapezoid"),
            lambda: through.attribute(
                x, 0.0, target=7, n_steps=count, method="riemann_trapezoid", internal_batch_size=batch
            ),
        ),
    }


def extra_mb(hands: str, seed: int, count: int) -> float:
    """How far the peak rises for Integrated Gradients, in a process of its own; median of three."""
    command = [sys.executable, __file__, "--seed", str(seed), "--memory-of", hands, "--count", str(count)]
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    runs = [
        subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout for _ in range(3)
    ]
    return statistics.median(map(float, runs))


def print_memory(hands: str, seed: int, count: int) -> None:
    """What the fresh process does: warm up on one example and two points of the line, then explain the batch."""
    getattr(rivals(seed, 2, batch=1)["integrated_gradients"], hands)()
    before = _peak_mb()
    getattr(rivals(seed, count)["integrated_gradients"], hands)()
    print(_peak_mb() - before)


def _peak_mb() -> float:
    """The peak of this process alone; the kernel's getrusage would begin with the peak of the parent (Linux only)."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines["VmHWM"].split()[0]) / 1024


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--count", type=int, default=COUNT, help="samples of the distribution")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="one thread holds the ratios still")
    parser.add_argument("--memory-of", help="only print the extra memory of this rival (used by the benchmark itself)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.memory_of is not None:
        print_memory(options.memory_of, options.seed, options.count)
        return
    figures: dict[str, float | int | str] = {
        "batch": BATCH,
        "samples": options.count,
        "cores": os.cpu_count() or 1,
        "threads": options.threads,
    }
    over_floor, captum_over_ours = {}, {}
    for name in rivals(options.seed, 1, batch=1):
        hands = rivals(options.seed, options.count, ONE_PASS.get(name, BATCH))[name]
        ours = hands.ours()
        figures[f"{name}_difference_to_floor"] = float((ours - hands.floor()).abs().max())
        if name not in ("smooth_grad", "conductance"):  # captum draws other noise, and takes another rule
            figures[f"{name}_difference_to_captum"] = float((ours - hands.captum()).abs().max())
        competing = {"floor": hands.floor, "ours": hands.ours, "captum": hands.captum}
        if hands.chunked is not None:
            competing["captum_chunked"] = hands.chunked
        times = interleaved(competing, repeats=options.repeats)
        if name not in ONE_PASS:
            over_floor[name] = times["ours"] / times["floor"]
            captum_over_ours[name] = min(times[c] for c in competing if c.startswith("captum")) / times["ours"]
        figures |= {f"{name}_{c}_over_floor": taken / times["floor"] for c, taken in times.items() if c != "floor"}
        single = rivals(options.seed, 1, batch=1)[name]
        once = interleaved({"floor": single.floor, "ours": single.ours}, repeats=50)
        figures[f"{name}_fixed_ms"] = 1000 * (once["ours"] - once["floor"])
        if name == "saliency":  # one pass for one example: nothing but what a call costs
            figures["single_example_over_floor"] = once["ours"] / once["floor"]
    memory = {hands: extra_mb(hands, options.seed, options.count) for hands in ("floor", "ours", "captum", "chunked")}
    figures |= {f"integrated_gradients_{hands}_extra_mb": taken for hands, taken in memory.items()}
    tenth = extra_mb("ours", options.seed, max(1, options.count // 10))
    figures["time_over_floor"] = max(over_floor.values())
    figures["worst_method"] = max(over_floor, key=over_floor.__getitem__)
    figures["peak_memory_growth_50_over_5_steps"] = memory["ours"] / tenth
    figures["captum_time_over_ours"] = min(captum_over_ours.values())
    figures["captum_memory_over_ours"] = memory["captum"] / memory["ours"]
    report(figures, options.json)


if __name__ == "__main__":
    main()
