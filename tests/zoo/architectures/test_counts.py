"""The parameter counts of the networks equal the papers'; where a paper contradicts itself, it is said here."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from modelkeep.zoo import architectures

IMAGENET, CIFAR, MNIST = (3, 224, 224), (3, 32, 32), (1, 28, 28)


def build(name: str, input_shape: tuple[int, ...], classes: int, **arguments: Any) -> nn.Module:
    """The network on the meta device: the counts of large networks without their memory."""
    with torch.device("meta"):
        module: nn.Module = getattr(architectures, name)(input_shape, classes, **arguments)
    return module


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def counts(module: nn.Module) -> list[int]:
    """The counts of the children that have parameters, in order."""
    return [count(child) for child in module.children() if count(child)]


# Martic2018, table 3 (the same figures in the ICLR submission): Conv 1 to 5, Linear 1, Linear 2, Logits, and Total.
TABLE_3 = {
    "standard": ([34944, 614654, 885120, 1327488, 884992, 1052672, 16781312, 4096000], 25677182),
    "large": ([52416, 1382784, 1991232, 2986560, 1991000, 2365440, 37754880, 6144000], 54668312),
    "small": ([17472, 153728, 221376, 331968, 221312, 264192, 4196352, 2048000], 7454400),
}
# Two of its 24 cells contradict the other 22. The caption gives every width, and a convolution has K·K·before·after
# weights and one number per channel. Standard's Conv 2 is then 5·5·96·256 + 256 = 614,656, not 614,654; Large's
# Conv 5 is 3·3·576·384 + 384 = 1,991,040, not 1,991,000. The totals are the sums of the printed cells, so two of
# them inherit the slips.
SLIPS = {"standard": {1: +2}, "large": {4: +40}, "small": {}}


@pytest.mark.parametrize("size", TABLE_3)
def test_alexnet_has_the_counts_of_table_3_but_for_two_slips(size: str) -> None:
    printed, total = TABLE_3[size]
    network = build("alexnet", IMAGENET, 1000, size=size)
    assert [ours - theirs for ours, theirs in zip(counts(network), printed, strict=True)] == [
        SLIPS[size].get(column, 0) for column in range(8)
    ]
    assert sum(printed) == total
    assert count(network) - total == sum(SLIPS[size].values())


def test_alexnets_children_are_the_columns_of_table_3() -> None:
    network = build("alexnet", IMAGENET, 1000)
    named = [name for name, child in network.named_children() if count(child)]
    assert named == ["conv1", "conv2", "conv3", "conv4", "conv5", "linear1", "linear2", "logits"]


def test_table_3_leaves_a_convolution_one_number_per_channel_and_the_logits_none() -> None:
    # Appendix A says that the convolutions are batch-normalised. A bias and a learned shift, or a shift and a
    # learned scale, would be two numbers per channel; the table has room for one.
    network = build("alexnet", IMAGENET, 1000)
    parameters = {name: tuple(p.shape) for name, p in network.named_parameters()}
    assert parameters["conv1.norm.bias"] == (96,)
    assert parameters["conv1.conv.weight"] == (96, 3, 11, 11)
    assert not {"conv1.conv.bias", "conv1.norm.weight", "logits.bias"} & parameters.keys()


@pytest.mark.parametrize(("side", "inputs"), [(195, 256), (224, 256), (226, 256), (227, 1024)])
def test_only_images_up_to_226_leave_linear_1_the_256_inputs_of_table_3(side: int, inputs: int) -> None:
    # 1,052,672 = (256 + 1) · 4096: the last pooling leaves one pixel. With the original's padding there would be
    # 6 × 6 of them and 37,752,832 parameters.
    network = build("alexnet", (3, side, side), 1000)
    assert network.get_parameter("linear1.weight").shape == (4096, inputs)


# Martic2018, table 4. A convolution is counted with the scale and shift of its batch normalisation, and without a
# bias (9,536 = 7·7·3·64 + 2·64); the logits have no bias. Section 4's text says that a block has two
# convolutions, but these counts (and the name, 50 layers) need three: 1×1, 3×3, 1×1.
TABLE_4 = {
    "conv1": 9536,
    "section1.block1": 75008,
    "section2.block1": 379392,
    "section3.block1": 1512448,
    "section4.block1": 6039552,
    "section4.block1.residual": 3938304,  # S4 B1 -W: without the learned skip and its normalisation
    "logits": 2048000,
}


@pytest.mark.parametrize("part", TABLE_4)
def test_resnet50_has_the_counts_of_table_4(part: str) -> None:
    assert count(build("resnet50", IMAGENET, 1000).get_submodule(part)) == TABLE_4[part]


def test_resnet50_has_the_known_total_less_the_bias_of_its_logits() -> None:
    assert count(build("resnet50", IMAGENET, 1000)) == 25_557_032 - 1000


def test_resnet50_has_50_layers() -> None:
    network = build("resnet50", IMAGENET, 1000)
    layers = [name for name, part in network.named_modules() if isinstance(part, (nn.Conv2d, nn.Linear))]
    assert len([name for name in layers if ".skip." not in name]) == 50


# Leino2022 prints no counts; these follow from its lists: K·K·before·after + after, and before·after + after.
CERTIFIABLE = {
    "cnn_2c2f": (MNIST, 10, [272, 8224, 156900, 1010]),
    "cnn_4c3f": (MNIST, 10, [320, 16416, 18496, 65600, 1606144, 262656, 5130]),
    "cnn_6c2f": (CIFAR, 10, [896, 9248, 16416, 18496, 36928, 65600, 2097664, 5130]),
    "cnn_8c2f": ((3, 64, 64), 200, [1792, 36928, 65600, 73856, 262272, 295168, 1048832, 3276800 + 200]),
    "cnn_8c2f_full": (
        (3, 64, 64),
        200,
        [1792, 36928, 65600, 73856, 147584, 262272, 295168, 1048832, 4194560, 51400],
    ),
}


@pytest.mark.parametrize("activation", ["relu", "minmax"])
@pytest.mark.parametrize("name", CERTIFIABLE)
def test_the_networks_of_a4_have_the_counts_of_their_lists(name: str, activation: str) -> None:
    input_shape, classes, expected = CERTIFIABLE[name]
    assert counts(build(name, input_shape, classes, activation=activation)) == expected


@pytest.mark.parametrize("name", CERTIFIABLE)
def test_the_names_of_a4_count_the_layers_but_for_8c2f(name: str) -> None:
    # A.4 calls a list of 7 convolutions and 1 dense layer "8C2F". Its text explains it: it is the 8C2F of earlier
    # work without one convolution and one dense layer. Appendix B uses the whole one, our `cnn_8c2f_full`.
    input_shape, classes, _ = CERTIFIABLE[name]
    parts = list(build(name, input_shape, classes).modules())
    convolutions, dense = (sum(isinstance(part, kind) for part in parts) for kind in (nn.Conv2d, nn.Linear))
    promised = (int(name[4]), int(name[6]))
    assert (convolutions, dense) == ((7, 1) if name == "cnn_8c2f" else promised)


@pytest.mark.parametrize(
    ("name", "input_shape", "classes", "arguments", "expected"),
    [
        # LeNet of 002, 8.3.3, on MNIST: the total that is known for Caffe's LeNet, which has the same layers.
        ("lenet", MNIST, 10, {}, 431_080),
        # LFW in table 8.7 has 1850 features, which is 50 × 37 pixels, and 5 classes.
        ("lenet", (1, 50, 37), 5, {}, 520 + 25_050 + (50 * 9 * 6 + 1) * 500 + 501 * 5),
        # Saha2020, 5.4, gives neither widths nor counts: the total that Keras prints for its MNIST example. The
        # deep net has fewer parameters than the shallow one, so what it gains is not gained by size.
        ("shallow_cnn", MNIST, 10, {}, 1_199_882),
        ("deep_cnn", MNIST, 10, {}, 1_048_394),
        # 002, 8.3.3, breast cancer: n = 30 features, 2n = 60 hidden units, 2 classes.
        ("dense", (30,), 2, {}, 31 * 60 + 61 * 2),
        ("dense", (30,), 2, {"hidden": []}, 31 * 2),
        ("dense", (1, 28, 28), 10, {"hidden": [100, 50]}, 785 * 100 + 101 * 50 + 51 * 10),
        # VGG16-BN: torchvision's total for ImageNet, and the usual CIFAR form with one dense layer.
        ("vgg16_bn", IMAGENET, 1000, {"hidden": [4096, 4096]}, 138_365_992),
        ("vgg16_bn", CIFAR, 10, {}, 14_728_266),
        ("small_cnn", (1, 8, 8), 10, {}, 160 + 4640 + 129 * 64 + 65 * 10),
    ],
)
def test_totals(
    name: str, input_shape: tuple[int, ...], classes: int, arguments: dict[str, Any], expected: int
) -> None:
    assert count(build(name, input_shape, classes, **arguments)) == expected


@pytest.mark.parametrize(("blocks", "millions"), [(3, 0.27), (5, 0.46), (7, 0.66), (9, 0.85), (18, 1.7)])
def test_small_resnets_have_the_published_sizes_up_to_their_learned_skips(blocks: int, millions: float) -> None:
    # He et al., "Deep residual learning", table 6, whose skips have no parameters.
    network = build("small_resnet", CIFAR, 10, blocks=blocks)
    skips = sum(count(part) for name, part in network.named_modules() if name.endswith(".skip"))
    assert skips == 16 * 32 + 2 * 32 + 32 * 64 + 2 * 64
    assert float(f"{(count(network) - skips) / 1e6:.2g}") == millions
