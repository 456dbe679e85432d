"""What a request costs in calls of functions, which does not depend on the machine. Imported by `bench budgets`."""
