#!/bin/sh
# Make the gRPC messages of the Open Inference Protocol from our .proto file, into the folder given (default: in place).
set -eu
cd "$(dirname "$0")/.."
home=src/modelkeep/guard/protocol
out=${1:-$home}
"${PYTHON:-.venv/bin/python}" -m grpc_tools.protoc -I "$home" --python_out="$out" --pyi_out="$out" inference.proto
# Every client of the protocol registers these same names in protobuf's one global pool, and two cannot be in one
# process. Ours go to a pool of their own.
sed -i.bak -e 's/_descriptor_pool\.Default()/_descriptor_pool.DescriptorPool()/' "$out/inference_pb2.py"
for file in "$out/inference_pb2.py" "$out/inference_pb2.pyi"; do
  printf '# ruff: noqa\n# fmt: off\n# mypy: ignore-errors\n' | cat - "$file" > "$file.bak"
  mv "$file.bak" "$file"
done
