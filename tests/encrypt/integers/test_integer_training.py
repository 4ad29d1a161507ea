"""Training in integers against the same step with Python's integers, and against the float gradient."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, one_hot

from digits import held_out_digits, training_digits
from modelkeep.core.errors import InputError
from modelkeep.encrypt import FixedPoint, train_integers
from modelkeep.encrypt.integers.integer_training import IntegerTrainee, _FloatTwin, integer_updates

Matrix = list[list[int]]


def by_hand(trainee: IntegerTrainee, rows: Matrix, target: Matrix) -> tuple[Matrix, Matrix]:
    """The updates of both weights of a network with one hidden layer, rounded to the nearest, in Python's integers."""
    point = trainee.point
    k, a, w = point.modulus, point.activation_bits, point.weight_bits
    first, second = (each.detach().long().tolist() for each in trainee.weights)

    def wrap(value: int) -> int:
        half = 1 << (k - 1)
        return (value + half) % (1 << k) - half

    def read(table: list[int], value: int) -> int:
        return table[(value >> point.dropped) % len(table)]

    def divide(value: int, bits: int) -> int:
        return (wrap(value) + (1 << (bits - 1))) // (1 << bits)

    relu, slope, sigmoid = (table.entries.tolist() for table in (trainee.relu, trainee.slope, trainee.sigmoid))
    shift = 2 * a + point.rate + (len(rows) - 1).bit_length() - w
    into_first = [[0] * len(first[0]) for _ in first]
    into_second = [[0] * len(second[0]) for _ in second]
    for row, wanted in zip(rows, target, strict=True):
        sums = [wrap(sum(u * v for u, v in zip(weights, row, strict=True))) for weights in first]
        hidden = [read(relu, each) for each in sums]
        scores = [wrap(sum(u * v for u, v in zip(weights, hidden, strict=True))) for weights in second]
        error = [read(sigmoid, score) - each for score, each in zip(scores, wanted, strict=True)]
        for j, wrong in enumerate(error):
            for i, value in enumerate(hidden):
                into_second[j][i] += wrong * value
        for i, each in enumerate(sums):
            back = divide(sum(wrong * second[j][i] for j, wrong in enumerate(error)), w)
            passed = divide(back * read(slope, each), a)
            for f, value in enumerate(row):
                into_first[i][f] += passed * value
    return [[divide(v, shift) for v in line] for line in into_first], [
        [divide(v, shift) for v in line] for line in into_second
    ]


@pytest.mark.parametrize("point", [FixedPoint(rounding="nearest"), FixedPoint(8, 10, 26, 26, 12, rounding="nearest")])
def test_a_step_is_that_of_python_bit_for_bit(point: FixedPoint) -> None:
    torch.manual_seed(0)
    trainee = IntegerTrainee(torch.zeros(5), torch.ones(5), [5, 4, 3], point, seed=1)
    x, y = torch.rand(8, 5), torch.arange(8) % 3
    target = one_hot(y, 3).long() << point.activation_bits
    network = trainee.network()
    updates, _ = integer_updates(trainee, network, x, target, None)
    first, second = by_hand(trainee, network.encoder(x).tolist(), target.tolist())
    assert updates[0].tolist() == first
    assert updates[1].tolist() == second
    assert any(any(line) for line in first)


def test_a_step_is_near_the_float_gradient() -> None:
    torch.manual_seed(0)
    point = FixedPoint(activation_bits=12, weight_bits=20, modulus=60, table_bits=36, dropped=20)
    trainee = IntegerTrainee(torch.zeros(5), torch.ones(5), [5, 8, 3], point, seed=1)
    twin = _FloatTwin(trainee)
    x, y = torch.rand(16, 5), torch.arange(16) % 3
    loss = binary_cross_entropy_with_logits(twin(x), one_hot(y, 3).float(), reduction="sum") / 16
    torch.autograd.backward(loss)
    updates, _ = integer_updates(
        trainee, trainee.network(), x, one_hot(y, 3).long() << 12, torch.Generator().manual_seed(0)
    )
    floats = [p.grad for p in twin.parameters()]
    for update, gradient in zip(updates, [floats[0], floats[2], floats[1], floats[3]], strict=True):
        assert gradient is not None
        torch.testing.assert_close(update.float() / 2**20, gradient * 2.0**-point.rate, rtol=0.02, atol=2e-4)


def test_digits_are_learned_in_integers() -> None:
    found = train_integers(training_digits(), held_out=held_out_digits(), epochs=3)
    assert found.integer_accuracy.value > 0.8
    for layer in found.network.layers:
        assert layer.weight.dtype == torch.int64


def test_the_same_seed_gives_the_same_bits() -> None:
    few = training_digits().sample(64)
    one, other = (train_integers(few, held_out=few, epochs=1).network.layers for _ in range(2))
    assert all(torch.equal(mine.weight, yours.weight) for mine, yours in zip(one, other, strict=True))


def test_bad_settings_are_refused() -> None:
    with pytest.raises(InputError, match="rounding"):
        FixedPoint(rounding="up")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="table_bits"):
        FixedPoint(table_bits=50)
