"""More than one process: each takes a share of every batch, and all take the same step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import distributed


@dataclass(frozen=True)
class Group:
    """The processes that train together; this one is the `rank`-th of `size`."""

    rank: int = 0
    size: int = 1

    def shard(self, tensor: torch.Tensor) -> torch.Tensor:
        """This process's share of a batch; of a batch too small for all, the first example (it is given no weight)."""
        mine = tensor[self.rank :: self.size]
        return mine if len(mine) else tensor[:1]

    def weight(self, n: int) -> float:
        """What the mean over this process's share of `n` examples counts in the mean over all of them."""
        return len(range(self.rank, n, self.size)) / n if n else 0.0

    def average(self, tensors: Sequence[torch.Tensor], weight: float) -> None:
        """Replace the tensors by their weighted means over all processes, in one message."""
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors]) * weight
        distributed.all_reduce(flat)
        for tensor, mean in zip(tensors, torch.split(flat, [tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(mean.view_as(tensor))

    def sum(self, totals: torch.Tensor) -> torch.Tensor:
        """The sum of a tensor over all processes."""
        if self.size > 1:
            distributed.all_reduce(totals)
        return totals

    def from_first(self, payload: bytes, device: torch.device) -> bytes:
        """The bytes that the first process holds, in all processes."""
        length = torch.tensor([len(payload)], device=device)
        distributed.broadcast(length, src=0)
        sent = torch.empty(int(length), dtype=torch.uint8, device=device)
        if self.rank == 0:
            sent.copy_(torch.frombuffer(bytearray(payload), dtype=torch.uint8))
        distributed.broadcast(sent, src=0)
        return sent.cpu().numpy().tobytes()


ALONE = Group()


def group() -> Group:
    """The default process group where torchrun or the caller has set one up; otherwise this process alone."""
    if distributed.is_available() and distributed.is_initialized():
        return Group(distributed.get_rank(), distributed.get_world_size())
    return ALONE
