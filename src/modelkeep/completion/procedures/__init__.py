"""The retraining procedures: the paper's T1 to T4, and three that an attacker would try beyond them."""
