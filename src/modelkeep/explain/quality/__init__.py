"""Are the reasons good ones? Tests of explanations, and of models by them (thesis 002, chapters 2 and 4)."""
