"""From a config to a result: schema, build, identity, cache, runner, tracking."""
