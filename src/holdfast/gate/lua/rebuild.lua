-- A pool is closed, so that nothing is added to its journal while the ledger reads the rest of it, and then rebuilt from
-- the ledger in three kinds of calls: begin, load (as often as it takes), open. These name the new epoch, so that of two
-- who rebuild the one with the higher epoch wins, and the other changes nothing any more.
--
-- holdfast_close_v1
--   KEYS   pool
--   ARGV   epoch
--   gives  the sequence its journal ends with, or -1 if there is no such pool under this epoch
-- holdfast_begin_v1
--   KEYS   pool, holds, deadlines, owners, journal
--   ARGV   epoch, decided_at, pool values as msgpack, {{name, number}, …} of what it has given and taken as msgpack
--   gives  1, or 0 if the pool is under this epoch or a later one already
-- holdfast_load_v2
--   KEYS   pool, holds, deadlines, owners, then one per idempotency key
--   ARGV   epoch, holds as msgpack: {{id, owner, quantity, status, created_at, expires_at}, …},
--          owners as msgpack: {{owner, live units, let go, ids of active reservations}, …}, to be added to what they have,
--          first answers as msgpack, one per key: {{ms to keep it, fingerprint, id, quantity, created_at, expires_at}, …}
--   gives  1, or 0 if the pool is not loading under this epoch
-- holdfast_open_v1
--   KEYS   pool, holds, deadlines
--   ARGV   epoch
--   gives  1; 0 if the pool is not loading under this epoch; -1 if what was loaded does not add up to its counts

local function close(keys, args)
  local pool = read_pool(keys[1])
  if not pool or pool.epoch ~= tonumber(args[1]) then return -1 end
  redis.call('HSET', keys[1], 'state', 'closed')
  return pool.seq
end

local function begin(keys, args)
  local epoch = tonumber(args[1])
  local before = redis.call('HGET', keys[1], 'epoch')
  if before and tonumber(before) >= epoch then return 0 end
  local values = cmsgpack.unpack(args[3])
  local pool = {ready = values[#COUNTS + 1], rules = {paused = values[#COUNTS + #RULES + 2]}}
  for index, field in ipairs(COUNTS) do pool[field] = values[index] end
  for index, field in ipairs(RULES) do pool.rules[field] = values[#COUNTS + 1 + index] or nil end
  pool.decided_at, pool.epoch, pool.seq, pool.state = tonumber(args[2]), epoch, 0, 'loading'
  redis.call('UNLINK', unpack(keys))
  write_pool(keys[1], pool)
  for _, counter in ipairs(args[4] and cmsgpack.unpack(args[4]) or {}) do redis.call('HSET', keys[1], counter[1], counter[2]) end
  redis.call('HSET', keys[1], 'loads', 0, 'loaded_units', 0, 'loaded_active', 0)
  return 1
end

local function is_loading(key, epoch)
  local stored = redis.call('HMGET', key, 'epoch', 'state')
  return tonumber(stored[1]) == tonumber(epoch) and stored[2] == 'loading'
end

-- Portions are of reservations, not of owners: who has some in another as well is added up.
local function add_owner(key, name, live, let_go, ids)
  local stored = redis.call('HGET', key, name)
  if stored then
    local live_before, let_go_before, ids_before = unpack(cmsgpack.unpack(stored))
    live, let_go = live + live_before, let_go + let_go_before
    for _, id in ipairs(ids_before) do ids[#ids + 1] = id end
  end
  redis.call('HSET', key, name, cmsgpack.pack({live, let_go, ids}))
end

local function load(keys, args)
  if not is_loading(keys[1], args[1]) then return 0 end
  local units, active, holds, deadlines = 0, 0, {}, {}
  for _, hold in ipairs(cmsgpack.unpack(args[2])) do
    local id, owner, quantity, status, created_at, expires_at = unpack(hold)
    holds[#holds + 1] = id
    holds[#holds + 1] = cmsgpack.pack({owner, quantity, status, created_at, expires_at})
    units = units + quantity
    if status == 'active' then
      active = active + 1
      deadlines[#deadlines + 1] = expires_at
      deadlines[#deadlines + 1] = id
    end
  end
  in_portions(holds, function(...) redis.call('HSET', keys[2], ...) end)
  in_portions(deadlines, function(...) redis.call('ZADD', keys[3], ...) end)
  for _, owner in ipairs(cmsgpack.unpack(args[3])) do add_owner(keys[4], unpack(owner)) end
  for index, first in ipairs(cmsgpack.unpack(args[4])) do
    local kept_ms, fingerprint, id, quantity, created_at, expires_at = unpack(first)
    local value = cmsgpack.pack({fingerprint, id, quantity, created_at, expires_at, tonumber(args[1])})
    redis.call('SET', keys[4 + index], value, 'PX', kept_ms)
  end
  -- Whoever looks on sees by this that it goes on.
  redis.call('HINCRBY', keys[1], 'loads', 1)
  redis.call('HINCRBY', keys[1], 'loaded_units', units)
  redis.call('HINCRBY', keys[1], 'loaded_active', active)
  return 1
end

local function open(keys, args)
  if not is_loading(keys[1], args[1]) then return 0 end
  local loaded = redis.call('HMGET', keys[1], 'held', 'loaded_units', 'active', 'loaded_active')
  if loaded[1] ~= loaded[2] or loaded[3] ~= loaded[4] then return -1 end
  if redis.call('ZCARD', keys[3]) ~= tonumber(loaded[4]) then return -1 end
  redis.call('HSET', keys[1], 'state', 'open')
  redis.call('HDEL', keys[1], 'loads', 'loaded_units', 'loaded_active')
  return 1
end

redis.register_function('holdfast_close_v1', close)
redis.register_function('holdfast_begin_v1', begin)
-- As processes of an older version call it, which name each owner once; what it was then would not add up.
redis.register_function('holdfast_load_v1', load)
redis.register_function('holdfast_load_v2', load)
redis.register_function('holdfast_open_v1', open)
