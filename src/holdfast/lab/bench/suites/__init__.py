"""One file per `holdfast bench` command. Imported by commands."""
