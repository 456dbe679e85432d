"""Pages for people. No build step, no script where none is needed, nothing from another host."""
