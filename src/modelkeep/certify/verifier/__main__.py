"""The verifier as a command without the rest of ModelKeep. Exit code 0: verified; 1: refused; 3: consistent."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import Given, Refused, Report, verify


def main() -> int:
    """Read the arguments, check, print."""
    parser = argparse.ArgumentParser(prog="verifier", description="Check a ModelKeep certificate.")
    parser.add_argument("certificate", type=Path)
    parser.add_argument("--weights", type=Path, help="the model's .safetensors file")
    parser.add_argument("--data", type=Path, help="an .npz file with the whole data set: 'x', 'y', 'classes'")
    parser.add_argument("--signer", help="the fingerprint that the signer told you")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    given = parser.parse_args()
    try:
        data = None if given.data is None else Given.read(given.data)
    except Refused as error:
        sys.stderr.write(f"verifier: {error}\n")
        return 4
    report = verify(given.certificate, weights=given.weights, data=data, signer=given.signer)
    sys.stdout.write((report.to_json() if given.json else _as_text(report)) + "\n")
    return report.exit_code


def _as_text(report: Report) -> str:
    lines = [f"{check.name:12} {check.status:12} {check.says}" for check in report.checks]
    return "\n".join([*lines, report.verdict])


if __name__ == "__main__":
    sys.exit(main())
