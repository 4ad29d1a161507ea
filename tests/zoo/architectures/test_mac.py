"""The MAC network: the paper's equations, its attention, and that it learns."""

from __future__ import annotations

import pytest
import torch

from modelkeep.core.errors import InputError
from modelkeep.zoo.architectures.mac import MAC, Control


def mac(width: int = 16, steps: int = 3) -> MAC:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return MAC(channels=5, vocabulary=12, answers=4, width=width, steps=steps)


def noise(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def questions(n: int, words: int) -> torch.Tensor:
    return torch.randint(1, 12, (n, words), generator=torch.Generator().manual_seed(n))


def test_reading_is_the_papers_equations() -> None:
    n, places, width = 3, 6, 8
    read = mac(width).read
    memory, control, knowledge = noise(n, width), noise(n, width, 1)[..., 0], noise(n, places, width)
    fast = read(memory, control, knowledge, read.knowledge(knowledge))
    for i in range(n):
        scores = []
        for k in knowledge[i]:
            related = read.memory(memory[i]) * read.knowledge(k)  # r1
            joint = read.related(related) + read.alone(k)  # r2: W [I, k]
            scores.append(read.attention(control[i] * joint))  # r3
        weights = torch.cat(scores).softmax(dim=0)
        torch.testing.assert_close(fast[i], (weights[:, None] * knowledge[i]).sum(dim=0))


def test_control_is_a_mean_of_the_words_that_are_there() -> None:
    control = Control(8, 2)
    words = noise(2, 4, 8)
    empty = torch.tensor([[False, False, True, True], [False, True, True, True]])
    found = control(0, noise(2, 8), noise(2, 8, 1)[..., 0], words, empty)
    torch.testing.assert_close(found[1], words[1, 0])  # a single word is all there is
    weights = torch.linalg.lstsq(words[0, :2].T, found[0]).solution
    assert float(weights.detach().sum()) == pytest.approx(1.0, abs=1e-4)


def test_how_far_a_question_is_filled_up_does_not_matter() -> None:
    network, features, asked = mac().eval(), noise(4, 5, 3, 3), questions(4, 6)
    asked[1, 3:] = 0
    longer = torch.cat([asked, torch.zeros(4, 5, dtype=torch.int64)], dim=1)
    torch.testing.assert_close(network(features, asked), network(features, longer))


def test_examples_of_a_batch_do_not_touch_each_other() -> None:
    network, features, asked = mac().eval(), noise(4, 5, 3, 3), questions(4, 6)
    asked[2, 2:] = 0
    alone = torch.cat([network(features[i : i + 1], asked[i : i + 1]) for i in range(4)])
    torch.testing.assert_close(network(features, asked), alone)


def test_gradients_reach_every_weight_and_the_picture() -> None:
    network, features = mac(), noise(6, 5, 4, 4).requires_grad_()
    network(features, questions(6, 5)).square().sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert bool(parameter.grad.any()), name
    assert features.grad is not None
    assert bool((features.grad != 0).all())


def test_it_sees_where_a_feature_is() -> None:
    network = mac().eval()
    features = torch.zeros(2, 5, 5, 5)
    features[0, 0, 2, 1] = features[1, 0, 2, 3] = 1.0  # far enough from the edge for the padding to play no part
    left, right = network(features, questions(1, 4).expand(2, 4))
    assert not torch.allclose(left, right, atol=1e-4)


@pytest.mark.parametrize(("name", "value"), [("width", 7), ("width", 0), ("steps", 0)])
def test_a_size_that_cannot_be_is_refused(name: str, value: int) -> None:
    with pytest.raises(InputError, match=f"'{name}' parameter of MAC"):
        MAC(channels=1, vocabulary=3, answers=2, **({"width": 8, "steps": 2} | {name: value}))
