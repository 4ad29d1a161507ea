"""The verifier of certificates: what a receiver runs who trusts neither the sender nor the code that certified.

It needs numpy, and for the signature `cryptography`; it shares no code with the rest of ModelKeep, and this folder runs
alone, wherever it is copied to: `python -m verifier certificate.json --weights model.safetensors --data inputs.npz`.
Read it in this order: `checks.py` (what is checked), `radii.py`, `constants.py` (the bounds), `network.py` and
`arithmetic.py` (the network), `files.py` (the files).

What it shows: that the constants are large enough for the written-down network with these weights, and that radii and
logits follow. What it takes from the sender: that the owner's code is this network also on other inputs than the given,
and how much its float32 pass rounds there (about a millionth of the logits).
"""

from __future__ import annotations

from .checks import Check, Report, verify
from .files import fingerprint, read_inputs
from .network import Refused

__all__ = ["Check", "Refused", "Report", "fingerprint", "read_inputs", "verify"]
