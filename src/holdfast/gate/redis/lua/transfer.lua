-- give, take: transfer units from one pool to another
--   command   {'give', receiver, units}
--             {'take', donor, number, units}
--   answers   {'moved', units} or, if nothing was changed, {'insufficient', 0}, {'already', 0} or {'illegal', 0}
--   events    pool.given, pool.taken; reservation.expired for overdue holds whose units are needed
--
-- The pool stores the last transfer number of each under 'given:<receiver>' and 'taken:<donor>'.

local function last_number(batch, name)
  batch.counters = batch.counters or {}
  if not batch.counters[name] then
    batch.counters[name] = tonumber(redis.call('HGET', batch.keys.pool, name)) or 0
  end
  return batch.counters[name]
end

local function pass(batch, units, event)
  batch.pool.total = batch.pool.total + units
  batch.pool.free = batch.pool.free + units
  record(batch, event, false, units)
  return {'moved', math.abs(units)}
end

local function give(batch, command)
  local _, receiver, wanted = unpack(command)
  return_due_until(batch, function() return batch.pool.free >= wanted end)
  local units = math.min(wanted, batch.pool.free)
  if units == 0 then return {'insufficient', 0} end
  local number = last_number(batch, 'given:' .. receiver) + 1
  batch.counters['given:' .. receiver] = number
  batch.given[#batch.given + 1] = {receiver, number, units}
  return pass(batch, -units, 'pool.given')
end

local function take(batch, command)
  local _, donor, number, units = unpack(command)
  local last = last_number(batch, 'taken:' .. donor)
  if number <= last then return {'already', 0} end
  if number > last + 1 then return {'illegal', 0} end
  batch.counters['taken:' .. donor] = number
  batch.taken[#batch.taken + 1] = {donor, number, units}
  return pass(batch, units, 'pool.taken')
end
