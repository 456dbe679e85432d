-- holdfast_sweep_v2: delete expired idempotency keys and replies, a portion of the keys per call
--   KEYS     those of the pool
--   ARGV     epoch, cursor, about how many keys to read, keys_kept_ms, calls_kept_ms, the time or 0
--   returns  the next cursor, or '0' after the last portion
--   events   none

local function forget(key, found, is_old)
  local old = {}
  for index = 1, #found, 2 do
    if found[index + 1] ~= '' and is_old(cmsgpack.unpack(found[index + 1])) then old[#old + 1] = found[index] end
  end
  return in_portions(old, function(...) return redis.call('HDEL', key, ...) end)
end

local function sweep(keys, args)
  local pool = read_pool(keys[1])
  if not pool or pool.epoch ~= tonumber(args[1]) or pool.state ~= OPEN or is_torn(keys, pool) then return '0' end
  local now = now_ms(args[6], pool.decided_at)
  local cursor, found = unpack(redis.call('HSCAN', keys[6], args[2], 'COUNT', args[3]))
  local forgotten = forget(keys[6], found, function(first) return first[4] + tonumber(args[4]) <= now end)
  redis.call('HSET', keys[1], 'n_keys', pool.n_keys - forgotten)
  local calls = redis.call('HSCAN', keys[1], 0, 'MATCH', 'call:*', 'COUNT', 1000)[2]
  forget(keys[1], calls, function(call) return call[2] + tonumber(args[5]) <= now end)
  return cursor
end

redis.register_function('holdfast_sweep_v2', sweep)
