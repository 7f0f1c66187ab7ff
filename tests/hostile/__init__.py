"""Attacks: hostile files, damaged files, failing services. `make test-hostile` runs them with many more mutations."""
