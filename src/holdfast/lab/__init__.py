"""Tools to load-test, measure, forecast and demonstrate Holdfast.

Nothing outside lab imports it; the CLI finds its commands by name. From the bottom up: load, scenarios and charts;
bench, plan, rush, sandbox and simulation, which do not import one another; demo, growing and simulate, which use them;
commands and documents.
"""
