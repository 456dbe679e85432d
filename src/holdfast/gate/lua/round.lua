-- One batch being decided: the state as it stands after the commands so far. Nothing here writes.

local ENDED = {confirmed = true, failed = true, cancelled = true, expired = true}
local RETURNED = {failed = true, cancelled = true, expired = true}
-- Failing a payment is not the buyer letting go: only these count against the hold budget.
local LET_GO = {cancelled = true, expired = true}
local DEADLINES_PAGE = 128

local function new_round(keys, pool, now, counting)
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
    stored_deadlines = {},
    stored_at = 1,
    stored_read = 0,
    stored_all = false,
  }
end

local function record(round, event, id, quantity, expires_at)
  round.events[#round.events + 1] = {event, id or false, quantity or false, expires_at or false}
end

-- --- reservations

local function hold_of(round, id)
  local hold = round.holds[id]
  if hold == nil then
    local stored = redis.call('HGET', round.keys.holds, id)
    hold = false
    if stored then
      local owner, quantity, status, created_at, expires_at = unpack(cmsgpack.unpack(stored))
      hold = {
        id = id, owner = owner, quantity = quantity, status = status, created_at = created_at, expires_at = expires_at,
      }
    end
    round.holds[id] = hold
  end
  return hold
end

local function touch(round, hold)
  if not round.is_moved[hold.id] and not round.is_created[hold.id] then
    round.is_moved[hold.id] = true
    round.moved[#round.moved + 1] = hold
  end
end

-- --- owners

local function owner_of(round, name)
  local owner = round.owners[name]
  if owner == nil then
    local stored = redis.call('HGET', round.keys.owners, name)
    local live, let_go, ids = 0, 0, {}
    if stored then live, let_go, ids = unpack(cmsgpack.unpack(stored)) end
    owner = {live = live, let_go = let_go, active = {}}
    for _, id in ipairs(ids) do owner.active[id] = true end
    round.owners[name] = owner
  end
  return owner
end

local function leave_active(round, hold)
  if round.counting then owner_of(round, hold.owner).active[hold.id] = nil end
end

-- --- the end of a reservation, and of its claim on stock

local function end_hold(round, hold, status)
  local pool = round.pool
  if hold.status == 'active' then
    pool.active = pool.active - 1
    leave_active(round, hold)
  end
  hold.status = status
  touch(round, hold)
  if status == 'confirmed' then
    pool.held = pool.held - hold.quantity
    pool.sold = pool.sold + hold.quantity
  elseif RETURNED[status] then
    pool.held = pool.held - hold.quantity
    pool.free = pool.free + hold.quantity
    if round.counting then
      local owner = owner_of(round, hold.owner)
      owner.live = owner.live - hold.quantity
      if LET_GO[status] then owner.let_go = owner.let_go + 1 end
    end
  end
  record(round, 'reservation.' .. status, hold.id, hold.quantity, hold.expires_at)
end

local function is_due(round, hold)
  return hold.status == 'active' and hold.expires_at <= round.now
end

-- A reservation that a move names, as it stands now. One whose deadline has passed ends on the way.
local function find(round, id, owner)
  local hold = hold_of(round, id)
  if not hold or (owner and hold.owner ~= owner) then return nil end
  if is_due(round, hold) then end_hold(round, hold, 'expired') end
  return hold
end

-- --- deadlines

-- The stored deadlines are read page by page, and only as far as a batch needs them.
local function stored_deadline(round)
  while true do
    local id = round.stored_deadlines[round.stored_at]
    if id then
      local expires_at = tonumber(round.stored_deadlines[round.stored_at + 1])
      local hold = round.holds[id]
      if not hold or (hold.status == 'active' and hold.expires_at == expires_at) then return {expires_at, id} end
      round.stored_at = round.stored_at + 2
    elseif round.stored_all then
      return nil
    else
      local from = round.stored_read
      local page = redis.call('ZRANGE', round.keys.deadlines, from, from + DEADLINES_PAGE - 1, 'WITHSCORES')
      round.stored_all = #page < 2 * DEADLINES_PAGE
      round.stored_read = from + #page / 2
      round.stored_deadlines, round.stored_at = page, 1
    end
  end
end

local function fresh_deadline(round)
  local heap = round.fresh_deadlines
  while heap[1] do
    local hold = round.holds[heap[1][2]]
    if hold.status == 'active' and hold.expires_at == heap[1][1] then return heap[1] end
    heap_pop(heap)
  end
  return nil
end

local function next_deadline(round)
  local stored, fresh = stored_deadline(round), fresh_deadline(round)
  if stored and fresh then return before(fresh, stored) and fresh or stored end
  return stored or fresh
end

local function return_due_until(round, enough)
  local returned = 0
  while not enough() do
    local earliest = next_deadline(round)
    if not earliest or earliest[1] > round.now then break end
    local hold = hold_of(round, earliest[2])
    returned = returned + hold.quantity
    end_hold(round, hold, 'expired')
  end
  return returned
end

local function hold_values(hold)
  return hold.owner, hold.quantity, hold.status, hold.created_at, hold.expires_at
end
