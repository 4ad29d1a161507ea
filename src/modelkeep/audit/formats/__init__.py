"""The formats in which an audit is handed on: one file per format, each a pure function of the audit."""
