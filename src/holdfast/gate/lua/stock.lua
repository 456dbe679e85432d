-- restock, provision
--   command   {'restock', units}
--             {'provision', total or false, {limit, budget, tier, opens_at, ends_at, paused} or false,
--             {rule = value} or false, whether only a missing pool is to be made}; a rule that is false is none, a
--             total that is false stays
--   answers   {'moved' | 'illegal' | 'insufficient' | 'already', pool values}
--   events    pool.restocked, pool.provisioned; reservation.expired for overdue holds in the way of a smaller total

local function set_total(round, total, rules, event, max_total)
  local pool = round.pool
  if total > max_total then return {'illegal', unpack(pool_values(pool))} end
  if total < pool.total - pool.free then
    return_due_until(round, function() return total >= pool.total - pool.free end)
  end
  if total < pool.total - pool.free then return {'insufficient', unpack(pool_values(pool))} end
  if total ~= pool.total then record(round, event, false, total - pool.total) end
  pool.free = pool.free + total - pool.total
  pool.total = total
  pool.rules = rules
  return {'moved', unpack(pool_values(pool))}
end

local function restock(round, command, max_total)
  return set_total(round, round.pool.total + command[2], round.pool.rules, 'pool.restocked', max_total)
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

local function provision(round, command, max_total)
  local _, total, whole, changes, only_if_missing = unpack(command)
  if only_if_missing then return {'already', unpack(pool_values(round.pool))} end
  local rules = rules_from(round.pool.rules, whole, changes)
  return set_total(round, total or round.pool.total, rules, 'pool.provisioned', max_total)
end
