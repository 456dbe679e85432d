-- holdfast_view_v2: a pool as its next buyer would find it: due holds count as free, as many as a batch would return
--   KEYS     those of the pool
--   ARGV     the time or 0 (see clock.lua)
--   returns  msgpack: {now, epoch, sequence, state (open, torn, closed or loading), pool values, units and number of due
--            holds (of the first DUE_RETURNED_MAX), next deadline or false}, or {false} if there is no such pool
--   events   none

local function view(keys, args)
  local pool = read_pool(keys[1])
  if not pool then return cmsgpack.pack({false}) end
  local now = now_ms(args[1], pool.decided_at)
  local due = redis.call('ZRANGEBYSCORE', keys[3], '-inf', now, 'LIMIT', 0, DUE_RETURNED_MAX)
  local units = 0
  for from = 1, #due, 1000 do
    local stored = redis.call('HMGET', keys[2], unpack(due, from, math.min(from + 999, #due)))
    -- A deadline without its hold is found by the audit, which needs this view first.
    for _, hold in ipairs(stored) do units = units + (hold and cmsgpack.unpack(hold)[2] or 0) end
  end
  local after = redis.call('ZRANGEBYSCORE', keys[3], '(' .. string.format('%d', now), '(+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  local values, state = pool_values(pool), pool.state
  if state == OPEN then state = is_torn(keys, pool) and 'torn' or 'open' end
  if not pool.is_whole then state = 'torn' end
  return cmsgpack.pack({now, pool.epoch, pool.seq, state, values, units, #due, tonumber(after[2]) or false})
end

redis.register_function{function_name = 'holdfast_view_v2', callback = view, flags = {'no-writes'}}
