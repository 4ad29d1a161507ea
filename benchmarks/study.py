"""Studies: what two trials cost over one, how soon the first begins, and the overhead per task; joblib beside it.

Each figure of time is that of a whole run as a user sees it: processes start, torch is imported, trials run.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from _measure import arguments, interleaved, report


def train(*, seed: int, steps: int) -> float:
    """A training that keeps one core busy: a small CNN on noise, on one thread."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    random = torch.Generator().manual_seed(seed)
    x = torch.rand(64, 1, 28, 28, generator=random)
    y = torch.randint(10, (64,), generator=random)
    torch.manual_seed(seed)
    module = nn.Sequential(
        nn.Conv2d(1, 16, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.LazyLinear(10),
    )
    module(x)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(module(x), y)
        torch.autograd.backward(loss)
        optimizer.step()
    return loss.item()


def nothing(*, seed: int) -> int:
    """A trial that costs nothing, so that only the overhead is left."""
    return seed


def ours(function: str, parameters: dict[str, list[int]], seeds: range, processes: int) -> Callable[[], object]:
    """A whole run on a new ledger."""
    from modelkeep.study import Ledger, Local, Study, grid, run

    def measure() -> object:
        with tempfile.TemporaryDirectory() as directory, Ledger(Path(directory) / "ledger.sqlite3") as ledger:
            study = Study("benchmark", grid(function, parameters, seeds))
            result = run(study, ledger, Local(processes, threads=1))
            assert len(result.values()) == len(study.trials)
            return result

    return measure


def joblib_pool(function: Callable[..., object], parameters: dict[str, int], seeds: range) -> Callable[[], object]:
    """The peer: joblib's processes, new ones in each run, as for a user who runs a script."""
    from joblib import Parallel, delayed
    from joblib.externals.loky import get_reusable_executor

    def measure() -> object:
        results = Parallel(n_jobs=2)(delayed(function)(seed=seed, **parameters) for seed in seeds)
        get_reusable_executor().shutdown(wait=True)
        return results

    return measure


def steps_for(seconds: float) -> int:
    """How many steps make a trial of about so many seconds on this machine now."""
    train(seed=0, steps=5)
    start = perf_counter()
    train(seed=0, steps=50)
    return max(50, round(seconds * 50 / (perf_counter() - start)))


def main() -> None:
    """Measure and report."""
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=15.0, help="how long one trial takes, about")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent))
    import study as importable  # this file under the name by which a worker finds it

    steps = steps_for(options.seconds)
    first = options.seed
    trials = {"steps": [steps]}
    medians = interleaved(
        {
            "one": ours("study:train", trials, range(first, first + 1), 2),
            "two": ours("study:train", trials, range(first, first + 2), 2),
            "joblib_one": joblib_pool(importable.train, {"steps": steps}, range(first, first + 1)),
            "joblib_two": joblib_pool(importable.train, {"steps": steps}, range(first, first + 2)),
        },
        repeats=options.repeats,
        warmups=0,
    )
    tasks = 200
    overhead = interleaved(
        {
            "start": ours("study:nothing", {}, range(1), 1),
            "tasks": ours("study:nothing", {}, range(tasks + 1), 1),
            "joblib_start": joblib_pool(importable.nothing, {}, range(2)),
            "joblib_tasks": joblib_pool(importable.nothing, {}, range(tasks + 2)),
        },
        repeats=options.repeats,
        warmups=0,
    )
    report(
        {
            "two_trials_over_one": medians["two"] / medians["one"],
            "joblib_two_trials_over_one": medians["joblib_two"] / medians["joblib_one"],
            "one_trial_seconds": medians["one"],
            "two_over_joblib_two": medians["two"] / medians["joblib_two"],
            "start_seconds": overhead["start"],
            "joblib_start_seconds": overhead["joblib_start"],
            "per_task_ms": (overhead["tasks"] - overhead["start"]) / tasks * 1000,
            "joblib_per_task_ms": (overhead["joblib_tasks"] - overhead["joblib_start"]) / tasks * 1000,
        },
        options.json,
    )


if __name__ == "__main__":
    main()
