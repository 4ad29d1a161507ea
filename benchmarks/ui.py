"""The interactive views of `modelkeep ui` in a real browser: from a click or a step of a slider to the painted answer.

A small CNN on digits of 28×28 pixels, served on loopback to headless Chromium. The clock is the browser's own: it
starts before the event and ends after the frame that shows the answer. Nothing that is asked was asked before, so that
each time includes the computation: `explain` another example at an inner slice (integrated gradients at the input and
at the slice, with exemplars), `slice` another slice, `attack` a step of the radius that was not asked yet, `nearest`
another example to attack, `prove` and `privacy` a step of their sliders. `median` and `p95` are in milliseconds.

Floor: the same forward and backward passes by hand, in this process: `explain` 100 gradients, `attack` as many of PGD's
steps as were needed, `nearest` the 100 of FMN. Floor and browser take turns.
"""

from __future__ import annotations

import statistics
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import torch
import uvicorn
from torch.nn import functional

from _measure import arguments, report
from modelkeep import Data, Model
from modelkeep.attack import PGD
from modelkeep.audit.sources import Sources
from modelkeep.cli.forms import CommandLineForms
from modelkeep.training import Recipe, cross_entropy, fit
from modelkeep.web.app import create_app
from modelkeep.web.workspace import Workspace
from modelkeep.zoo import datasets
from modelkeep.zoo.architectures import small_cnn

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from browser import chromium

LIMIT = 200  # milliseconds within which a view shall answer
SHAPE, SLICE, SLICES = (1, 28, 28), "conv2_relu", ("conv1_relu", "conv1_pool", "conv2_pool", "linear1_relu")
# Runs in the page: does something, and gives the milliseconds until the view has painted what it shows then.
TIMED = """
const [action, ...given] = arguments, done = arguments[arguments.length - 1], lab = document.getElementById("lab");
const act = {
  choose: (index) => document.querySelector(`.examples [data-index="${index}"]`).click(),
  slice: (name) => document.querySelector(`[data-place="${name}"]`).click(),
  slide: (value) => {
    const slider = document.querySelector("input[type=range]");
    slider.value = value;
    slider.dispatchEvent(new Event("input"));
  },
}[action];
const watch = new MutationObserver(() => {
  watch.disconnect();
  done(performance.now() - start);
});
watch.observe(lab, { attributeFilter: ["data-settled"] });
const start = performance.now();
act(...given.slice(0, -1));
"""


def upscale(data: Data) -> Data:
    """The digits in the size of Fashion-MNIST."""
    return replace(data, x=functional.interpolate(data.x, SHAPE[1:], mode="bilinear", align_corners=False).clamp(0, 1))


def train(seed: int) -> tuple[Model, Data, Data]:
    """A small CNN that is right about most digits, the data that it learned, and others."""
    learned, others = (upscale(datasets.load("digits", part)) for part in ("train", "test"))
    torch.manual_seed(seed)
    model = Model(small_cnn(SHAPE, 10), input_shape=SHAPE, classes=learned.classes)
    fit(model, learned, cross_entropy, Recipe(epochs=2, batch_size=64, learning_rate=3e-3), seed=seed)
    return model, learned, others


class _Trained(CommandLineForms):
    """A command line that knows the network that was trained here."""

    def __init__(self, model: Model, learned: Data, others: Data) -> None:
        self.model, self.learned, self.others = model, learned, others

    def open(self, sources: Sources) -> tuple[Model, Data]:
        return self.model, self.others

    def read_training(self, sources: Sources, like: Data) -> Data:
        return self.learned


@contextmanager
def served(model: Model, learned: Data, others: Data, folder: Path) -> Iterator[str]:
    """The application on loopback; its address."""
    workspace = Workspace(folder, _Trained(model, learned, others))
    workspace.open(Sources("small-cnn", "digits28"))
    config = uvicorn.Config(create_app(workspace, "token"), port=0, log_level="warning", timeout_graceful_shutdown=1)
    server, socket = uvicorn.Server(config), config.bind_socket()
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{socket.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        socket.close()


def open_view(driver: Any, address: str) -> None:
    """A view, once it shows what its address asks for."""
    from selenium.webdriver.support.ui import WebDriverWait

    driver.get(address)
    WebDriverWait(driver, 60, 0.02).until(
        lambda _: driver.execute_script("return document.getElementById('lab')?.dataset.settled")
    )


def gradients(model: Model, x: torch.Tensor, count: int) -> float:
    """Milliseconds of so many bare forward and backward passes on one example."""
    bare = model.module.requires_grad_(False)
    start = perf_counter()
    for _ in range(count):
        z = x.clone().requires_grad_()
        torch.autograd.grad(bare(z)[:, 0].sum(), z)
    return 1000 * (perf_counter() - start)


def measure(seed: int, repeats: int) -> dict[str, list[float]]:
    """Milliseconds of each kind of event, and of the floors."""
    model, learned, others = train(seed)
    right = torch.nonzero(model.predict(others.x) == others.y).flatten().tolist()
    chosen = [index for index in right if float(model.probs(others.rows([index])).max()) < 1][: 2 * repeats + 2]
    times: dict[str, list[float]] = {}

    def note(name: str, run: Callable[[], float]) -> None:
        times.setdefault(name, []).append(run())

    with (
        TemporaryDirectory() as folder,
        served(model, learned, others, Path(folder)) as base,
        chromium(Path(folder) / "profile", width=1280) as driver,
    ):
        driver.set_script_timeout(60)

        def event(action: str, value: object) -> Callable[[], float]:
            return lambda: float(driver.execute_async_script(TIMED, action, value))

        driver.get(f"{base}/enter?token=token")
        open_view(driver, f"{base}/explain?slice={SLICE}&example={chosen[0]}")
        show_all(driver)
        for index in chosen[1 : repeats + 1]:
            note("explain", event("choose", index))
            note("explain_floor", lambda index=index: gradients(model, others.rows([index]), 100))  # type: ignore[misc]
        for index in chosen[1 : repeats // len(SLICES) + 1]:
            event("choose", index)()
            for name in SLICES:
                note("slice", event("slice", name))
        open_view(driver, f"{base}/attack?example={chosen[0]}")
        show_all(driver)
        for index in chosen[1 : repeats + 1]:
            note("nearest", event("choose", index))
            note("nearest_floor", lambda index=index: gradients(model, others.rows([index]), 100))  # type: ignore[misc]
            # A step just after another example was chosen: the background has not come to it yet.
            radius = float(driver.execute_script("return new URLSearchParams(location.search).get('radius') ?? 0"))
            assert radius == 0, "choosing an example begins anew"
            note("attack", event("slide", 13))
            needed = passes(model, others, index, driver)
            note("attack_floor", lambda index=index, needed=needed: gradients(model, others.rows([index]), needed))  # type: ignore[misc]
        for view, steps in (("prove", 100), ("privacy", 240)):
            open_view(driver, f"{base}/{view}")
            for i in range(repeats):
                note(view, event("slide", (i * 37 + 5) % steps))
    return times


def show_all(driver: Any) -> None:
    """All examples, so that each can be clicked."""
    while driver.execute_script("const b = document.querySelector('.examples + button'); b.click(); return !b.hidden"):
        pass


def passes(model: Model, data: Data, index: int, driver: Any) -> int:
    """How many backward passes PGD takes at the radius that the view shows."""
    radius = float(driver.execute_script("return Number(new URLSearchParams(location.search).get('radius'))"))
    return PGD(norm="l2", radius=radius)(model, data.take([index])).gradients


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--repeats", type=int, default=40)
    given = parser.parse_args()
    torch.set_num_threads(1)
    times = measure(given.seed, given.repeats)
    figures: dict[str, float | int | str] = {}
    for name, taken in times.items():
        figures[f"{name}_ms"] = statistics.median(taken)
        if not name.endswith("_floor"):
            figures[f"{name}_p95_ms"] = statistics.quantiles(taken, n=20)[-1]
            figures[f"{name}_over_{LIMIT}_ms"] = sum(each > LIMIT for each in taken)
    report({"repeats": given.repeats, **figures}, given.json)


if __name__ == "__main__":
    main()
