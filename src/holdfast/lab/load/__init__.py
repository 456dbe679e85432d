"""Load clients, engines and servers started for a measurement. Imported by bench, rush, demo and commands."""
