-- extend: hold units for a time from now, up to a limit
--   command   {'extend', id, ttl_ms, owner or false, max_hold_ms}
--   answers   {outcome, owner, quantity, status, created_at, expires_at, attempts} with moved, already, illegal or
--             extension_limit; {'not_found'}
--   events    reservation.extended

local function extend(batch, command)
  local _, id, ttl_ms, owner, max_hold_ms = unpack(command, 1, 5)
  local hold = find(batch, id, owner)
  if not hold then return {'not_found'} end
  if hold.status ~= 'active' then return {'illegal', hold_values(hold)} end
  local latest = hold.created_at + max_hold_ms
  if hold.expires_at >= latest then return {'extension_limit', hold_values(hold)} end
  local expires_at = math.min(batch.now + ttl_ms, latest)
  if expires_at <= hold.expires_at then return {'already', hold_values(hold)} end
  hold.expires_at = expires_at
  touch(batch, hold)
  heap_push(batch.fresh_deadlines, {expires_at, id})
  record(batch, 'reservation.extended', id, hold.quantity, expires_at)
  return {'moved', hold_values(hold)}
end
