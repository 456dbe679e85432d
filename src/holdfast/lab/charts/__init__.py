"""Charts for HTML reports (uPlot) and for the docs (matplotlib). Imported by bench, rush and plan."""
