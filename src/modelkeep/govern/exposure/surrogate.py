"""Gradient inversion: a network of one's own, and labels, whose gradients are the observed ones."""

from __future__ import annotations

from math import log

import torch
from torch import nn
from torch.nn.functional import cosine_similarity, log_softmax, one_hot

from modelkeep.core import progress

WIDTH, HIDDEN = 128, 64


def find_surrogate(
    z: torch.Tensor,
    gradients: torch.Tensor,
    classes: int,
    start: torch.Tensor,
    hints: torch.Tensor,
    *,
    steps: int = 300,
    seed: int,
) -> torch.Tensor:
    """Clusters of the examples: the labels under which a surrogate's gradients at `z` are the observed ones.

    `start: (n,)` are clusters to begin with, such as those of the gradients' directions; the rows `hints` are known to
    be right. Over the surrogate g' and soft labels y' it minimises

        mean_i (1 − cos(∇L_i, ∇L'_i)) + (0.1 · mean_i CE(y'_i, g'(z_i)) + KL(uniform ‖ mean_i y'_i)) / log C

    where ∇L'_i is the gradient of CE(y'_i, g'(z_i)) to z_i: ExPLoit's objective, with the cosine in place of the
    distance, which few long gradients would rule. No model is trained on data here (the labels are unknowns,
    too, and the loss is one of gradients), so the one training loop does not fit.

    Everything is first turned into the span of the largest principal directions of z and the gradients: outside of it
    a surrogate has nothing to do.
    """
    basis = _basis(z, gradients)
    inputs, seen = _unit(z @ basis).requires_grad_(), _unit(gradients @ basis)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        network = nn.Sequential(nn.Linear(inputs.shape[1], HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, classes))
    network = network.to(z.device, z.dtype)
    guesses: torch.Tensor = 3.0 * one_hot(start, classes).to(z.dtype)
    guesses[hints] *= 2
    guesses.requires_grad_()
    learned = [{"params": list(network.parameters()), "lr": 5e-3}, {"params": [guesses], "lr": 5e-2}]
    optimizer = torch.optim.Adam(learned)
    with progress.task("gradient inversion", steps) as task, torch.enable_grad():
        for _ in range(steps):
            soft = guesses.softmax(dim=1)
            entropy = -(soft * log_softmax(network(inputs), dim=1)).sum(dim=1)
            (own,) = torch.autograd.grad(entropy.sum(), inputs, create_graph=True)
            match = 1 - cosine_similarity(own, seen, dim=1).mean()
            unbalance = -soft.mean(dim=0).clamp_min(1e-12).log().mean() - log(classes)
            loss = match + (0.1 * entropy.mean() + unbalance) / log(classes)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            task.advance()
    return guesses.detach().argmax(dim=1)


def _basis(z: torch.Tensor, gradients: torch.Tensor) -> torch.Tensor:
    """The largest principal directions of both, `(numbers, directions)`, from the products of their few rows."""
    rows = torch.cat([_unit(z - z.mean(dim=0)), _unit(gradients)])
    leading = torch.linalg.eigh(rows @ rows.T).eigenvectors[:, -min(WIDTH, *rows.shape) :]
    basis: torch.Tensor = torch.linalg.qr(rows.T @ leading).Q
    return basis


def _unit(rows: torch.Tensor) -> torch.Tensor:
    """Scaled so that a row has length √(its size) on average."""
    return rows / rows.square().mean().sqrt().clamp_min(1e-12)
