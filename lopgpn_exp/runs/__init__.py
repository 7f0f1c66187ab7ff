"""One run: its identity, its cached training, its folder, and everything that reads finished runs again."""
