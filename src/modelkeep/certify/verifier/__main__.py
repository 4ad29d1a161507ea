"""The verifier as a command without the rest of ModelKeep. Exit code 0: all holds; 1: one fails; 3: not all shown."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .checks import Report, verify
from .files import read_inputs
from .network import Refused


def main() -> int:
    """Read the arguments, check, print."""
    parser = argparse.ArgumentParser(prog="verifier", description="Check a ModelKeep certificate.")
    parser.add_argument("certificate", type=Path)
    parser.add_argument("--weights", type=Path, help="the model's .safetensors file")
    parser.add_argument("--data", type=Path, help="an .npz file with the inputs in an array 'x'")
    parser.add_argument("--signer", help="the fingerprint that the signer told you")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    given = parser.parse_args()
    try:
        inputs = None if given.data is None else read_inputs(given.data)
    except Refused as error:
        sys.stderr.write(f"verifier: {error}\n")
        return 4
    report = verify(given.certificate, weights=given.weights, inputs=inputs, signer=given.signer)
    sys.stdout.write((report.to_json() if given.json else _as_text(report)) + "\n")
    return report.exit_code


def _as_text(report: Report) -> str:
    lines = [f"{check.name:12} {check.status:12} {check.says}" for check in report.checks]
    return "\n".join([*lines, report.verdict])


if __name__ == "__main__":
    sys.exit(main())
