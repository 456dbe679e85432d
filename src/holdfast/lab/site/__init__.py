"""The documentation as a website: `python -m holdfast.lab.site [DIRECTORY]`, which `make docs-site` runs.
Nothing imports it.

The pages of `docs/` are copied to a directory for building, next to the reference, which is generated from the code.
Links out of `docs/` lead to the copies, or become plain text where nothing is published. MkDocs makes the site, with
search and without anything from another server, and fails if a link or an anchor leads nowhere. Versions that were
built there before stay, with a choice between them on every page.
"""
