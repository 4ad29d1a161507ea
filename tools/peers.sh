#!/bin/sh
# Make .peers, an environment of its own with the server and the client that the gateway is tested against: both bring
# protobuf messages of the same names as each other, and pins that do not fit beside ours.
set -eu
cd "$(dirname "$0")/.."
test -f .peers/.installed && exit 0
test -x .peers/bin/python || "${PYTHON:-python3}" -m venv .peers
.peers/bin/pip install --quiet 'mlserver==1.7.1' 'tritonclient[grpc,http]==2.73.0' 'numpy==2.4.6' 'protobuf==6.33.6'
touch .peers/.installed
