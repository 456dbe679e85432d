"""The usual ways to take a unit from a hot counter, as baselines. Imported by the suites."""
