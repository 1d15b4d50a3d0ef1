"""Puzzles of a recipe as a dataset: `python -m data_mix.export`."""
