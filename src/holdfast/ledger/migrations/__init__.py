"""The Alembic environment. Alembic loads it; nothing may import it.

From 0013 on, a migration runs while servers of the previous release sell. It only adds tables, and columns that are
nullable or have a server default. It changes `pools` before other tables, because writers lock it first. It builds no
index on a table that may be large, because writers would wait. Columns that this release no longer uses are removed by
the next one, which then sets `min_reader` in `compatibility` to the first revision that does not need them.
"""
