"""Speed of the project, as ratios to a plain implementation and to what the machine allows."""
