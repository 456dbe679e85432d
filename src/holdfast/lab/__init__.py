"""Tools to load-test, measure, forecast and demonstrate Holdfast.

Nothing outside lab imports it; the CLI finds its commands by name. From the bottom up: load, scenarios and charts;
bench, rush, plan and sandbox, which do not import one another; demo, which runs a rush; commands.
"""
