"""ACAS Xu: advice for unmanned aircraft. The data is not public, so it is drawn from a public network, as in Leino2022,
section 7.4.4: random inputs in the network's ranges, labelled by the network."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, pairwise
from pathlib import Path

import torch

from modelkeep.core.data import Data
from modelkeep.core.errors import DataError
from modelkeep.core.method import declare
from modelkeep.zoo.datasets.archives import copy_whole
from modelkeep.zoo.datasets.dataset import DataSet, File, Part, Source

NETWORK = "ACASXU_run2a_1_1_batch_2000.nnet"
_ADVICE = ("clear of conflict", "weak left", "weak right", "strong left", "strong right")
FEATURES = ("distance", "angle to intruder", "heading of intruder", "own speed", "speed of intruder")
ROWS: Mapping[Part, int] = {"train": 100_000, "test": 20_000}


class _Numbers:
    """The numbers of a .nnet file, one after the other; lines that start with // are comments."""

    def __init__(self, path: Path) -> None:
        lines = [line for line in path.read_text("ascii").splitlines() if not line.startswith("//")]
        self._left = chain.from_iterable(line.strip().rstrip(",").split(",") for line in lines)

    def take(self, *shape: int) -> torch.Tensor:
        count = int(torch.tensor(shape).prod())
        try:
            return torch.tensor([float(next(self._left)) for _ in range(count)], dtype=torch.float64).reshape(shape)
        except (StopIteration, RuntimeError, ValueError) as error:
            raise DataError("The .nnet file ends too early or holds something that is not a number.") from error


def _parse(files: Mapping[str, Path], part: Part) -> Data:
    """Counts, layer sizes, a flag; minima, maxima, means and ranges of the inputs; then weights and biases."""
    numbers = _Numbers(files[NETWORK])
    layers, inputs, outputs, _ = (int(n) for n in numbers.take(4))
    sizes = [int(n) for n in numbers.take(layers + 1)]
    numbers.take(1)
    if (inputs, outputs) != (len(FEATURES), len(_ADVICE)) or (sizes[0], sizes[-1]) != (inputs, outputs):
        raise DataError(f"An ACAS Xu network has 5 inputs and 5 outputs. Got {inputs} and {outputs}.")
    low, high = numbers.take(inputs), numbers.take(inputs)
    mean, scale = numbers.take(inputs + 1)[:-1], numbers.take(inputs + 1)[:-1]
    generator = torch.Generator().manual_seed(0 if part == "train" else 1)
    drawn = low + (high - low) * torch.rand(ROWS[part], inputs, generator=generator, dtype=torch.float64)
    x = z = (drawn - mean) / scale
    for index, (wide, narrow) in enumerate(pairwise(sizes)):
        z = (z if index == 0 else z.relu()) @ numbers.take(narrow, wide).T + numbers.take(narrow)
    # The scores are costs: the lowest one is the advice.
    return Data(x.float(), z.argmin(dim=1), _ADVICE, features=FEATURES)


_ACAS_XU = declare("dataset", "acas-xu", does="ACAS Xu collision avoidance")(
    DataSet(
        kind="table",
        shape=(5,),
        classes=5,
        rows=ROWS,
        licence="none stated; cite Katz et al. 2017",
        home="https://github.com/guykatz/ReluplexCav2017",
        parse=_parse,
        files=(
            File(
                NETWORK,
                None,
                (
                    Source(
                        f"https://raw.githubusercontent.com/guykatz/ReluplexCav2017/master/nnet/{NETWORK}", copy_whole
                    ),
                ),
            ),
        ),
        notes="Inputs uniform in the network's ranges (seeds 0 and 1), normalised as the network wants them. Nobody "
        "publishes a checksum of the network, so only its structure is checked.",
    )
)
