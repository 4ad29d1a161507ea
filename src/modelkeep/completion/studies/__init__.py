"""The six findings of the model-completion paper (paper 000, section 5), each as a study with ours beside theirs."""
