"""Which puzzles a run sees: photos, their splits, and mixtures of parts."""
