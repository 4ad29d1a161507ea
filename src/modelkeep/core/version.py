"""The version, in this place alone: packaging, documentation and results read it here."""

__version__ = "0.1.0"
