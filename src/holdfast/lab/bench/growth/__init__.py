"""How figures change with the number of pools, holds, settlements and people in line.

Imported by bench and commands.
"""
