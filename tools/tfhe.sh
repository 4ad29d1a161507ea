#!/bin/sh
# Make .tfhe, an environment of its own for concrete-python: it needs numpy < 2 and setuptools < 81, which do not fit beside
# ours. torch comes along as its dependency, in the version that is pinned for us.
set -eu
cd "$(dirname "$0")/.."
test -f .tfhe/.installed && exit 0
test -x .tfhe/bin/python || "${PYTHON:-python3}" -m venv .tfhe
.tfhe/bin/pip install --quiet 'concrete-python==2.11.0' 'setuptools<81' 'torch==2.13.0'
touch .tfhe/.installed
