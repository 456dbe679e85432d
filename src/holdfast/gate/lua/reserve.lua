-- reserve
--   command   {'reserve', id, owner, quantity, min_quantity, ttl_ms, tier, whether it is paid for at once}, and with a
--             key also: its index in KEYS, the key, fingerprint
--   answers   {'reserved', quantity, created_at, expires_at}, {'replayed', id, quantity, created_at, expires_at},
--             {'not_open', opens_at}, {'insufficient', free}, {'all_held', next deadline}, or the bare outcome:
--             key_reused, not_ready, paused, ended, tier_required, buyer_limit, hold_budget, sold_out
--   events    reservation.created, and reservation.settling for one paid for at once; reservation.expired for overdue
--             holds that make room

local function replay(round, key_index, fingerprint)
  local first = round.remembered[key_index]
  if first == nil then
    local stored = redis.call('GET', round.keys.all[key_index])
    first = stored and cmsgpack.unpack(stored) or false
    -- What the ledger knows was put here anew with the epoch; an answer of an older one is of a hold that was lost.
    if first and first[6] ~= round.pool.epoch then first = false end
    round.remembered[key_index] = first
  end
  if not first then return nil end
  if first[1] ~= fingerprint then return {'key_reused'} end
  return {'replayed', first[2], first[3], first[4], first[5]}
end

local function refuse_by_rules(round, tier)
  local pool, rules = round.pool, round.pool.rules
  if not pool.ready then return {'not_ready'} end
  if rules.opens_at and round.now < rules.opens_at then return {'not_open', rules.opens_at} end
  if rules.paused then return {'paused'} end
  if rules.ends_at and round.now >= rules.ends_at then return {'ended'} end
  if rules.required_tier and tier < rules.required_tier then return {'tier_required'} end
  return nil
end

-- An owner's overdue holds neither stand in their way nor escape the budget because nobody came by yet.
local function return_overdue_of(round, owner)
  local due = {}
  for id in pairs(owner.active) do
    if is_due(round, hold_of(round, id)) then due[#due + 1] = id end
  end
  for _, id in ipairs(due) do end_hold(round, hold_of(round, id), 'expired') end
end

local function refuse_for_stock(round)
  local pool = round.pool
  if pool.free > 0 then return {'insufficient', pool.free} end
  if pool.held == 0 then return {'sold_out'} end
  local earliest = next_deadline(round)
  return {'all_held', earliest and earliest[1] or false}
end

local function grant(round, id, owner, quantity, ttl_ms)
  local pool = round.pool
  local hold = {
    id = id, owner = owner, quantity = quantity, status = 'active', created_at = round.now,
    expires_at = round.now + ttl_ms,
  }
  round.holds[id] = hold
  round.is_created[id] = true
  round.created[#round.created + 1] = hold
  heap_push(round.fresh_deadlines, {hold.expires_at, id})
  pool.held = pool.held + quantity
  pool.free = pool.free - quantity
  pool.active = pool.active + 1
  if round.counting then
    local counted = owner_of(round, owner)
    counted.live = counted.live + quantity
    counted.active[id] = true
  end
  record(round, 'reservation.created', id, quantity, hold.expires_at)
  return hold
end

local function reserve(round, command)
  local _, id, owner, quantity, min_quantity, ttl_ms, tier, settle, key_index, key, fingerprint = unpack(command, 1, 11)
  local refusal = (key_index and replay(round, key_index, fingerprint)) or refuse_by_rules(round, tier)
  if refusal then return refusal end
  local rules = round.pool.rules
  local wanted = quantity
  if counts_owners(rules) then
    local counted = owner_of(round, owner)
    return_overdue_of(round, counted)
    if rules.per_owner_limit then wanted = math.min(quantity, rules.per_owner_limit - counted.live) end
    if wanted < min_quantity then return {'buyer_limit'} end
    if rules.hold_budget and counted.let_go >= rules.hold_budget then return {'hold_budget'} end
  end
  if round.pool.free < wanted then
    return_due_until(round, function() return round.pool.free >= wanted end)
  end
  wanted = math.min(wanted, round.pool.free)
  if wanted < min_quantity then return refuse_for_stock(round) end
  local hold = grant(round, id, owner, wanted, ttl_ms)
  if key_index then
    round.remembered[key_index] = {
      fingerprint, id, wanted, hold.created_at, hold.expires_at, round.pool.epoch,
    }
    round.new_keys[#round.new_keys + 1] = {key_index, owner, key}
  end
  if settle then end_hold(round, hold, 'settling') end
  return {'reserved', wanted, hold.created_at, hold.expires_at}
end
