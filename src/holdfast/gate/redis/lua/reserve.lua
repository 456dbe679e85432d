-- reserve: hold units for an owner
--   The rules are those of domain/stock/rulebook.py; the model test compares the two command by command.
--   command   {'reserve', id, owner, quantity, min_quantity, ttl_ms, tier, settle}, and with an idempotency
--             key also: its field in keys, the key, fingerprint
--   answers   {'reserved', quantity, created_at, expires_at}, {'replayed', id, quantity, created_at, expires_at},
--             {'not_open', opens_at}, {'insufficient', free}, {'all_held', next deadline}, or the bare outcome:
--             key_reused, not_ready, paused, ended, tier_required, buyer_limit, hold_budget, sold_out
--   events    reservation.created; reservation.settling with `settle`; reservation.expired for overdue holds whose
--             units are needed

local function replay(batch, field, fingerprint)
  local first = batch.remembered[field]
  if first == nil then
    local stored = redis.call('HGET', batch.keys.keys, field)
    first = stored and cmsgpack.unpack(stored) or false
    if first and first[4] + batch.keys_kept_ms <= batch.now then first = false end
    batch.remembered[field] = first
  end
  if not first then return nil end
  if first[1] ~= fingerprint then return {'key_reused'} end
  return {'replayed', first[2], first[3], first[4], first[5]}
end

local function refuse_by_rules(batch, tier)
  local pool, rules = batch.pool, batch.pool.rules
  if not pool.ready then return {'not_ready'} end
  if rules.opens_at and batch.now < rules.opens_at then return {'not_open', rules.opens_at} end
  if rules.paused then return {'paused'} end
  if rules.ends_at and batch.now >= rules.ends_at then return {'ended'} end
  if rules.required_tier and tier < rules.required_tier then return {'tier_required'} end
  return nil
end

-- An owner's overdue holds expire first: they do not count against the limit, but they do against the budget.
local function return_overdue_of(batch, owner)
  local due = {}
  for id in pairs(owner.active) do
    if is_due(batch, hold_of(batch, id)) then due[#due + 1] = id end
  end
  for _, id in ipairs(due) do end_hold(batch, hold_of(batch, id), 'expired') end
end

local function refuse_for_stock(batch)
  local pool = batch.pool
  if pool.free > 0 then return {'insufficient', pool.free} end
  if pool.held == 0 then return {'sold_out'} end
  local earliest = next_deadline(batch)
  return {'all_held', earliest and earliest[1] or false}
end

local function grant(batch, id, owner, quantity, ttl_ms)
  local pool = batch.pool
  local hold = {
    id = id, owner = owner, quantity = quantity, status = 'active', created_at = batch.now,
    expires_at = batch.now + ttl_ms, attempts = 0,
  }
  batch.holds[id] = hold
  batch.is_created[id] = true
  batch.created[#batch.created + 1] = hold
  heap_push(batch.fresh_deadlines, {hold.expires_at, id})
  pool.held = pool.held + quantity
  pool.free = pool.free - quantity
  pool.active = pool.active + 1
  if batch.counting then
    local counted = owner_of(batch, owner)
    counted.live = counted.live + quantity
    counted.active[id] = true
  end
  record(batch, 'reservation.created', id, quantity, hold.expires_at)
  return hold
end

local function reserve(batch, command)
  local _, id, owner, quantity, min_quantity, ttl_ms, tier, settle, field, key, fingerprint = unpack(command, 1, 11)
  local refusal = (field and replay(batch, field, fingerprint)) or refuse_by_rules(batch, tier)
  if refusal then return refusal end
  local rules = batch.pool.rules
  local wanted = quantity
  if counts_owners(rules) then
    local counted = owner_of(batch, owner)
    return_overdue_of(batch, counted)
    if rules.per_owner_limit then wanted = math.min(quantity, rules.per_owner_limit - counted.live) end
    if wanted < min_quantity then return {'buyer_limit'} end
    if rules.hold_budget and counted.released >= rules.hold_budget then return {'hold_budget'} end
  end
  if batch.pool.free < wanted then
    return_due_until(batch, function() return batch.pool.free >= wanted end)
  end
  wanted = math.min(wanted, batch.pool.free)
  if wanted < min_quantity then return refuse_for_stock(batch) end
  local hold = grant(batch, id, owner, wanted, ttl_ms)
  if field then
    batch.remembered[field] = {fingerprint, id, wanted, hold.created_at, hold.expires_at}
    batch.new_keys[#batch.new_keys + 1] = {field, owner, key}
  end
  if settle then end_hold(batch, hold, 'settling') end
  return {'reserved', wanted, hold.created_at, hold.expires_at}
end
