"""Where a gateway keeps what it must not forget: SQLite in one file, or PostgreSQL for many replicas."""
