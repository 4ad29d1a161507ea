"""The views: a file each, with its routes."""
