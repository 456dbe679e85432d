"""The rules, pure: no I/O, no await, no clock."""
