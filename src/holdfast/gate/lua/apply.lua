-- holdfast_apply_v1: decide a batch
--   KEYS   pool, holds, deadlines, owners, journal, call, then one per idempotency key in the batch
--   ARGV   epoch, the lowest sequence the caller knows to have been reached, max_total, keys_kept_ms, call_kept_ms,
--          the commands as msgpack
--   gives  msgpack: {'decided', now, sequence, answers} or, with nothing changed: {'missing'} (no such pool here),
--          {'epoch', epoch, sequence} (the pool is under another epoch), {'stale', epoch, sequence} (it has lost what the
--          caller has seen), {'loading', epoch, sequence}, {'counting'} (a rule asks for tallies that are not kept here)

local OPERATIONS = {
  reserve = reserve, extend = extend, settle = move, confirm = move, fail = move, cancel = move, expire = expire,
  give = give, take = take,
}

local function answer(round, command, max_total)
  local name = command[1]
  if name == 'restock' then return restock(round, command, max_total) end
  if name == 'provision' then return provision(round, command, max_total) end
  return OPERATIONS[name](round, command)
end

local function record_availability(round, was)
  -- A shard is not the pool: whether that is empty is not for it to tell.
  if string.find(round.keys.pool, '/', 1, true) then return end
  local is = availability(round.pool)
  if was == is or is == 'all_held' then return end
  record(round, is == 'sold_out' and 'pool.sold_out' or 'pool.returned', false, round.pool.free)
end

local function refuse_call(pool, epoch, seen)
  if not pool then return {'missing'} end
  if pool.epoch ~= epoch then return {'epoch', pool.epoch, pool.seq} end
  if pool.seq < seen then return {'stale', pool.epoch, pool.seq} end
  if pool.state ~= 'open' then return {'loading', pool.epoch, pool.seq} end
  return nil
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
  local refusal = refuse_call(pool, tonumber(args[1]), tonumber(args[2]))
  if refusal then return cmsgpack.pack(refusal) end
  local told = redis.call('GET', keys[6])
  if told then return told end
  local commands = cmsgpack.unpack(args[6])
  if asks_for_tallies(pool, commands) then return cmsgpack.pack({'counting'}) end
  local names = {
    pool = keys[1], holds = keys[2], deadlines = keys[3], owners = keys[4], journal = keys[5], all = keys,
  }
  local round = new_round(names, pool, now_ms(pool.decided_at), counts_owners(pool.rules))
  local before, was, answers = cmsgpack.pack(pool_values(pool)), availability(pool), {}
  for index, command in ipairs(commands) do
    answers[index] = answer(round, command, tonumber(args[3]))
  end
  record_availability(round, was)
  local is_changed = #round.events > 0 or cmsgpack.pack(pool_values(pool)) ~= before
  local reply = cmsgpack.pack({'decided', round.now, pool.seq + (is_changed and 1 or 0), answers})
  if is_changed then
    write_round(round, tonumber(args[4]))
    redis.call('SET', keys[6], reply, 'PX', tonumber(args[5]))
  end
  return reply
end

redis.register_function('holdfast_apply_v1', apply)
