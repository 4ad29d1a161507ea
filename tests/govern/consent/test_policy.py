"""Policies: every rule at its boundary, hours against a clock of minutes, and strict reading."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from govern.asking import NOON, a_pass
from modelkeep.core.errors import ConsentPending, ConsentRefused, GovernError, InputError
from modelkeep.govern.consent import Policy, Window, read_policy
from modelkeep.govern.consent.policy import PURPOSES
from modelkeep.govern.consent.windows import WEEKDAYS

MONDAY = datetime(2024, 1, 1, tzinfo=UTC)
TIMES = st.builds(lambda minutes: f"{minutes // 60:02}:{minutes % 60:02}", st.integers(0, 24 * 60 - 1))
WINDOWS = st.builds(Window, st.lists(st.sampled_from(WEEKDAYS), min_size=1, max_size=4).map(tuple), TIMES, TIMES)


def open_minutes(window: Window) -> set[int]:
    """The open minutes of a week, marked one by one."""
    start, until = (int(time[:2]) * 60 + int(time[3:]) for time in (window.start, window.until))
    minutes = set()
    for weekday in window.weekdays:
        minute = WEEKDAYS.index(weekday) * 24 * 60 + start
        while True:
            minutes.add(minute % (7 * 24 * 60))
            minute += 1
            if minute % (24 * 60) == until:
                break
    return minutes


@given(window=WINDOWS, minute=st.integers(0, 7 * 24 * 60 - 1), second=st.sampled_from([0.0, 0.25, 59.75]))
def test_a_window_is_open_in_its_minutes_and_knows_when_it_opens_next(
    window: Window, minute: int, second: float
) -> None:
    is_open = open_minutes(window)
    now = (MONDAY + timedelta(minutes=minute)).timestamp() + second
    expected = 0.0
    if minute not in is_open:
        ahead = next(ahead for ahead in range(1, 7 * 24 * 60) if (minute + ahead) % (7 * 24 * 60) in is_open)
        expected = ahead * 60 - second
    assert window.wait(now) == expected


def test_a_window_begins_with_its_first_moment_and_ends_before_its_last() -> None:
    policy = Policy(windows=(Window(("mon",), "12:00", "13:00"), Window(("wed",), "23:30", "00:30")))
    for allowed in (NOON, NOON + 3599.999, NOON + 2.5 * 86400 - 1800, NOON + 2.5 * 86400 + 1799):
        policy.check(a_pass(), allowed)
    for refused in (NOON - 0.001, NOON + 3600, NOON + 2.5 * 86400 + 1800):
        with pytest.raises(ConsentRefused):
            policy.check(a_pass(), refused)
    with pytest.raises(
        ConsentRefused,
        match=r"^No consent to pass 0 \(train, asked by alice\) at mon 2024-01-01 13:00:00 UTC\. The hours: mon "
        r"12:00–13:00 UTC, wed 23:30–00:30 UTC\. The next begin at wed 2024-01-03 23:30:00 UTC\.$",
    ):
        policy.check(a_pass(), NOON + 3600)


@pytest.mark.parametrize("purpose", PURPOSES)
def test_only_the_named_purposes_pass(purpose: Any) -> None:
    policy = Policy(purposes=("evaluate", "infer"))
    if purpose in policy.purposes:
        policy.check(a_pass(purpose=purpose), NOON)
    else:
        with pytest.raises(ConsentRefused, match=r"purpose is not allowed. Purposes allowed: evaluate, infer\."):
            policy.check(a_pass(purpose=purpose), NOON)
    with pytest.raises(ConsentRefused, match="allowed: none"):
        Policy(purposes=()).check(a_pass(purpose=purpose), NOON)


def test_only_the_named_askers_pass() -> None:
    policy = Policy(askers=("alice", "carol"))
    policy.check(a_pass(asker="carol"), NOON)
    with pytest.raises(ConsentRefused, match=r"'bob' may not ask\. Who may: alice, carol\."):
        policy.check(a_pass(asker="bob"), NOON)
    with pytest.raises(ConsentRefused, match="Who may: no party"):
        Policy(askers=()).check(a_pass(), NOON)


def test_only_the_named_data_and_labels_pass() -> None:
    policy = Policy(data=("d" * 64,), labels=("e" * 64,))
    policy.check(a_pass(), NOON)
    policy.check(a_pass(purpose="infer", labels=""), NOON)  # which needs none
    with pytest.raises(ConsentRefused, match=f"with the data 'ffff.*Fingerprints of the data allowed: {'d' * 16}"):
        policy.check(a_pass(data="f" * 64), NOON)
    with pytest.raises(ConsentRefused, match="with the data ''"):
        policy.check(a_pass(data=""), NOON)
    for labels in ("f" * 64, ""):
        with pytest.raises(ConsentRefused, match=f"with the labels '{labels[:16]}'"):
            policy.check(a_pass(labels=labels), NOON)


def test_the_default_allows_everything() -> None:
    for purpose in PURPOSES:
        Policy().check(a_pass(purpose=purpose, asker="anybody"), 0.0)


POLICIES = st.builds(
    Policy,
    purposes=st.lists(st.sampled_from(PURPOSES), unique=True).map(tuple),
    askers=st.none() | st.lists(st.text()).map(tuple),
    most=st.dictionaries(st.sampled_from(PURPOSES), st.integers(0)),
    rate=st.none() | st.floats(1e-9, 1e9),
    burst=st.integers(1, 10**9),
    windows=st.lists(WINDOWS, max_size=3).map(tuple),
    data=st.none() | st.lists(st.text()).map(tuple),
    labels=st.none() | st.lists(st.text()).map(tuple),
    command=st.none() | st.lists(st.text("ab c$;", min_size=1), min_size=1).map(tuple),
    webhook=st.sampled_from([None, "https://example.org/a?b=c", "http://127.0.0.1:8080"]),
    timeout=st.floats(0.001, 600),
    human=st.booleans(),
)


@given(POLICIES)
def test_a_policy_comes_back_from_json(policy: Policy) -> None:
    assert read_policy(json.loads(json.dumps(policy.values()))) == policy


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"purpose": ["train"]}, "purpose"),
        ({"purposes": ["train", "sell"]}, "sell"),
        ({"purposes": "train"}, "purposes"),
        ({"human": 1}, "human"),
        ({"human": None}, "human"),
        ({"burst": 1.5}, "burst"),
        ({"burst": 0}, "burst"),
        ({"rate": "2"}, "rate"),
        ({"rate": 0}, "rate"),
        ({"rate": -1}, "rate"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": 601}, "timeout"),
        ({"most": {"train": -1}}, "most"),
        ({"most": {"steal": 1}}, "steal"),
        ({"most": {"train": True}}, "most"),
        ({"windows": [{"weekdays": ["mon"], "start": "9:00", "until": "10:00"}]}, "start"),
        ({"windows": [{"weekdays": ["mon"], "start": "09:00", "until": "24:00"}]}, "until"),
        ({"windows": [{"weekdays": [], "start": "09:00", "until": "10:00"}]}, "weekdays"),
        ({"windows": [{"weekdays": ["Monday"], "start": "09:00", "until": "10:00"}]}, "weekdays"),
        ({"windows": [{"weekdays": ["mon"], "start": "09:00"}]}, "until"),
        ({"windows": [{"weekdays": ["mon"], "start": "09:00", "until": "10:00", "zone": "CET"}]}, "zone"),
        ({"command": "rm -rf"}, "command"),
        ({"command": []}, "command"),
        ({"command": ["a\0b"]}, "command"),
        ({"webhook": "file:///etc/passwd"}, "webhook"),
        ({"webhook": "ftp://example.org/"}, "webhook"),
        ({"webhook": "https://"}, "webhook"),
        ({"webhook": "https://example.org:99999/"}, "webhook"),
        ({"webhook": "https://example.org/a b"}, "webhook"),
        ({"webhook": "https://example.org/\r\nX: y"}, "webhook"),
        ({"webhook": "https://user:secret@example.org/"}, "Use a token"),
        ({"webhook": "http://example.org/", "webhook_token_env": "TOKEN"}, "https"),
        ({"webhook": "https://example.org/", "webhook_token_env": "A TOKEN"}, "webhook_token_env"),
        ({"webhook_token_env": "TOKEN"}, "no 'webhook'"),
        ([], "policy"),
        ("train", "policy"),
        (None, "policy"),
    ],
    ids=lambda value: value if isinstance(value, str) else json.dumps(value),
)
def test_anything_else_is_no_policy(values: Any, told: str) -> None:
    with pytest.raises(GovernError, match=told):
        read_policy(values)


def test_nan_is_no_rate() -> None:
    with pytest.raises(InputError, match="rate"):
        Policy(rate=float("nan"))


def test_who_is_pending_says_when_to_ask_again() -> None:
    assert ConsentPending("wait").seconds == 1.0
    assert str(ConsentPending("wait", seconds=0.5)) == "wait"
