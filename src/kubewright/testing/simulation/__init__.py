"""A deterministic simulation of the whole product, under every failure that we can think of."""
