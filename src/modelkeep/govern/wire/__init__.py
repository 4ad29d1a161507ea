"""Wire: typed frames of raw tensor bytes between parties, over mutual TLS with pinned keys."""
