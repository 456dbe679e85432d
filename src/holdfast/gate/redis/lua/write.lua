-- Writes a batch once everything is decided. Nothing else writes during a batch.

-- Lua limits the number of arguments of a call.
local ARGUMENTS = 2000

-- Returns the sum of the replies.
local function in_portions(arguments, send)
  local sum = 0
  for from = 1, #arguments, ARGUMENTS do
    sum = sum + send(unpack(arguments, from, math.min(from + ARGUMENTS - 1, #arguments)))
  end
  return sum
end

-- Sets fields of a hash, and returns how many of them are new.
local function set_fields(key, fields)
  return in_portions(fields, function(...) return redis.call('HSET', key, ...) end)
end

local function write_holds(batch)
  local holds, add, remove = {}, {}, {}
  for _, list in ipairs({batch.created, batch.moved}) do
    for _, hold in ipairs(list) do
      holds[#holds + 1] = hold.id
      holds[#holds + 1] = cmsgpack.pack({hold_values(hold)})
      if hold.status == 'active' then
        add[#add + 1] = hold.expires_at
        add[#add + 1] = hold.id
      elseif not batch.is_created[hold.id] then
        remove[#remove + 1] = hold.id
      end
    end
  end
  batch.pool.n_holds = batch.pool.n_holds + set_fields(batch.keys.holds, holds)
  in_portions(add, function(...) return redis.call('ZADD', batch.keys.deadlines, ...) end)
  in_portions(remove, function(...) return redis.call('ZREM', batch.keys.deadlines, ...) end)
end

local function write_owners(batch)
  if not counts_owners(batch.pool.rules) then
    if batch.counting then
      redis.call('UNLINK', batch.keys.owners)
      batch.pool.n_owners = redis.call('HSET', batch.keys.owners, '', '')
    end
    return
  end
  local owners = {}
  for name, owner in pairs(batch.owners) do
    local ids = {}
    for id in pairs(owner.active) do ids[#ids + 1] = id end
    owners[#owners + 1] = name
    owners[#owners + 1] = cmsgpack.pack({owner.live, owner.released, ids})
  end
  batch.pool.n_owners = batch.pool.n_owners + set_fields(batch.keys.owners, owners)
end

local function write_keys(batch)
  local keys = {}
  for _, new in ipairs(batch.new_keys) do
    keys[#keys + 1] = new[1]
    keys[#keys + 1] = cmsgpack.pack(batch.remembered[new[1]])
  end
  batch.pool.n_keys = batch.pool.n_keys + set_fields(batch.keys.keys, keys)
end

local function write_counters(batch)
  for name, number in pairs(batch.counters or {}) do redis.call('HSET', batch.keys.pool, name, number) end
end

-- {now, time of the previous entry, pool, created, moved, remembered, events} and, if any, given and taken transfers;
-- `decode_entry` in gate/redis/encoding.py reads it
local function journal_entry(batch, after)
  local created, moved, remembered = {}, {}, {}
  for index, hold in ipairs(batch.created) do created[index] = {hold.id, hold_values(hold)} end
  for index, hold in ipairs(batch.moved) do moved[index] = {hold.id, hold_values(hold)} end
  for index, new in ipairs(batch.new_keys) do
    remembered[index] = {new[2], new[3], unpack(batch.remembered[new[1]], 1, 5)}
  end
  local entry = {batch.now, after, pool_values(batch.pool), created, moved, remembered, batch.events}
  if #batch.given + #batch.taken > 0 then entry[8], entry[9] = batch.given, batch.taken end
  return cmsgpack.pack(entry)
end

local function write_batch(batch)
  local pool, after = batch.pool, batch.pool.decided_at
  pool.decided_at = batch.now
  pool.seq = pool.seq + 1
  write_counters(batch)
  write_holds(batch)
  write_owners(batch)
  write_keys(batch)
  write_pool(batch.keys.pool, pool)
  redis.call('XADD', batch.keys.journal, pool.epoch .. '-' .. pool.seq, 'c', journal_entry(batch, after))
end
