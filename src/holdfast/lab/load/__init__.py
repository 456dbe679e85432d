"""Load clients, engines and servers started for a measurement. Imported by the other tools of lab."""
