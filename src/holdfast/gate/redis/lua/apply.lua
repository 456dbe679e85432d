-- holdfast_apply_v2: decide a batch
--   KEYS     those of the pool
--   ARGV     epoch, highest sequence the caller has seen, max_total, keys_kept_ms, journal_max, the caller's field and its
--            number for this call, commands as msgpack, the time or 0 (see clock.lua)
--   returns  msgpack: {'decided', now, sequence, answers}, or if nothing was changed: {'missing'} (no such pool),
--            {'epoch', epoch, sequence} (the pool is under another epoch), {'stale', epoch, sequence} (data was lost:
--            the caller has seen a higher sequence), {'loading', epoch, sequence} (not open), {'torn', epoch, sequence}
--            (some of its data was lost), {'superseded'} (the caller has sent a later call), {'lagging'} (the ledger is
--            too far behind for more holds), {'counting'} (a rule needs tallies that Redis does not keep; decide it in
--            the ledger)
--   events   those of the commands; pool.sold_out, pool.returned

local OPERATIONS = {
  reserve = reserve, extend = extend, settle = move, confirm = move, fail = move, cancel = move, expire = expire,
  reopen = move, give = give, take = take,
}

local function answer(batch, command, max_total)
  local name = command[1]
  if name == 'restock' then return restock(batch, command, max_total) end
  if name == 'provision' then return provision(batch, command, max_total) end
  return OPERATIONS[name](batch, command)
end

local function record_availability(batch, was)
  -- A shard cannot tell whether the whole pool is empty.
  if string.find(batch.keys.pool, '/', 1, true) then return end
  local is = availability(batch.pool)
  if was == is or is == 'all_held' then return end
  record(batch, is == 'sold_out' and 'pool.sold_out' or 'pool.returned', false, batch.pool.free)
end

local function refuse_call(keys, pool, epoch, seen)
  if not pool then return {'missing'} end
  if not pool.is_whole then return {'torn', pool.epoch, pool.seq} end
  if pool.epoch ~= epoch then return {'epoch', pool.epoch, pool.seq} end
  if pool.seq < seen then return {'stale', pool.epoch, pool.seq} end
  if pool.state ~= OPEN then return {'loading', pool.epoch, pool.seq} end
  if is_torn(keys, pool) then return {'torn', pool.epoch, pool.seq} end
  return nil
end

-- The reply to this call, or to a later one of the same caller. A call that is delayed in transit and overtaken by
-- its retry must not be executed as well.
local function earlier_reply(key, field, number)
  local stored = redis.call('HGET', key, field)
  if not stored then return nil end
  local answered, _, reply = unpack(cmsgpack.unpack(stored))
  if answered == number then return reply end
  return answered > number and cmsgpack.pack({'superseded'}) or nil
end

local function is_lagging(pool, commands, journal_max)
  if pool.seq - pool.trimmed < journal_max then return false end
  for _, command in ipairs(commands) do
    if command[1] == 'reserve' then return true end
  end
  return false
end

local function asks_for_tallies(pool, commands)
  if counts_owners(pool.rules) then return false end
  for _, command in ipairs(commands) do
    if command[1] == 'provision' and not command[5] then
      local whole, changes = command[3] or {}, command[4] or {}
      if whole[1] or whole[2] or changes.per_owner_limit or changes.hold_budget then return true end
    end
  end
  return false
end

local function apply(keys, args)
  local pool = read_pool(keys[1])
  local refusal = refuse_call(keys, pool, tonumber(args[1]), tonumber(args[2]))
  if refusal then return cmsgpack.pack(refusal) end
  local caller, number = 'call:' .. args[6], tonumber(args[7])
  local earlier = earlier_reply(keys[1], caller, number)
  if earlier then return earlier end
  local commands = cmsgpack.unpack(args[8])
  if is_lagging(pool, commands, tonumber(args[5])) then return cmsgpack.pack({'lagging'}) end
  if asks_for_tallies(pool, commands) then return cmsgpack.pack({'counting'}) end
  local names = {
    pool = keys[1], holds = keys[2], deadlines = keys[3], owners = keys[4], journal = keys[5], keys = keys[6],
  }
  local batch = new_batch(names, pool, now_ms(args[9], pool.decided_at), counts_owners(pool.rules))
  batch.keys_kept_ms = tonumber(args[4])
  local before, was, answers = cmsgpack.pack(pool_values(pool)), availability(pool), {}
  for index, command in ipairs(commands) do
    answers[index] = answer(batch, command, tonumber(args[3]))
  end
  record_availability(batch, was)
  local is_changed = #batch.events > 0 or cmsgpack.pack(pool_values(pool)) ~= before
  local reply = cmsgpack.pack({'decided', batch.now, pool.seq + (is_changed and 1 or 0), answers})
  if is_changed then
    write_batch(batch)
    redis.call('HSET', keys[1], caller, cmsgpack.pack({number, batch.now, reply}))
  end
  return reply
end

redis.register_function('holdfast_apply_v2', apply)
