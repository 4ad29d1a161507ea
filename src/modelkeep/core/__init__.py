"""What all rooms share: models, slices, data, results, norms, errors, pictures and progress."""
