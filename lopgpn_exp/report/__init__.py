"""Results to tables and figures. Knows nothing of models."""
