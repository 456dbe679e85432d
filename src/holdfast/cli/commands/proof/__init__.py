"""What happened, and proof of it: verify, audit, report, lottery. Imported by the application, by name."""
