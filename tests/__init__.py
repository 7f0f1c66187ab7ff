"""Shapes in annotations are executed by the tests: this is the checker that pyproject.toml names."""

from beartype import BeartypeConf, beartype

checker = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int is a fine float
