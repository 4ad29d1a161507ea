"""The settings that `modelkeep guard init` writes, with what each of them means."""

from __future__ import annotations

import json

from modelkeep.core.registry import declarations

_EXAMPLE = """\
# The settings of `modelkeep guard serve`. Check them with: modelkeep guard check {file}
# Relative paths start in this file's folder. Secrets are never written in here.

[server]
host = "127.0.0.1"             # "0.0.0.0" to be reached from other machines; then give TLS, too
port = 8000                    # REST
grpc_port = 8001               # leave it out for no gRPC
# tls_certificate = "server.pem"
# tls_key = "server.key"       # chmod 600
max_body = 16_777_216          # bytes of a request
max_json = 4_194_304           # of which JSON; while that is read, other requests wait. Binary data are better
drain_seconds = 30             # how long requests under way may take after SIGTERM

[model]
name = "model"                 # as clients name it: /v2/models/model/infer
version = "1"                  # name and version promise the same answers for ever: change it with weights or defence
path = {path}     # or .pt2, .onnx, package.module:factory (with weights = "..."), efficientnet-lite0
# describe = "model.toml"              # what `modelkeep describe` wrote; or, one by one:
# mean = [0.49, 0.46, 0.41]            # what the model subtracts, per channel
# std = [0.2, 0.2, 0.2]                # what it then divides by
# processor = "preprocessor_config.json"   # of Hugging Face, in place of shape, mean and std
# bounds = [0.0, 1.0]                  # the range of an input's values, or "none"
# layout = "channels-first"            # how the model takes pictures, or "channels-last"
# arguments = {width = 64}             # of the factory
# upstream = "http://127.0.0.1:9000"   # instead of path: guard a server that speaks the Open Inference Protocol
# upstream_model = "classifier"        # its name there
# input = "input"
# input_shape = [1, 8, 8]              # of one input, without the batch
# classes = 10
# output = "probabilities"             # the one output that is read
# kind = "probabilities"               # or "logits"

[defence]
name = "modelguard-s"          # or {others}
epsilon = 1.0                  # how far an answer may lie from the prediction, in l1 (0 to 2)
noise = 1e-5                   # how far two computations of one prediction may lie apart, in l1
secret_file = {secret}         # no answer is ever clean; keep it like a key, the same for all replicas
{seed_mark}seed_data = {data}      # your own data: their predictions start the lists

[store]
url = "sqlite:///modelkeep-guard.sqlite3"   # one replica; for many: "postgresql://user@host/database"

[principals]
open = false                   # true: no key is needed

[detection]
enabled = true                 # score principals by how much their queries look like a thief's
{seed_mark}data = {data}           # your own data, to know queries from elsewhere by

[dashboard]
# fidelity_curve = "curve.json"   # as `modelkeep extract` wrote it: what a thief would have after a number of queries
"""


def example_settings(file: str, *, secret: str, model: str = "model.safetensors", data: str | None = None) -> str:
    """The text of a settings file of this name; `secret` is the file of the secret, `data` the owner's own data."""
    texts = {
        "file": file,
        "others": ", ".join(name for name in declarations("guard") if name != "modelguard-s"),
        "secret": json.dumps(secret),  # a JSON string is a TOML string
        "path": json.dumps(model),
        "data": json.dumps(data or "train.npz"),
        "seed_mark": "" if data else "# ",
    }
    text = _EXAMPLE
    for name, value in texts.items():
        text = text.replace(f"{{{name}}}", value)
    return text
