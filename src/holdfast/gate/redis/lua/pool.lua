-- Reads and writes the hash of a pool, and compares it with the other keys.
--
-- The manifest: how many fields holds, owners and keys have, how many rules there are, and up to which sequence the
-- journal is trimmed. Together with the number of active holds and the sequence it determines the size of
-- each key of a pool, which takes no time to check. A pool that lost one of its keys, or a part of one, is torn: it decides nothing until it is
-- rebuilt.

-- The number is the version of the key layout, so that functions of another version do not consider the pool open.
local OPEN = 'open:2'
local MANIFEST = {'n_holds', 'n_owners', 'n_keys', 'n_rules', 'trimmed'}
local COUNTS = {'total', 'held', 'sold', 'active'}
local RULES = {'per_owner_limit', 'hold_budget', 'required_tier', 'opens_at', 'ends_at'}
local FIELDS = {
  'total', 'held', 'sold', 'active', 'ready', 'per_owner_limit', 'hold_budget', 'required_tier', 'opens_at', 'ends_at',
  'paused', 'decided_at', 'epoch', 'seq', 'n_holds', 'n_owners', 'n_keys', 'n_rules', 'trimmed', 'state',
}
local OPTIONAL = {per_owner_limit = true, hold_budget = true, required_tier = true, opens_at = true, ends_at = true}

local function read_pool(key)
  local stored = redis.call('HMGET', key, unpack(FIELDS))
  if not stored[1] and redis.call('EXISTS', key) == 0 then return nil end
  local pool = {rules = {}, is_whole = true}
  for index, field in ipairs(FIELDS) do
    pool[field] = tonumber(stored[index])
    if not stored[index] and not OPTIONAL[field] then pool[field], pool.is_whole = 0, false end
  end
  local rules = 0
  for _, field in ipairs(RULES) do
    pool.rules[field] = pool[field]
    if pool[field] then rules = rules + 1 end
    pool[field] = nil
  end
  pool.is_whole = pool.is_whole and rules == pool.n_rules
  pool.rules.paused = pool.paused == 1
  pool.ready = pool.ready == 1
  pool.state = stored[#FIELDS]
  pool.free = pool.total - pool.held - pool.sold
  return pool
end

local function is_torn(keys, pool)
  return not pool.is_whole
    or redis.call('HLEN', keys[2]) ~= pool.n_holds
    or redis.call('ZCARD', keys[3]) ~= pool.active + 1
    or redis.call('HLEN', keys[4]) ~= pool.n_owners
    or redis.call('XLEN', keys[5]) ~= pool.seq - pool.trimmed
    or redis.call('HLEN', keys[6]) ~= pool.n_keys
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
  pool.n_rules = 0
  for _, field in ipairs(RULES) do
    if pool.rules[field] then pool.n_rules = pool.n_rules + 1 end
  end
  local flat = {
    'ready', pool.ready and 1 or 0, 'paused', pool.rules.paused and 1 or 0, 'decided_at', pool.decided_at,
    'epoch', pool.epoch, 'seq', pool.seq, 'state', pool.state,
  }
  for _, fields in ipairs({COUNTS, MANIFEST}) do
    for _, field in ipairs(fields) do
      flat[#flat + 1] = field
      flat[#flat + 1] = pool[field]
    end
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
