-- holdfast_audit_v1: what the holds add up to, one by one
--   KEYS   pool, holds, deadlines
--   ARGV   the most holds to go through
--   gives  msgpack: {epoch, sequence, held, active, units of holds, active holds, deadlines}, or {false} if there is no
--          such pool or it has more holds than that

local function audit(keys, args)
  local pool = read_pool(keys[1])
  if not pool or redis.call('HLEN', keys[2]) > tonumber(args[1]) then return cmsgpack.pack({false}) end
  local units, active = 0, 0
  for _, stored in ipairs(redis.call('HVALS', keys[2])) do
    local hold = cmsgpack.unpack(stored)
    if hold[3] == 'active' then active = active + 1 end
    if hold[3] == 'active' or hold[3] == 'settling' then units = units + hold[2] end
  end
  local deadlines = redis.call('ZCARD', keys[3])
  return cmsgpack.pack({pool.epoch, pool.seq, pool.held, pool.active, units, active, deadlines})
end

redis.register_function{function_name = 'holdfast_audit_v1', callback = audit, flags = {'no-writes'}}
