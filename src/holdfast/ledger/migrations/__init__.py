"""The Alembic environment. Alembic loads it; nothing may import it.

From 0013 on, a migration runs while servers of the release before sell. It only adds: tables, and columns that may be
null or have a server default. It changes `pools` before other tables, as writers lock it first. It builds no index on
a table that may be large, because writers wait meanwhile. Columns that this release no longer uses are removed by the
next one, which then sets `min_reader` in `compatibility` to the first revision that does without them.
"""
