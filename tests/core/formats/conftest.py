"""Somebody's networks, in a module that can be imported for the time of a test."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

NETWORKS = """
import torch
from torch import nn

def linear(width=4): return nn.Linear(width, 3)

def batch_norm(): return nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))

class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.top = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)
        self.second.weight = self.first.weight
    def forward(self, x):
        return self.top(self.second(self.first(x)))

def tied(): return Tied()

def untied():
    module = Tied()
    module.second.weight = nn.Parameter(torch.zeros(4, 4))
    return module

class Views(nn.Module):
    def __init__(self):
        super().__init__()
        whole = torch.arange(24.0).view(6, 4)
        self.register_buffer("top", whole[:3])
        self.register_buffer("turned", whole.T)
    def forward(self, x):
        return x @ self.top.T + self.turned.sum()

def views(): return Views()
def broken(): raise OSError("no such device")
def number(): return 3
"""


@pytest.fixture
def networks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "their_networks.py").write_text(NETWORKS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "their_networks", raising=False)
