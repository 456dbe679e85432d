"""Defines simulated sales and the behaviour of their buyers. Imported by rush, plan, demo and commands."""
