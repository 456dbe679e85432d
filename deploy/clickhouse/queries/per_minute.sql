-- What happened in each minute of a sale. One in a hundred polls is in the stream. Parameter: sale.
SELECT toStartOfMinute(at) AS minute, countIf(kind = 'view') AS views, countIf(kind = 'join') AS joins,
       countIf(kind = 'poll') * 100 AS polls, countIf(step = 'attempt') AS attempts, countIf(kind = 'pay') AS payments,
       countIf(kind = 'leave') AS leaves, countIf(kind = 'refusal') AS refusals
FROM clicks
WHERE sale_id = {sale:String}
GROUP BY minute
ORDER BY minute;
