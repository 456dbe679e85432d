-- give, take: units pass from one pool to another
--   command   {'give', receiver, units}
--             {'take', donor, number, units}
--   answers   {'moved', units} or, with nothing changed, {'insufficient', 0}, {'already', 0} or {'illegal', 0}
--   events    pool.given, pool.taken; reservation.expired for overdue holds that make room
--
-- The pool remembers under 'given:<receiver>' and 'taken:<donor>' the last number of each.

local function last_number(round, name)
  round.counters = round.counters or {}
  if not round.counters[name] then
    round.counters[name] = tonumber(redis.call('HGET', round.keys.pool, name)) or 0
  end
  return round.counters[name]
end

local function pass(round, units, event)
  round.pool.total = round.pool.total + units
  round.pool.free = round.pool.free + units
  record(round, event, false, units)
  return {'moved', math.abs(units)}
end

local function give(round, command)
  local _, receiver, wanted = unpack(command)
  return_due_until(round, function() return round.pool.free >= wanted end)
  local units = math.min(wanted, round.pool.free)
  if units == 0 then return {'insufficient', 0} end
  local number = last_number(round, 'given:' .. receiver) + 1
  round.counters['given:' .. receiver] = number
  round.given[#round.given + 1] = {receiver, number, units}
  return pass(round, -units, 'pool.given')
end

local function take(round, command)
  local _, donor, number, units = unpack(command)
  local last = last_number(round, 'taken:' .. donor)
  if number <= last then return {'already', 0} end
  if number > last + 1 then return {'illegal', 0} end
  round.counters['taken:' .. donor] = number
  round.taken[#round.taken + 1] = {donor, number, units}
  return pass(round, units, 'pool.taken')
end
