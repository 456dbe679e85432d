-- The only place where a batch writes, when everything is decided.

-- Lua passes a limited number of arguments at once.
local ARGUMENTS = 2000

local function in_portions(arguments, send)
  for from = 1, #arguments, ARGUMENTS do
    send(unpack(arguments, from, math.min(from + ARGUMENTS - 1, #arguments)))
  end
end

local function write_holds(round)
  local holds, add, remove = {}, {}, {}
  for _, list in ipairs({round.created, round.moved}) do
    for _, hold in ipairs(list) do
      holds[#holds + 1] = hold.id
      holds[#holds + 1] = cmsgpack.pack({hold_values(hold)})
      if hold.status == 'active' then
        add[#add + 1] = hold.expires_at
        add[#add + 1] = hold.id
      elseif not round.is_created[hold.id] then
        remove[#remove + 1] = hold.id
      end
    end
  end
  in_portions(holds, function(...) redis.call('HSET', round.keys.holds, ...) end)
  in_portions(add, function(...) redis.call('ZADD', round.keys.deadlines, ...) end)
  in_portions(remove, function(...) redis.call('ZREM', round.keys.deadlines, ...) end)
end

local function write_owners(round)
  if not counts_owners(round.pool.rules) then
    if round.counting then redis.call('UNLINK', round.keys.owners) end
    return
  end
  local owners = {}
  for name, owner in pairs(round.owners) do
    local ids = {}
    for id in pairs(owner.active) do ids[#ids + 1] = id end
    owners[#owners + 1] = name
    owners[#owners + 1] = cmsgpack.pack({owner.live, owner.let_go, ids})
  end
  in_portions(owners, function(...) redis.call('HSET', round.keys.owners, ...) end)
end

local function write_keys(round, keys_kept_ms)
  for _, new in ipairs(round.new_keys) do
    redis.call('SET', round.keys.all[new[1]], cmsgpack.pack(round.remembered[new[1]]), 'PX', keys_kept_ms)
  end
end

local function write_counters(round)
  for name, number in pairs(round.counters or {}) do redis.call('HSET', round.keys.pool, name, number) end
end

-- {now, when the entry before was decided, pool, created, moved, remembered, events} and, if there are any, what was given
-- and taken; see gate/encoding.py, which reads it
local function journal_entry(round, after)
  local created, moved, remembered = {}, {}, {}
  for index, hold in ipairs(round.created) do created[index] = {hold.id, hold_values(hold)} end
  for index, hold in ipairs(round.moved) do moved[index] = {hold.id, hold_values(hold)} end
  for index, new in ipairs(round.new_keys) do
    remembered[index] = {new[2], new[3], unpack(round.remembered[new[1]], 1, 5)}
  end
  local entry = {round.now, after, pool_values(round.pool), created, moved, remembered, round.events}
  if #round.given + #round.taken > 0 then entry[8], entry[9] = round.given, round.taken end
  return cmsgpack.pack(entry)
end

local function write_round(round, keys_kept_ms)
  local pool, after = round.pool, round.pool.decided_at
  pool.decided_at = round.now
  pool.seq = pool.seq + 1
  write_pool(round.keys.pool, pool)
  write_counters(round)
  write_holds(round)
  write_owners(round)
  write_keys(round, keys_kept_ms)
  redis.call('XADD', round.keys.journal, pool.epoch .. '-' .. pool.seq, 'c', journal_entry(round, after))
end
