"""The plasticity hypothesis of thesis 004, chapter 5: its table, its figure, and the experiments that it asks for."""
