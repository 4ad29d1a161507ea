"""NoisyLinear: a linear layer whose weights carry noise of a learned size, in place of ε-greedy exploration."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional


class NoisyLinear(nn.Module):
    """y = (μ_w + σ_w ⊙ ε_w) x + μ_b + σ_b ⊙ ε_b with factorised Gaussian noise (Fortunato2018, eq. 9–11).

    The noise is drawn in each call from the generator that the call is given; without one there is none.
    """

    def __init__(self, inputs: int, outputs: int, noise: float = 0.5) -> None:
        super().__init__()
        self.noise = noise
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.empty(outputs))
        self.weight_noise = nn.Parameter(torch.empty(outputs, inputs))
        self.bias_noise = nn.Parameter(torch.empty(outputs))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw as in Fortunato2018, section 3.2: μ uniform within ±1/√inputs, σ = noise/√inputs."""
        bound = 1 / math.sqrt(self.weight.shape[1])
        for mean in (self.weight, self.bias):
            nn.init.uniform_(mean, -bound, bound)
        for deviation in (self.weight_noise, self.bias_noise):
            nn.init.constant_(deviation, self.noise * bound)

    def forward(self, x: torch.Tensor, generator: torch.Generator | None = None) -> torch.Tensor:
        """`(n, outputs)` of x `(n, inputs)`; all n under the same noise."""
        if generator is None:
            return functional.linear(x, self.weight, self.bias)
        outputs, inputs = self.weight.shape
        drawn = torch.randn(inputs + outputs, generator=generator).to(x.device)
        drawn = drawn.abs().sqrt().copysign(drawn)  # f(ε) = sgn(ε) √|ε|
        into, out_of = drawn[:inputs], drawn[inputs:]
        weight = torch.addcmul(self.weight, self.weight_noise, torch.outer(out_of, into))
        return functional.linear(x, weight, torch.addcmul(self.bias, self.bias_noise, out_of))
