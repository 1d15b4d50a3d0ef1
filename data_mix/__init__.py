"""Which puzzles a run sees: photos, their splits, datasets, and mixtures of parts."""
