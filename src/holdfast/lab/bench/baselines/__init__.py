"""The usual ways to take a unit from a hot counter, to compare with. Imported by the suites."""
