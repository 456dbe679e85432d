-- Why visitors of a sale were refused, and at what step. Parameter: sale.
SELECT step, reason, count() AS clicks, uniqExactIf(visitor, visitor != '') AS people
FROM clicks
WHERE sale_id = {sale:String} AND kind = 'refusal'
GROUP BY step, reason
ORDER BY clicks DESC, step, reason;
