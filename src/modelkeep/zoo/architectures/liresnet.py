"""LiResNet: residual networks whose blocks are linear, so that their Lipschitz bound is tight (Hu2023)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from modelkeep.core.errors import bad_parameter
from modelkeep.zoo.architectures.layers import Layers, check, classifier
from modelkeep.zoo.architectures.minmax import MinMax


class LinearBlock(nn.Module):
    """x + conv(x), without an activation inside: one linear map, bounded as a whole.

    The bound of an ordinary block is 1 + the bound of its branch, however little the two add up; here it is that of
    the sum itself.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        added: torch.Tensor = x + self.conv(x)
        return added


def small_liresnet(
    input_shape: Sequence[int], classes: int, blocks: int = 4, width: int = 32, hidden: int = 256
) -> nn.Module:
    """`stem` (halves the image), `block1` …, `neck` (halves it again), one `hidden` layer, `logits`; MinMax between.

    >>> small_liresnet((3, 32, 32), 10)(torch.zeros(1, 3, 32, 32)).shape
    torch.Size([1, 10])
    """
    check("small_liresnet", input_shape, classes)
    for name, value in (("blocks", blocks), ("width", width), ("hidden", hidden)):
        if value < 1 or (name != "blocks" and value % 2):
            allowed = "at least 1" if name == "blocks" else "an even number, as MinMax sorts pairs"
            raise bad_parameter("small_liresnet", name, allowed, value)
    features = Layers(stem=nn.Conv2d(input_shape[0], width, 4, stride=2, padding=1), stem_minmax=MinMax())
    for i in range(1, blocks + 1):
        features[f"block{i}"] = LinearBlock(width)
        features[f"block{i}_minmax"] = MinMax()
    features["neck"] = nn.Conv2d(width, 2 * width, 4, stride=2, padding=1)
    features["neck_minmax"] = MinMax()
    return classifier("small_liresnet", features, input_shape, classes, [hidden], activation="minmax")
