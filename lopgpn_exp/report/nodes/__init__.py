"""Single nodes for people: tables of flags, and why one node is as uncertain as it is."""
