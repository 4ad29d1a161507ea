"""The figures and tables of thesis 002, chapter 9, as studies that anybody can run again."""
