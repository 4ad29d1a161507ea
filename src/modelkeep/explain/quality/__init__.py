"""Are the reasons good ones? Tests of explanations, and of models by them (Leino2022, chapters 2 and 4)."""
