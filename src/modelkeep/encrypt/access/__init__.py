"""Access: a server that answers permitted keys only, by rules on their holders' attributes (Saha2020, eq. 3.4)."""
