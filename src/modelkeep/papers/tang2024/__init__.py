"""Tang et al. 2024, ModelGuard: Information-Theoretic Defense Against Model Extraction Attacks."""
