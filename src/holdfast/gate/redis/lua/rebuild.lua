-- Rebuilding a pool from the ledger: close it, so that its journal does not grow while the ledger reads the rest; then
-- begin, load (as often as needed), open. The last three name the new epoch: of two processes that rebuild a pool, the
-- one with the higher epoch wins, and the other changes nothing. None of them records an event.
--
-- holdfast_close_v2
--   KEYS     pool
--   ARGV     epoch
--   returns  the last sequence of its journal, or -1 if there is no such pool under this epoch. It is closed anyway:
--            another process may be about to load this epoch, and must not open it any more
-- holdfast_begin_v2
--   KEYS     those of the pool
--   ARGV     epoch, decided_at, pool values as msgpack, transfer counters as msgpack: {{name, number}, …}
--   returns  1, or 0 if the pool is already under this epoch or a later one
-- holdfast_load_v2
--   KEYS     those of the pool
--   ARGV     epoch, units held, the numbers of holds, deadlines and owners that follow, and all of these as they are stored:
--            id, hold, …; expires_at, id, …; owner, what it has, … (added to what is stored); field in keys, first answer, …
--   returns  1, or 0 if the pool is not loading under this epoch
-- holdfast_open_v2
--   KEYS     those of the pool
--   ARGV     epoch
--   returns  1; 0 if the pool is not loading under this epoch; -1 if what was loaded does not add up to its counts
-- holdfast_drop_v2: delete a pool that is not needed any more, and is closed and drained
--   KEYS     those of the pool
--   ARGV     epoch, sequence
--   returns  1, or 0 if the pool is not closed there, or has holds

local function close(keys, args)
  local epoch, pool = tonumber(args[1]), read_pool(keys[1])
  if pool and pool.epoch > epoch then return -1 end
  redis.call('HSET', keys[1], 'epoch', epoch, 'state', 'closed')
  -- The ledger's position in the journal of an earlier epoch does not apply to this one.
  if pool and pool.epoch < epoch then redis.call('HSET', keys[1], 'trimmed', 0) end
  return pool and pool.epoch == epoch and pool.seq or -1
end

local function drop(keys, args)
  local pool = read_pool(keys[1])
  local is_there = pool and pool.epoch == tonumber(args[1]) and pool.seq == tonumber(args[2])
  if not is_there or pool.state ~= 'closed' or pool.held > 0 then return 0 end
  redis.call('UNLINK', unpack(keys))
  return 1
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
  pool.n_holds, pool.n_owners, pool.n_keys, pool.trimmed = 1, 1, 1, 0
  for _, hash in ipairs({keys[2], keys[4], keys[6]}) do redis.call('HSET', hash, '', '') end
  redis.call('ZADD', keys[3], '+inf', '')
  redis.call('XADD', keys[5], args[1] .. '-0', 'c', '')
  redis.call('XTRIM', keys[5], 'MAXLEN', 0)
  write_pool(keys[1], pool)
  for _, counter in ipairs(cmsgpack.unpack(args[4])) do redis.call('HSET', keys[1], counter[1], counter[2]) end
  redis.call('HSET', keys[1], 'loads', 0, 'loaded_units', 0, 'loaded_active', 0)
  return 1
end

local function is_loading(key, epoch)
  local stored = redis.call('HMGET', key, 'epoch', 'state')
  return tonumber(stored[1]) == tonumber(epoch) and stored[2] == 'loading'
end

-- Portions are split by reservation, so an owner may appear in several of them, but once in each. Returns how many are new.
local function add_owners(key, owners)
  local names, index = {}, 0
  for at = 1, #owners, 2 do names[#names + 1] = owners[at] end
  in_portions(names, function(...)
    for _, stored in ipairs(redis.call('HMGET', key, ...)) do
      index = index + 2
      if stored then
        local live_before, released_before, ids = unpack(cmsgpack.unpack(stored))
        local live, released, more = unpack(cmsgpack.unpack(owners[index]))
        for _, id in ipairs(more) do ids[#ids + 1] = id end
        owners[index] = cmsgpack.pack({live + live_before, released + released_before, ids})
      end
    end
    return 0
  end)
  return set_fields(key, owners)
end

local function load(keys, args)
  if not is_loading(keys[1], args[1]) then return 0 end
  local at = 6
  local function pairs_of(count)
    local found = {}
    for index = at, at + 2 * count - 1 do found[#found + 1] = args[index] end
    at = at + 2 * count
    return found
  end
  local holds, deadlines, owners = pairs_of(args[3]), pairs_of(args[4]), pairs_of(args[5])
  local firsts = pairs_of((#args - at + 1) / 2)
  redis.call('HINCRBY', keys[1], 'n_holds', set_fields(keys[2], holds))
  in_portions(deadlines, function(...) return redis.call('ZADD', keys[3], ...) end)
  redis.call('HINCRBY', keys[1], 'n_owners', add_owners(keys[4], owners))
  redis.call('HINCRBY', keys[1], 'n_keys', set_fields(keys[6], firsts))
  -- Shows other processes that the rebuild makes progress.
  redis.call('HINCRBY', keys[1], 'loads', 1)
  redis.call('HINCRBY', keys[1], 'loaded_units', args[2])
  redis.call('HINCRBY', keys[1], 'loaded_active', args[4])
  return 1
end

local function open(keys, args)
  if not is_loading(keys[1], args[1]) then return 0 end
  local loaded = redis.call('HMGET', keys[1], 'held', 'loaded_units', 'active', 'loaded_active')
  if loaded[1] ~= loaded[2] or loaded[3] ~= loaded[4] then return -1 end
  if is_torn(keys, read_pool(keys[1])) then return -1 end
  redis.call('HSET', keys[1], 'state', OPEN)
  redis.call('HDEL', keys[1], 'loads', 'loaded_units', 'loaded_active')
  return 1
end

redis.register_function('holdfast_close_v2', close)
redis.register_function('holdfast_drop_v2', drop)
redis.register_function('holdfast_begin_v2', begin)
redis.register_function('holdfast_load_v2', load)
redis.register_function('holdfast_open_v2', open)
