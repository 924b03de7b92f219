"""Studies: one question a file; `experiments.study` runs them."""
