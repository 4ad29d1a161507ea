"""JPEG compression as a module: what survives the quantisation of 8×8 cosine transforms (Dziugaite2016).

Written in torch rather than by a codec: batched, on any device and for any number of channels. It is the lossy half of
JPEG only (the rest is lossless coding), without subsampling of colours (4:4:4). Its gradient is zero: use `bpda`.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn.functional import pad

from modelkeep.core.errors import bad_parameter

# Annex K of the JPEG standard, for quality 50.
_LUMINANCE = """
16 11 10 16 24 40 51 61  12 12 14 19 26 58 60 55  14 13 16 24 40 57 69 56  14 17 22 29 51 87 80 62
18 22 37 56 68 109 103 77  24 35 55 64 81 104 113 92  49 64 78 87 103 121 120 101  72 92 95 98 112 100 103 99
"""
_CHROMINANCE = """
17 18 24 47 99 99 99 99  18 21 26 66 99 99 99 99  24 26 56 99 99 99 99 99  47 66 99 99 99 99 99 99
99 99 99 99 99 99 99 99  99 99 99 99 99 99 99 99  99 99 99 99 99 99 99 99  99 99 99 99 99 99 99 99
"""


class Jpeg(nn.Module):
    """Compress and decompress images `(n, c, h, w)` within `bounds`.

    Three channels are taken as red, green and blue; any other number as that many grey images.

    >>> image = torch.rand(1, 3, 20, 30)
    >>> (Jpeg(95)(image) - image).abs().mean() < (Jpeg(10)(image) - image).abs().mean()
    tensor(True)
    """

    cosines: torch.Tensor
    luminance: torch.Tensor
    chrominance: torch.Tensor
    to_ycc: torch.Tensor
    to_rgb: torch.Tensor

    def __init__(self, quality: int = 75, bounds: tuple[float, float] = (0.0, 1.0)) -> None:
        super().__init__()
        if not 1 <= quality <= 100:
            raise bad_parameter("Jpeg", "quality", "from 1 to 100", quality)
        self.quality = quality
        self.bounds = bounds
        # Row k of the orthonormal transform (DCT-II) is cos((2i + 1) k π / 16), scaled to length 1.
        i, k = torch.arange(8), torch.arange(8)[:, None]
        cosines = torch.cos((2 * i + 1) * k * math.pi / 16)
        self.register_buffer("cosines", cosines / cosines.norm(dim=1, keepdim=True), persistent=False)
        self.register_buffer("luminance", _table(_LUMINANCE, quality), persistent=False)
        self.register_buffer("chrominance", _table(_CHROMINANCE, quality), persistent=False)
        mixed = [[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]]
        self.register_buffer("to_ycc", torch.tensor(mixed), persistent=False)
        self.register_buffer("to_rgb", torch.linalg.inv(torch.tensor(mixed)), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        low, high = self.bounds
        grey = ((x - low) / (high - low) * 255).round().clamp(0, 255) - 128
        if x.shape[1] != 3:
            decoded = self._code(grey, self.luminance)
        else:
            # Both colour differences are centred at 0 already, and shifting Y by 128 commutes with the mixing.
            ycc = torch.einsum("oc,nchw->nohw", self.to_ycc, grey).round()
            ycc = torch.cat([self._code(ycc[:, :1], self.luminance), self._code(ycc[:, 1:], self.chrominance)], dim=1)
            decoded = torch.einsum("oc,nchw->nohw", self.to_rgb, ycc)
        return low + (decoded + 128).round().clamp(0, 255) * ((high - low) / 255)

    def _code(self, planes: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        """The planes after their cosine transforms were rounded to multiples of the table."""
        n, c, height, width = planes.shape
        padded = pad(planes, (0, -width % 8, 0, -height % 8), mode="replicate")
        blocks = padded.view(n, c, padded.shape[2] // 8, 8, padded.shape[3] // 8, 8).transpose(3, 4)
        frequencies = self.cosines @ blocks @ self.cosines.T
        blocks = self.cosines.T @ ((frequencies / table).round() * table) @ self.cosines
        whole = blocks.transpose(3, 4).reshape(padded.shape)[:, :, :height, :width]
        return whole.round().clamp(-128, 127)

    def extra_repr(self) -> str:
        return f"quality={self.quality}, bounds={self.bounds}"


def _table(text: str, quality: int) -> torch.Tensor:
    """The table at another quality, as libjpeg scales it."""
    scale = 5000 // quality if quality < 50 else 200 - 2 * quality
    base = torch.tensor([int(number) for number in text.split()])
    return ((base * scale + 50) // 100).clamp(1, 255).view(8, 8).float()
