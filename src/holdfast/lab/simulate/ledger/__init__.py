"""The ledger of a run, its faults, and the operator who recovers it. Imported by simulate."""
