"""Commands that show what happened and prove it: verify, audit, report, lottery.

The CLI loads them by name; nothing may import them.
"""
