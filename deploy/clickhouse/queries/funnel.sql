-- How many visitors of a sale came how far. A refused attempt is an attempt. Parameter: sale.
SELECT reached.1 AS step, countIf(furthest >= reached.2) AS people
FROM
(
    SELECT visitor, max(indexOf(['view', 'join', 'pass', 'attempt', 'pay'],
                                if(kind = 'refusal' AND step = 'attempt', 'attempt', kind))) AS furthest
    FROM clicks
    WHERE sale_id = {sale:String} AND visitor != ''
    GROUP BY visitor
)
ARRAY JOIN [('view', 1), ('join', 2), ('pass', 3), ('attempt', 4), ('pay', 5)] AS reached
GROUP BY reached
ORDER BY reached.2;
