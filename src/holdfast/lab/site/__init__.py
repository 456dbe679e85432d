"""The documentation as a website: `python -m holdfast.lab.site [DIRECTORY]`, which `make docs-site` runs.
Nothing imports it.

The pages of `docs/` are copied to a build directory, next to the reference, which is generated from the code. Links out
of `docs/` point to the copies, or become plain text if their target is not published. MkDocs builds the site with a
search and without resources from other servers, and fails on a broken link or anchor. Versions built there earlier are
kept, and every page has a menu to switch between versions.
"""
