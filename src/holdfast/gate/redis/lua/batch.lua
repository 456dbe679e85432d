-- The batch being decided: the state after the commands so far. Nothing here writes to Redis.

local ENDED = {confirmed = true, failed = true, cancelled = true, expired = true}
local RETURNED = {failed = true, cancelled = true, expired = true}
-- A failed payment does not release a hold voluntarily: only these count against the hold budget.
local RELEASED = {cancelled = true, expired = true}
local DEADLINES_PAGE = 128

local function new_batch(keys, pool, now, counting)
  return {
    keys = keys,
    pool = pool,
    now = now,
    counting = counting,
    holds = {},
    owners = {},
    remembered = {},
    created = {},
    moved = {},
    is_created = {},
    is_moved = {},
    new_keys = {},
    events = {},
    given = {},
    taken = {},
    fresh_deadlines = {},
    returns_left = DUE_RETURNED_MAX,
    stored_deadlines = {},
    stored_at = 1,
    stored_read = 0,
    stored_all = false,
  }
end

local function record(batch, event, id, quantity, expires_at)
  batch.events[#batch.events + 1] = {event, id or false, quantity or false, expires_at or false}
end

-- --- reservations

local function hold_of(batch, id)
  local hold = batch.holds[id]
  if hold == nil then
    local stored = redis.call('HGET', batch.keys.holds, id)
    hold = false
    if stored and stored ~= '' then
      local owner, quantity, status, created_at, expires_at, attempts, confirmed_at = unpack(cmsgpack.unpack(stored))
      hold = {
        id = id, owner = owner, quantity = quantity, status = status, created_at = created_at, expires_at = expires_at,
        -- Holds from before attempts were counted have none; a settling one is in its first.
        attempts = attempts or (status == 'settling' and 1 or 0), confirmed_at = confirmed_at,
      }
    end
    batch.holds[id] = hold
  end
  return hold
end

local function touch(batch, hold)
  if not batch.is_moved[hold.id] and not batch.is_created[hold.id] then
    batch.is_moved[hold.id] = true
    batch.moved[#batch.moved + 1] = hold
  end
end

-- --- owners

local function owner_of(batch, name)
  local owner = batch.owners[name]
  if owner == nil then
    local stored = redis.call('HGET', batch.keys.owners, name)
    local live, released, ids = 0, 0, {}
    if stored and stored ~= '' then live, released, ids = unpack(cmsgpack.unpack(stored)) end
    owner = {live = live, released = released, active = {}}
    for _, id in ipairs(ids) do owner.active[id] = true end
    batch.owners[name] = owner
  end
  return owner
end

local function leave_active(batch, hold)
  if batch.counting then owner_of(batch, hold.owner).active[hold.id] = nil end
end

-- --- the end of a reservation

local function end_hold(batch, hold, status)
  local pool = batch.pool
  if hold.status == 'active' then
    pool.active = pool.active - 1
    leave_active(batch, hold)
  end
  hold.status = status
  if status == 'settling' then hold.attempts = hold.attempts + 1 end
  touch(batch, hold)
  if status == 'confirmed' then
    hold.confirmed_at = batch.now
    pool.held = pool.held - hold.quantity
    pool.sold = pool.sold + hold.quantity
  elseif RETURNED[status] then
    pool.held = pool.held - hold.quantity
    pool.free = pool.free + hold.quantity
    if batch.counting then
      local owner = owner_of(batch, hold.owner)
      owner.live = owner.live - hold.quantity
      if RELEASED[status] then owner.released = owner.released + 1 end
    end
  end
  record(batch, 'reservation.' .. status, hold.id, hold.quantity, hold.expires_at)
end

local function is_due(batch, hold)
  return hold.status == 'active' and hold.expires_at <= batch.now
end

-- The reservation that a command names. If its deadline has passed, it expires first.
local function find(batch, id, owner)
  local hold = hold_of(batch, id)
  if not hold or (owner and hold.owner ~= owner) then return nil end
  if is_due(batch, hold) then end_hold(batch, hold, 'expired') end
  return hold
end

-- --- deadlines

-- Stored deadlines are read page by page, only as far as the batch needs them. The last deadline is a
-- sentinel: it has an empty name and never comes.
local function stored_deadline(batch)
  while true do
    local id = batch.stored_deadlines[batch.stored_at]
    if id == '' then
      return nil
    elseif id then
      local expires_at = tonumber(batch.stored_deadlines[batch.stored_at + 1])
      local hold = batch.holds[id]
      if not hold or (hold.status == 'active' and hold.expires_at == expires_at) then return {expires_at, id} end
      batch.stored_at = batch.stored_at + 2
    elseif batch.stored_all then
      return nil
    else
      local from = batch.stored_read
      local page = redis.call('ZRANGE', batch.keys.deadlines, from, from + DEADLINES_PAGE - 1, 'WITHSCORES')
      batch.stored_all = #page < 2 * DEADLINES_PAGE
      batch.stored_read = from + #page / 2
      batch.stored_deadlines, batch.stored_at = page, 1
    end
  end
end

local function fresh_deadline(batch)
  local heap = batch.fresh_deadlines
  while heap[1] do
    local hold = batch.holds[heap[1][2]]
    if hold.status == 'active' and hold.expires_at == heap[1][1] then return heap[1] end
    heap_pop(heap)
  end
  return nil
end

local function next_deadline(batch)
  local stored, fresh = stored_deadline(batch), fresh_deadline(batch)
  if stored and fresh then return before(fresh, stored) and fresh or stored end
  return stored or fresh
end

local function return_due_until(batch, enough, limit)
  local returned, least_left = 0, math.max(batch.returns_left - (limit or DUE_RETURNED_MAX), 0)
  while batch.returns_left > least_left and not enough() do
    local earliest = next_deadline(batch)
    if not earliest or earliest[1] > batch.now then break end
    local hold = hold_of(batch, earliest[2])
    batch.returns_left = batch.returns_left - 1
    returned = returned + hold.quantity
    end_hold(batch, hold, 'expired')
  end
  return returned
end

-- `confirmed_at` comes last, because it may be nil: Lua ends a list at the first nil.
local function hold_values(hold)
  return hold.owner, hold.quantity, hold.status, hold.created_at, hold.expires_at, hold.attempts, hold.confirmed_at
end
