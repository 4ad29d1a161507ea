"""The plasticity hypothesis of Saha2020, chapter 5: its table, its figure, and the experiments that it asks for."""
