"""Turns: who is turned away, and who yields when two parties open sessions at the same time."""

from __future__ import annotations

from modelkeep.govern.session.turn import Turn


def test_nobody_is_turned_away_before_a_session_is_opened() -> None:
    turn = Turn("bob", ["alice", "bob", "carol"])
    assert turn.refuse("alice") is None
    turn.take()
    assert "'bob' leads a session itself" in str(turn.refuse("carol"))
    turn.release()
    assert turn.refuse("carol") is None


def test_of_two_that_open_at_once_exactly_one_yields() -> None:
    names = ["carol", "alice", "bob"]  # in the order of the agreement
    for one in names:
        for other in names:
            if one != other:
                turns = {name: Turn(name, names) for name in (one, other)}
                for turn in turns.values():
                    turn.take()
                assert turns[one].refuse(other) is not None
                assert turns[other].refuse(one) is not None
                assert turns[max(one, other, key=names.index)].yields
                assert sum(turn.yields for turn in turns.values()) == 1


def test_an_open_session_is_not_given_away_but_the_next_turn_is() -> None:
    turn = Turn("bob", ["alice", "bob"])
    turn.take()
    turn.open()
    assert turn.refuse("alice") is not None
    assert (turn.yields, turn.turned_away) == (False, True)
    turn.take()
    assert not turn.turned_away
