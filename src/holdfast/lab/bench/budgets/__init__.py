"""The cost of a request in function calls, which does not depend on the machine. Imported by commands."""
