-- holdfast_view_v1: a pool as its next buyer would find it
--   KEYS   pool, holds, deadlines
--   gives  msgpack: {now, epoch, sequence, state, pool values, overdue units, overdue reservations, next deadline or
--          false}, or {false} if there is no such pool

local function view(keys)
  local pool = read_pool(keys[1])
  if not pool then return cmsgpack.pack({false}) end
  local now = now_ms(pool.decided_at)
  local due = redis.call('ZRANGEBYSCORE', keys[3], '-inf', now)
  local units = 0
  for from = 1, #due, 1000 do
    local stored = redis.call('HMGET', keys[2], unpack(due, from, math.min(from + 999, #due)))
    -- A deadline without its hold is for the audit to find, which needs this view to be there.
    for _, hold in ipairs(stored) do units = units + (hold and cmsgpack.unpack(hold)[2] or 0) end
  end
  local after = redis.call('ZRANGEBYSCORE', keys[3], '(' .. string.format('%d', now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  local values = pool_values(pool)
  return cmsgpack.pack({now, pool.epoch, pool.seq, pool.state, values, units, #due, tonumber(after[2]) or false})
end

redis.register_function{function_name = 'holdfast_view_v1', callback = view, flags = {'no-writes'}}
