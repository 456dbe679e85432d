-- Whether the holds of a pool agree with its other keys. Both read only, and record no event.
--
-- holdfast_audit_v2: add up the holds, to compare with the counts of the pool
--   KEYS     those of the pool
--   ARGV     the maximum number of holds to read
--   returns  msgpack: {epoch, sequence, held, active, units of holds, active holds, deadlines}, or {false} if there is
--            no such pool or it has more holds than the maximum
-- holdfast_audit_portion_v2: compare some holds with their deadlines and owners
--   KEYS     those of the pool
--   ARGV     cursor, about how many holds to read
--   returns  msgpack: {next cursor, or '0' after the last portion; how many holds disagree}

local function audit(keys, args)
  local pool = read_pool(keys[1])
  if not pool or pool.n_holds > tonumber(args[1]) then return cmsgpack.pack({false}) end
  local units, active = 0, 0
  for _, stored in ipairs(redis.call('HVALS', keys[2])) do
    local hold = stored ~= '' and cmsgpack.unpack(stored) or {}
    if hold[3] == 'active' then active = active + 1 end
    if hold[3] == 'active' or hold[3] == 'settling' then units = units + hold[2] end
  end
  local deadlines = redis.call('ZCARD', keys[3]) - 1
  return cmsgpack.pack({pool.epoch, pool.seq, pool.held, pool.active, units, active, deadlines})
end

local function has_owner(keys, name, quantity)
  local stored = redis.call('HGET', keys[4], name)
  return stored and cmsgpack.unpack(stored)[1] >= quantity
end

local function agrees(keys, pool, id, stored)
  local owner, quantity, status, _, expires_at = unpack(cmsgpack.unpack(stored))
  if status ~= 'active' and status ~= 'settling' then return true end
  local deadline = tonumber(redis.call('ZSCORE', keys[3], id) or nil)
  if deadline ~= (status == 'active' and expires_at or nil) then return false end
  return not counts_owners(pool.rules) or has_owner(keys, owner, quantity)
end

local function audit_portion(keys, args)
  local pool, wrong = read_pool(keys[1]), 0
  if not pool then return cmsgpack.pack({'0', 0}) end
  local cursor, found = unpack(redis.call('HSCAN', keys[2], args[1], 'COUNT', args[2]))
  for index = 1, #found, 2 do
    if found[index] ~= '' and not agrees(keys, pool, found[index], found[index + 1]) then wrong = wrong + 1 end
  end
  return cmsgpack.pack({cursor, wrong})
end

redis.register_function{function_name = 'holdfast_audit_v2', callback = audit, flags = {'no-writes'}}
redis.register_function{function_name = 'holdfast_audit_portion_v2', callback = audit_portion, flags = {'no-writes'}}
