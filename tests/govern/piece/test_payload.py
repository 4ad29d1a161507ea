"""Loads: what crosses comes back as it was, and what the network cannot give there is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from modelkeep.core.errors import WireError
from modelkeep.govern.piece.payload import Payload, require_fit, specs
from modelkeep.govern.wire.message import Message

numbers = st.integers(-5, 5) | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.none()


@given(st.lists(st.none() | st.just(torch.ones(2)) | numbers, max_size=6), st.booleans())
def test_load_crosses_as_it_is(values: list[Any], drawn: bool) -> None:
    wants = tuple(True for value in values if isinstance(value, torch.Tensor))
    payload = Payload(tuple(values), wants, torch.default_generator.get_state() if drawn else None)
    came = Payload.read(payload.message("activations", {"leg": 1}))
    assert [type(value) for value in came.values] == [type(value) for value in values]
    assert all(a is b or a == b for a, b in zip(came.values, values, strict=True))
    assert (came.wants, came.random is None) == (wants, not drawn)


@pytest.mark.parametrize("factor", [1, 3])
def test_shapes_and_sizes_are_learned_from_two_probes(factor: int) -> None:
    def crossing(rows: int) -> tuple[Any, ...]:
        return torch.zeros(factor * rows, 4), rows * 7 + 1, 0.5, True, torch.zeros(3, dtype=torch.int64)

    expected = specs(crossing(2), crossing(3))
    wants = (True, False)
    require_fit(Payload(crossing(50), wants), expected, 50, "They")
    for wrong in (49, 51, 10**6):
        with pytest.raises(WireError, match="should have shape"):
            require_fit(Payload((*crossing(50)[:1], *crossing(wrong)[1:]), wants), expected, 50, "They")
    for place, value in ((2, 0.25), (3, False)):
        changed = [*crossing(50)]
        changed[place] = value
        with pytest.raises(WireError, match="should have shape"):
            require_fit(Payload(tuple(changed), wants), expected, 50, "They")
    with pytest.raises(WireError, match="gradient of whole numbers"):
        require_fit(Payload(crossing(50), (True, True)), expected, 50, "They")


@pytest.mark.parametrize("drawn", [0, 1, 5, 623, 624, 625, 2000])
def test_a_state_of_the_generator_crosses_whatever_was_drawn(drawn: int) -> None:
    generator = torch.Generator().manual_seed(7)
    torch.rand(drawn, generator=generator)
    require_fit(Payload((), random=generator.get_state()), (), 1, "They")


@pytest.mark.parametrize(("left", "following"), [(624, 624), (624, 2), (2, 1), (1, 1), (624, 0)])
def test_a_state_that_draws_from_the_memory_behind_the_generator_is_refused(left: int, following: int) -> None:
    """Torch takes all of these. With the first of them each draw shows a word of this process's memory."""
    state = torch.Generator().manual_seed(7).get_state()
    state.view(torch.int32)[torch.tensor([2, 4])] = torch.tensor([left, following], dtype=torch.int32)
    torch.Generator().set_state(state)
    with pytest.raises(WireError, match=f"{left} of its 624 words are left"):
        require_fit(Payload((), random=state), (), 1, "They")


@pytest.mark.parametrize("value", [1e38, -1e38, 3e38])
def test_large_numbers_whose_sum_overflows_are_finite(value: float) -> None:
    Payload((torch.full((1000,), value),)).require_within(None, "They")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_one_number_that_is_none_is_found_anywhere(value: float) -> None:
    tensor = torch.zeros(3, 50)
    tensor[2, 49] = value
    with pytest.raises(WireError, match=r"They hold NaN or infinity \(0\.7% of a tensor of shape \(3, 50\)\)"):
        Payload((5, torch.zeros(2), tensor)).require_within(None, "They")


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "numbers": st.none() | st.text() | st.lists(st.integers()) | st.dictionaries(st.text(max_size=2), numbers),
            "wants": st.none() | st.integers() | st.text() | st.lists(numbers),
            "random": st.none() | st.booleans() | st.text() | st.lists(st.integers()),
        },
    ),
    st.integers(0, 3),
)
def test_nonsense_is_a_load_or_refused(header: dict[str, Any], tensors: int) -> None:
    try:
        came = Payload.read(Message("activations", header, (torch.zeros(1),) * tensors))
    except WireError:
        return
    assert len(came.values) == tensors - (came.random is not None) + len(header["numbers"])
