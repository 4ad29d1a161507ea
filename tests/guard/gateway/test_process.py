"""The gateway's process: answers that survive kill -9, keys without restarts, limits, TLS, and a graceful end."""

from __future__ import annotations

import datetime
import ipaddress
import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from guard.gateway.processes import Gateway, question, settings
from modelkeep.core.errors import GuardError, InputError, ModelError
from modelkeep.guard.gateway.assembly import claim_epoch, make_plan
from modelkeep.guard.gateway.config import open_configured_store, parse_config, read_config
from modelkeep.guard.gateway.principals import add_key, hash_key
from modelkeep.guard.gateway.process import check_tls, serve
from modelkeep.guard.store.sqlite import SqliteStore
from modelkeep.guard.store.store import Principal
from processes import PATIENCE, wait_until


def ask(gateway: Gateway, key: str, rows: list[list[float]], **options: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {key}"}
    url = f"{gateway.url}/v2/models/slow/infer"
    options.setdefault("verify", url.startswith("https"))  # to read all certificates takes longer than to ask
    return httpx.post(url, json=question(rows), headers=headers, timeout=PATIENCE, trust_env=False, **options)


def answer(response: httpx.Response) -> list[float]:
    assert response.status_code == 200, response.text
    data: list[float] = response.json()["outputs"][0]["data"]
    return data


def refuses(gateway: Gateway) -> bool:
    try:
        httpx.get(f"{gateway.url}/v2/health/live", trust_env=False, timeout=PATIENCE)
    except httpx.TransportError:
        return True
    return False


def test_a_life_with_kill_and_restart(tmp_path: Path) -> None:
    config = settings(tmp_path)
    store = SqliteStore(tmp_path / "state.sqlite3")
    alice = add_key(store, Principal("alice", None, None))
    hasty = add_key(store, Principal("hasty", None, 0.4))
    frugal = add_key(store, Principal("frugal", 3, None))
    rows = [[float(value) for value in row] for row in np.random.default_rng(0).uniform(-1, 1, (30, 4))]
    with Gateway(config) as gateway:
        ready = httpx.get(f"{gateway.url}/v2/health/ready", trust_env=False)
        assert ready.status_code == 200
        # Together and one by one the answers are the same.
        together = answer(ask(gateway, alice, rows))
        assert together == [value for row in rows for value in answer(ask(gateway, alice, [row]))]

        # A rate: 429, and whoever waits as long as it says is served.
        asked = [ask(gateway, hasty, rows[:1]) for _ in range(4)]
        assert asked[0].status_code == 200
        assert 429 in {response.status_code for response in asked}
        refused = next(response for response in asked if response.status_code == 429)
        assert 1 <= int(refused.headers["Retry-After"]) <= 3
        time.sleep(int(refused.headers["Retry-After"]))
        assert ask(gateway, hasty, rows[:1]).status_code == 200
        assert ask(gateway, hasty, rows[:2]).status_code == 413

        # A budget: the last query is answered, the next is not, and there is nothing to wait for.
        assert ask(gateway, frugal, rows[:3]).status_code == 200
        over = ask(gateway, frugal, rows[:1])
        assert (over.status_code, "Retry-After" in over.headers) == (429, False)

        # A rotation: the new key works at once, the old one until it is revoked and two seconds longer at most.
        newer = add_key(store, Principal("alice", None, None))
        assert answer(ask(gateway, newer, rows)) == together
        assert answer(ask(gateway, alice, rows)) == together
        store.revoke("alice", keep=hash_key(newer))
        time.sleep(2.1)
        assert ask(gateway, alice, rows).status_code == 401
        assert answer(ask(gateway, newer, rows)) == together
        gateway.process.kill()
        gateway.process.wait()

    with Gateway(config) as gateway:
        backwards = answer(ask(gateway, newer, rows[::-1]))
        assert backwards == [value for row in range(29, -1, -1) for value in together[3 * row : 3 * row + 3]]
        assert ask(gateway, frugal, rows[:1]).status_code == 429

        # SIGTERM while a slow request is under way: it is finished, and nothing else is begun.
        slow: list[httpx.Response] = []
        thread = threading.Thread(target=lambda: slow.append(ask(gateway, newer, [[1000.0, 0, 0, 0]])))
        thread.start()
        wait_until((tmp_path / "busy").exists, gateway.process)
        gateway.process.send_signal(signal.SIGTERM)
        wait_until(lambda: refuses(gateway), gateway.process)
        thread.join()
        assert slow[0].status_code == 200
        assert gateway.ended() == (0, "")

    actions = [event.action for event in store.events(1000)]
    assert actions[0] == "stop"
    assert actions.count("start") == 2
    assert "refused 429" in actions
    written = json.dumps([event.detail for event in store.events(1000)])
    assert alice not in written
    assert str(rows[0][0]) not in written
    store.close()


def certificate(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a gateway under test")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(address, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, secret = folder / "server.pem", folder / "server.key"
    pem.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    encryption = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, encryption))
    secret.chmod(0o600)
    return pem, secret


ASK_OVER_GRPC = """
import sys, grpc
channel = grpc.secure_channel(sys.argv[1], grpc.ssl_channel_credentials(open(sys.argv[2], "rb").read()))
print(channel.unary_unary("/inference.GRPCInferenceService/ServerReady")(b"", timeout=10))
"""


def test_tls_metrics_and_a_second_signal(tmp_path: Path) -> None:
    pem, _ = certificate(tmp_path)
    config = settings(tmp_path, tls='tls_certificate = "server.pem"\ntls_key = "server.key"')
    store = SqliteStore(tmp_path / "state.sqlite3")
    alice = add_key(store, Principal("alice", None, None))
    operator = add_key(store, Principal("operator", None, None))
    trusted = ssl.create_default_context(cafile=str(pem))
    with Gateway(config) as gateway:
        assert gateway.url.startswith("https://")
        assert ask(gateway, alice, [[0.0, 0, 0, 0]], verify=trusted).status_code == 200
        with pytest.raises(httpx.ConnectError, match=r"(?i)certificate"):
            ask(gateway, alice, [[0.0, 0, 0, 0]])
        done = subprocess.run(
            [sys.executable, "-c", ASK_OVER_GRPC, gateway.summary["grpc"], str(pem)],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
        assert done.stdout.strip() == repr(b"\x08\x01")  # ready: true

        metrics = f"{gateway.url}/metrics"
        for authorization in ({}, {"Authorization": f"Bearer {alice}"}):
            refused = httpx.get(metrics, headers=authorization, verify=trusted, trust_env=False)
            assert refused.status_code == 401
            assert refused.headers["WWW-Authenticate"].startswith("Basic")
        page = httpx.get(metrics, auth=("operator", operator), verify=trusted, trust_env=False)
        assert "modelkeep_rows_total 1.0" in page.text
        assert gateway.summary["epoch"] in page.text

        # A second signal does not wait for what is under way.
        failed: list[bool] = []
        waiting = threading.Thread(target=lambda: failed.append(_fails(gateway, alice, trusted)))
        waiting.start()
        wait_until((tmp_path / "busy").exists, gateway.process)
        for _ in range(2):
            gateway.process.send_signal(signal.SIGINT)
            time.sleep(0.1)
        assert gateway.ended()[0] != 0
        waiting.join()
        assert failed == [True]
    store.close()


def _fails(gateway: Gateway, key: str, trusted: ssl.SSLContext) -> bool:
    try:
        ask(gateway, key, [[1000.0, 0, 0, 0]], verify=trusted)
    except httpx.TransportError:
        return True
    return False


def never(_: object) -> None:
    raise AssertionError("It must not start.")


def test_a_port_in_use_is_said_before_anything_is_opened(tmp_path: Path) -> None:
    config = read_config(settings(tmp_path))
    plan = make_plan(config)
    for port in (config.server.port, config.server.grpc_port):
        said = rf"Cannot listen on 127\.0\.0\.1 port {port}: .*in use.*another port"
        with socket.create_server(("127.0.0.1", port or 0)), pytest.raises(GuardError, match=said):
            serve(plan, never)


def test_tls_files_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    pem, key = certificate(tmp_path)
    config = read_config(settings(tmp_path, tls='tls_certificate = "server.pem"\ntls_key = "server.key"'))
    check_tls(config)
    key.chmod(0o640)
    with pytest.raises(InputError, match=r"The TLS key .* can be read by others \(mode 0640\)"):
        check_tls(config)
    key.chmod(0o600)
    pem.write_text("no certificate")
    with pytest.raises(GuardError, match=r"cannot be used.*PEM files that belong together"):
        check_tls(config)
    key.unlink()
    with pytest.raises(InputError, match=r"The TLS key cannot be read"):
        check_tls(config)


def test_a_model_that_cannot_be_loaded_is_a_sentence(tmp_path: Path) -> None:
    config = parse_config({"model": {"path": "none.safetensors"}}, "x", tmp_path)
    with pytest.raises(ModelError, match=r"none\.safetensors"):
        make_plan(config)


def test_an_upstream_that_is_away_is_a_sentence(tmp_path: Path) -> None:
    away = {"upstream": "http://127.0.0.1:9", "input_shape": [4], "classes": 3}
    plan = make_plan(parse_config({"model": away, "store": {"url": f"sqlite:///{tmp_path}/s.sqlite3"}}, "x", tmp_path))
    with pytest.raises(GuardError, match=r"http://127\.0\.0\.1:9 was asked once"):
        serve(plan, never)


def test_a_name_and_version_mean_one_epoch_for_ever(tmp_path: Path) -> None:
    config = read_config(settings(tmp_path))
    plan = make_plan(config)
    store = open_configured_store(config)
    claim_epoch(store, "slow", "1", plan.policy.epoch)
    claim_epoch(store, "slow", "1", plan.policy.epoch)
    changed = make_plan(read_with(tmp_path, epsilon="0.2"))
    assert changed.policy.epoch != plan.policy.epoch
    with pytest.raises(GuardError, match=r"another epoch .*a new version"):
        claim_epoch(store, "slow", "1", changed.policy.epoch)
    claim_epoch(store, "slow", "2", changed.policy.epoch)
    store.close()
    with pytest.raises(GuardError, match="another epoch"):
        serve(changed, never)


def read_with(folder: Path, epsilon: str) -> Any:
    path = folder / "changed.toml"
    path.write_text((folder / "guard.toml").read_text().replace("epsilon = 0.1", f"epsilon = {epsilon}"))
    return read_config(path)
