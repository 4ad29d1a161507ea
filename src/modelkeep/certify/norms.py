"""Upper bounds of operator norms in float64 that hold on paper and in the computer: rounding is added, never ignored.

Rounding, once for all: a sum of n products is computed with a relative error (to the sum of absolute values) of at
most n u, u = 1.1e-16; LAPACK's `eigvalsh` finds the eigenvalues of a matrix within a small multiple of n u ||A||_2 of
the true one. `_rounding(n)` = 4 (n + 32) eps = 8 (n + 32) u is several times that, complex arithmetic and the few
operations around included, and is added outward each time. It costs about 1e-12 on small layers and 1e-8 on huge ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch.nn import functional

from modelkeep.core.errors import InputError
from modelkeep.core.norms import Norm

_EXACT = 2048  # the longest short side of a matrix that is decomposed; beyond it, Gram iteration
_ITERATIONS = 8  # of Gram iteration where it is the final word: about 1e-7 too large on a 300 x 800 matrix
_NUMBERS = 1 << 22  # complex numbers held at once by the convolution's symbols: 64 MB


def matrix_norm(matrix: torch.Tensor, norm: Norm) -> float:
    """An upper bound of `max ||A x|| / ||x||` in `norm`, for `matrix` A: (rows, columns); exact up to rounding.

    >>> round(matrix_norm(torch.tensor([[3.0, 0.0], [4.0, 0.0]]), "l2"), 6)
    5.0
    """
    matrix = _finite(matrix, "matrix")
    rows, columns = matrix.shape
    if norm == "l2":
        return float(_spectral(matrix))
    axis, terms = (0, rows) if norm == "l1" else (1, columns)
    return float(matrix.abs().sum(dim=axis).max()) * (1 + _rounding(terms))


def gram_norm(gram: torch.Tensor, error: float) -> float:
    """An upper bound of `||A||_2`, where A Aᵀ or Aᵀ A is known within `error` in l2, and A itself is not kept."""
    gram = _finite(gram, "matrix")
    scale = float(_frobenius(gram))
    if scale == 0:
        return math.sqrt(error)
    largest = float(torch.linalg.eigvalsh(gram / scale)[-1]) + _rounding(8 * len(gram))
    return math.sqrt(scale * max(largest, 0.0) + error) * (1 + _rounding(1))


def absolute_norm(matrix: torch.Tensor) -> float:
    """An upper bound of the l2 norm of |A|, of which rounding bounds are made: the Schur test or Frobenius' norm."""
    frobenius = float(_frobenius(_finite(matrix, "matrix"))) * (1 + _rounding(matrix.numel()))
    return min(frobenius, schur(matrix_norm(matrix, "l1"), matrix_norm(matrix, "linf")))


def schur(one: float, infinity: float) -> float:
    """`||A||_2 <= sqrt(||A||_1 ||A||_inf)`: Schur's test, which holds for |A| as well, as both norms are the same."""
    return math.sqrt(one) * math.sqrt(infinity) * (1 + _rounding(1))


def gram_iteration(matrices: torch.Tensor, iterations: int) -> torch.Tensor:
    """Upper bounds of the spectral norms of `matrices: (..., r, c)`, real or complex (Delattre2023): (...).

    With G_0 = A and G_t+1 = G_t* G_t, `||A||_2 = ||G_t||_2^(1/2^t) <= ||G_t||_F^(1/2^t)`: an upper bound at every t,
    which falls towards the norm. Each G_t is divided by its Frobenius norm s_t, so that nothing overflows. In floating
    point the next Gram matrix of a G with ||G||_F = 1 is off by at most `_rounding(r)`, hence, backwards from
    u_T = 1: u_t = sqrt(s_t+1 u_t+1 + rounding) bounds ||G_t||_2, and s_0 u_0 is the bound.
    """
    if matrices.shape[-2] < matrices.shape[-1]:
        matrices = matrices.mH  # the smaller Gram matrix
    rounding = _rounding(matrices.shape[-2])
    scales = [_frobenius(matrices)]
    gram = _divide(matrices, scales[0])
    for _ in range(iterations):
        gram = gram.mH @ gram
        scales.append(_frobenius(gram))
        gram = _divide(gram, scales[-1])
    slack = 1 + _rounding(matrices.shape[-2] * matrices.shape[-1])  # of the Frobenius norms
    bound = torch.full_like(scales[0], slack)
    for scale in reversed(scales[1:]):
        bound = (scale * bound * slack + rounding).sqrt()
    return scales[0] * bound * slack


def convolution_norm(
    weight: torch.Tensor,
    stride: Sequence[int],
    padding: Sequence[Sequence[int]],
    dilation: Sequence[int],
    groups: int,
    shape: Sequence[int],
) -> float:
    """An upper bound of the l2 norm of a zero-padded convolution of 1 or 2 dimensions, without its matrix.

    `weight: (out, in / groups, *kernel)`, `padding`: `[before, after]` per spatial axis, `shape`: (in, *spatial).

    Proof. With stride s, input position p = s m + phase: the convolution is one of stride 1 on the s^d phases as
    channels, whose matrix is a block of the circular one on any torus on which no tap wraps around onto an input; a
    block's norm is at most the whole's, and the circular one is block diagonal in the Fourier basis (`_Symbols`).
    """
    symbols = _Symbols(_finite(weight, "weight"), stride, padding, dilation, groups, shape)
    chunks = torch.split(torch.arange(symbols.count), max(1, _NUMBERS // symbols.numel))
    largest = max(float(_spectral(symbols.at(chunk)).max()) for chunk in chunks)
    return min(
        largest + symbols.error, schur(*convolution_norms_1_inf(weight, stride, padding, dilation, groups, shape))
    )


class _Symbols:
    """The Fourier blocks of a convolution on a torus: at frequency w, S(w) = sum_q exp(i <w, q>) W_q.

    Per axis, output n reads phase-channel position n + q, 0 <= q < taps. With inputs at positions first..last and
    outputs 0..outputs - 1, n + q meets no other input around a circle of length > last and >= taps + outputs - 1 -
    first. The weights are real, so that S(-w) is the conjugate of S(w): half of the last axis' frequencies suffice.
    """

    def __init__(
        self,
        weight: torch.Tensor,
        stride: Sequence[int],
        padding: Sequence[Sequence[int]],
        dilation: Sequence[int],
        groups: int,
        shape: Sequence[int],
    ) -> None:
        kernel = weight.shape[2:]
        self._torus, self._offsets, phases = [], [], []
        for k, s, (before, _), d, size, outputs in zip(
            kernel,
            stride,
            padding,
            dilation,
            shape[1:],
            _outputs(kernel, stride, padding, dilation, shape),
            strict=True,
        ):
            taps = torch.arange(k) * d
            first, last = before // s, (before + size - 1) // s
            self._torus.append(max(last + 1, int(taps[-1]) // s + outputs - first))
            self._offsets.append(taps // s)
            phases.append(taps % s)
        # One column per tap; a tap's weights go to the channels of its phase, the other phases' stay 0.
        flat = weight.reshape(groups, len(weight) // groups, weight.shape[1], -1)
        phase = phases[0] if len(kernel) == 1 else (phases[0][:, None] * stride[1] + phases[1]).flatten()
        spread = torch.zeros(*flat.shape[:-1], math.prod(stride), flat.shape[-1], dtype=torch.float64)
        spread[..., phase, torch.arange(flat.shape[-1])] = flat
        self._weight = spread.flatten(2, 3)  # (groups, out, in * phases, taps)
        # Along an axis whose taps all lie at offset 0 (1 x 1 kernels, patches) the symbol is the same everywhere.
        halved = [*self._torus[:-1], self._torus[-1] // 2 + 1]
        self._grid = [length if offset.any() else 1 for length, offset in zip(halved, self._offsets, strict=True)]
        self.count = math.prod(self._grid)
        self.numel = max(1, math.prod(self._weight.shape[:-1]))
        # Entry by entry the computed symbol is off by at most `_rounding(taps)` times its sum of |weights|.
        self.error = float(_frobenius(flat.abs().sum(dim=-1)).max()) * 2 * _rounding(flat.shape[-1])

    def at(self, index: torch.Tensor) -> torch.Tensor:
        """The symbols at these numbers of frequencies: (n, groups, out, in * phases), complex128."""
        turns = torch.ones(len(index), 1, dtype=torch.complex128)
        for frequency, length, offset in zip(
            torch.unravel_index(index, tuple(self._grid)), self._torus, self._offsets, strict=True
        ):
            angle = (frequency[:, None] * offset % length).double() * (2 * math.pi / length)
            axis = torch.polar(torch.ones_like(angle), angle)
            turns = (turns[:, :, None] * axis[:, None, :]).flatten(1)
        sums = turns @ self._weight.flatten(0, 2).T.to(turns.dtype)
        return sums.reshape(len(index), *self._weight.shape[:-1])


def convolution_norms_1_inf(
    weight: torch.Tensor,
    stride: Sequence[int],
    padding: Sequence[Sequence[int]],
    dilation: Sequence[int],
    groups: int,
    shape: Sequence[int],
) -> tuple[float, float]:
    """The l1 and linf norms of a zero-padded convolution, exact up to rounding; arguments as `convolution_norm`.

    The rows' absolute sums are the outputs of |weight| on ones; the columns' are the gradient of the outputs' sum.
    """
    weight = _finite(weight, "weight").abs()
    _outputs(weight.shape[2:], stride, padding, dilation, shape)  # refuses what does not fit
    convolve = functional.conv1d if len(shape) == 2 else functional.conv2d
    around = [side for pair in reversed(padding) for side in pair]
    with torch.enable_grad():
        ones = torch.ones(1, *shape, dtype=torch.float64, requires_grad=True)
        padded = functional.pad(ones, around)
        rows = convolve(padded, weight, None, tuple(stride), 0, tuple(dilation), groups)
        (columns,) = torch.autograd.grad(rows.sum(), ones)
    slack = 1 + _rounding(math.prod(weight.shape[2:]) * max(weight.shape[:2]))
    return float(columns.max()) * slack, float(rows.detach().max()) * slack


def pool_gain(kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], norm: Norm) -> float:
    """The Lipschitz constant of max-pooling: a window's maximum moves at most as far as its largest move.

    So an input counts once per window that holds it. Along an axis, window n holds position n s + t d; for one
    position, the t < k with t d equal modulo s are as many as ceil(k / (s / gcd(s, d))).

    >>> pool_gain((3, 3), (1, 1), (1, 1), "l2")
    3.0
    """
    windows = math.prod(-(-k * math.gcd(s, d) // s) for k, s, d in zip(kernel, stride, dilation, strict=True))
    return {"l2": math.sqrt(windows), "l1": float(windows), "linf": 1.0}[norm]


def _spectral(matrices: torch.Tensor) -> torch.Tensor:
    """Upper bounds of spectral norms: eigenvalues of the smaller Gram matrix, whose trace is 1, plus rounding.

    On a CPU this is as fast as a single Gram iteration, real or complex, from a side of 32 to 512.
    """
    if min(matrices.shape[-2:]) > _EXACT:
        return gram_iteration(matrices, _ITERATIONS)
    if matrices.shape[-2] < matrices.shape[-1]:
        matrices = matrices.mH
    scale = _frobenius(matrices)
    scaled = _divide(matrices, scale)
    largest: torch.Tensor = torch.linalg.eigvalsh(scaled.mH @ scaled)[..., -1].clamp(min=0)
    rounding = _rounding(matrices.shape[-2] + 8 * matrices.shape[-1])  # of the products, of LAPACK
    return scale * (largest + rounding).sqrt() * (1 + _rounding(1))


def _rounding(terms: int) -> float:
    """Outward slack for `terms` products in a sum, relative to the sum of absolute values."""
    return 4 * (terms + 32) * torch.finfo(torch.float64).eps


def _frobenius(matrices: torch.Tensor) -> torch.Tensor:
    """Frobenius norms (...), scaled so that no square overflows or vanishes."""
    largest = matrices.abs().amax(dim=(-2, -1))
    scaled: torch.Tensor = torch.linalg.matrix_norm(_divide(matrices, largest))
    return largest * scaled


def _divide(matrices: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return matrices / torch.where(scale > 0, scale, 1.0)[..., None, None]


def _outputs(
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[Sequence[int]],
    dilation: Sequence[int],
    shape: Sequence[int],
) -> list[int]:
    """The spatial size of a convolution's output."""
    outputs = [
        (size + sum(pair) - d * (k - 1) - 1) // s + 1
        for k, s, pair, d, size in zip(kernel, stride, padding, dilation, shape[1:], strict=True)
    ]
    if min(outputs) < 1:
        raise InputError(f"A kernel of {tuple(kernel)} does not fit into an input of {tuple(shape)} with its padding.")
    return outputs


def _finite(tensor: torch.Tensor, name: str) -> torch.Tensor:
    """The tensor in float64; a norm of NaN would compare as smaller than anything, and so certify everything."""
    if not torch.isfinite(tensor).all():
        raise InputError(f"A {name} with NaN or infinite values has no norm. Are the model's weights damaged?")
    return tensor.detach().to("cpu", torch.float64)
