"""From a reservation to a paid order: settling, refunds, parked items, the audit of payments.

Every layer above may import it. It imports payments, the gate and the packages below.
"""
