"""Paper 003 made again: tables 2 to 6 and figures 3 to 6, extraction against defences."""
