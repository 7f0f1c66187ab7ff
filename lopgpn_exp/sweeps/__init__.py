"""Many runs as one sweep: planning it, executing its jobs here or on a cluster, and reporting the outcome."""
