"""The command `modelkeep` in a process of its own, which Ctrl-C reaches even if it was started in the background."""

from __future__ import annotations

import signal


def main() -> None:
    """Run the words of this process's command line."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # By name, as the console script does: the command line stands above this room.
    from importlib import import_module

    import_module("modelkeep.cli").main()


if __name__ == "__main__":
    main()
