"""Tables 4 and 5 of Tang2024 as it prints them: extraction accuracy on CIFAR-100 and on CIFAR-10, in per cent."""

from __future__ import annotations

KNOCKOFF, JBDA = "KnockoffNet", "JBDA-TR"
NAIVE, TOP_ONE, S4L, SMOOTHING, DDAE, DDAE_PLUS, PBAYES = (
    "naive", "top-1", "S4L", "smoothing", "D-DAE", "D-DAE+", "pBayes",
)  # fmt: skip
ATTACKS = (
    *((KNOCKOFF, attack) for attack in (NAIVE, TOP_ONE, S4L, SMOOTHING, DDAE, DDAE_PLUS, PBAYES)),
    *((JBDA, attack) for attack in (NAIVE, TOP_ONE, DDAE, DDAE_PLUS, PBAYES)),
)
"""The rows of the tables."""
NONE, REVSIG, MAD, AM, TOP, ROUNDING, GUARD_W, GUARD_S = (
    "none", "RevSig", "MAD", "AM", "top-1", "rounding", "ModelGuard-W", "ModelGuard-S",
)  # fmt: skip
DEFENCES = (NONE, REVSIG, MAD, AM, TOP, ROUNDING, GUARD_W, GUARD_S)
"""Their columns."""
ACCURACY, FIDELITY, DISTORTION, PROTECTED = (
    "highest accuracy", "highest fidelity", "largest ℓ1 distortion", "protected accuracy",
)  # fmt: skip
_SUMMARY = (ACCURACY, FIDELITY, DISTORTION, PROTECTED)

_TABLE_4 = """
65.96 62.80 59.37 63.45 55.54 63.59 53.09 57.52
55.54 55.54 55.54 52.84 55.54 55.54 55.54 55.54
62.82 58.88 54.29 60.50 55.37 60.62 48.16 54.51
65.96 63.50 60.81 64.05 61.19 64.71 52.47 59.74
65.96 63.61 63.09 61.93 57.14 62.68 49.38 59.10
65.96 64.26 64.22 61.79 56.97 63.42 57.09 58.93
65.96 65.44 65.25 65.59 57.15 64.83 62.54 58.67
40.52 33.39 11.61 29.66 22.57 35.55  8.88 25.90
22.57 22.57 22.57 15.72 22.57 22.57 22.57 22.57
40.52 29.63 12.73 25.96 17.44 25.32  3.76 22.43
40.52 37.81 21.10 30.01 22.36 34.15 14.61 25.73
40.52 39.03 26.49 39.73 23.22 38.11 21.15 25.94
65.96 65.44 65.25 65.59 61.19 64.83 62.54 59.74
72.05 71.51 71.35 71.79 65.67 70.70 67.35 64.18
 0    100   100   199   198   100   100   100
75.11 75.11 75.11 74.30 75.11 75.11 75.11 75.11
"""
_TABLE_5 = """
87.32 84.86 83.61 82.84 83.51 86.91 75.06 84.11
83.51 83.51 83.51 80.30 83.51 83.51 83.51 83.51
85.99 82.04 80.72 81.86 83.72 85.49 71.23 82.80
87.86 85.27 84.07 84.81 86.16 87.37 76.26 85.36
87.32 85.62 84.82 77.30 84.81 86.96 63.79 84.97
87.32 86.58 86.84 84.17 84.26 86.93 58.23 84.27
87.32 86.58 87.20 87.13 84.04 86.70 85.63 84.63
75.50 66.54 53.32 59.56 62.55 73.38 38.13 61.55
62.55 62.55 62.55 53.71 62.55 62.55 62.55 62.55
75.50 55.89 40.63 55.59 59.61 67.83 16.00 61.14
75.50 72.48 67.45 65.59 63.28 72.67 31.86 64.65
75.50 70.90 67.25 74.99 63.27 74.46 63.46 66.57
87.86 86.58 87.20 87.13 86.16 87.37 85.63 85.36
89.72 89.20 89.73 89.56 88.12 89.47 87.97 87.14
 0    102   100   200   180    43   100   100
93.70 93.70 93.70 92.42 93.70 93.70 93.70 93.70
"""


def row_name(strategy: str, attack: str) -> str:
    """What a row of the table is called."""
    return f"{strategy} + {attack}"


ROWS = (*(row_name(*each) for each in ATTACKS), *_SUMMARY)


def _parse(text: str) -> dict[tuple[str, str], float]:
    lines = text.strip().splitlines()
    return {
        (row, defence): float(number) / 100
        for row, line in zip(ROWS, lines, strict=True)
        for defence, number in zip(DEFENCES, line.split(), strict=True)
    }


MANY_CLASSES, FEW_CLASSES = _parse(_TABLE_4), _parse(_TABLE_5)
"""By row and defence, as shares. The paper shows that with CIFAR-10's few classes all defences look alike."""
