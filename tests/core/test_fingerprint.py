"""Everything that makes tensors and words what they are changes the fingerprint, and nothing else does."""

from __future__ import annotations

import torch

from modelkeep.core.fingerprint import fingerprint


def test_names_types_shapes_bytes_and_words_count() -> None:
    x = torch.arange(6.0)
    prints = [
        fingerprint({"x": x}),
        fingerprint({"y": x}),
        fingerprint({"x": x.double()}),
        fingerprint({"x": x.view(2, 3)}),
        fingerprint({"x": x.flip(0)}),
        fingerprint({"x": x, "y": x}),
        fingerprint({"x": x}, "word"),
        fingerprint({"x": x}, "wo", "rd"),
        fingerprint({"x": x}, "wor", "d"),
    ]
    assert len(set(prints)) == len(prints)


def test_memory_and_order_do_not_count() -> None:
    x, y = torch.arange(6.0).view(2, 3), torch.zeros(2)
    assert fingerprint({"x": x, "y": y}) == fingerprint({"y": y, "x": x})
    assert fingerprint({"x": x}) == fingerprint({"x": x.T.contiguous().T})
    assert fingerprint({"x": x}) == fingerprint({"x": x.clone().requires_grad_()})
