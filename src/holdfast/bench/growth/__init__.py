"""How figures change as more is waiting, asked for, held, or in line."""
