-- restock, provision: change the total and the rules of a pool
--   command   {'restock', units}
--             {'provision', total or false, {limit, budget, tier, opens_at, ends_at, paused} or false,
--             {rule = value} or false, only_if_missing, unless_in_sale}; false means no rule, or an unchanged total
--   answers   {'moved' | 'illegal' | 'insufficient' | 'already', pool values}
--   events    pool.restocked, pool.provisioned; reservation.expired for overdue holds, if the total shrinks

local function set_total(batch, total, rules, event, max_total)
  local pool = batch.pool
  if total > max_total then return {'illegal', unpack(pool_values(pool))} end
  if total < pool.total - pool.free then
    return_due_until(batch, function() return total >= pool.total - pool.free end)
  end
  if total < pool.total - pool.free then return {'insufficient', unpack(pool_values(pool))} end
  if total ~= pool.total then record(batch, event, false, total - pool.total) end
  pool.free = pool.free + total - pool.total
  pool.total = total
  pool.rules = rules
  return {'moved', unpack(pool_values(pool))}
end

local function restock(batch, command, max_total)
  return set_total(batch, batch.pool.total + command[2], batch.pool.rules, 'pool.restocked', max_total)
end

local function rules_from(before, whole, changes)
  local rules = {paused = before.paused}
  for index, field in ipairs(RULES) do
    if whole then rules[field] = whole[index] or nil else rules[field] = before[field] end
  end
  if whole then rules.paused = whole[#RULES + 1] end
  if changes then
    for field, value in pairs(changes) do
      if field == 'paused' then rules.paused = value else rules[field] = value or nil end
    end
  end
  return rules
end

local function provision(batch, command, max_total)
  local _, total, whole, changes, only_if_missing, unless_in_sale = unpack(command)
  if only_if_missing then return {'already', unpack(pool_values(batch.pool))} end
  if unless_in_sale and batch.pool.rules.opens_at then return {'illegal', unpack(pool_values(batch.pool))} end
  local rules = rules_from(batch.pool.rules, whole, changes)
  return set_total(batch, total or batch.pool.total, rules, 'pool.provisioned', max_total)
end
