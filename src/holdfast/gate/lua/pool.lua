-- A pool as the rulebook knows it, and as it is stored.

local COUNTS = {'total', 'held', 'sold', 'active'}
local RULES = {'per_owner_limit', 'hold_budget', 'required_tier', 'opens_at', 'ends_at'}
local FIELDS = {
  'total', 'held', 'sold', 'active', 'ready', 'per_owner_limit', 'hold_budget', 'required_tier', 'opens_at', 'ends_at',
  'paused', 'decided_at', 'epoch', 'seq', 'state',
}

local function read_pool(key)
  local stored = redis.call('HMGET', key, unpack(FIELDS))
  if not stored[1] then return nil end
  local pool = {rules = {}}
  for index, field in ipairs(FIELDS) do pool[field] = tonumber(stored[index]) end
  for _, field in ipairs(RULES) do
    pool.rules[field] = pool[field]
    pool[field] = nil
  end
  pool.rules.paused = pool.paused == 1
  pool.ready = pool.ready == 1
  pool.state = stored[#FIELDS]
  pool.free = pool.total - pool.held - pool.sold
  return pool
end

local function counts_owners(rules)
  return rules.per_owner_limit ~= nil or rules.hold_budget ~= nil
end

local function availability(pool)
  if pool.free > 0 then return 'available' end
  if pool.held > 0 then return 'all_held' end
  return 'sold_out'
end

-- total, held, sold, active, ready, limit, budget, tier, opens_at, ends_at, paused; false where there is no rule
local function pool_values(pool)
  local values = {}
  for _, field in ipairs(COUNTS) do values[#values + 1] = pool[field] end
  values[#values + 1] = pool.ready
  for _, field in ipairs(RULES) do values[#values + 1] = pool.rules[field] or false end
  values[#values + 1] = pool.rules.paused
  return values
end

local function write_pool(key, pool)
  local flat = {
    'ready', pool.ready and 1 or 0, 'paused', pool.rules.paused and 1 or 0, 'decided_at', pool.decided_at,
    'epoch', pool.epoch, 'seq', pool.seq, 'state', pool.state,
  }
  for _, field in ipairs(COUNTS) do
    flat[#flat + 1] = field
    flat[#flat + 1] = pool[field]
  end
  local gone = {}
  for _, field in ipairs(RULES) do
    if pool.rules[field] then
      flat[#flat + 1] = field
      flat[#flat + 1] = pool.rules[field]
    else
      gone[#gone + 1] = field
    end
  end
  redis.call('HSET', key, unpack(flat))
  if #gone > 0 then redis.call('HDEL', key, unpack(gone)) end
end
