"""Who operates: signing in by name, operators, their sessions, the record of what they did."""
