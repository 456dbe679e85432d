-- settle, confirm, fail, cancel, reopen: change the status of a reservation
--   command   {transition, id, owner or false, attempt}: the payment attempt that was declined (reopen) or
--             will begin (settle; 0: the next one)
--   answers   {outcome, owner, quantity, status, created_at, expires_at, attempts, confirmed_at or nil} with moved,
--             already or illegal; {'not_found'}
--   events    reservation.settling, .confirmed, .failed, .cancelled, .reopened; .expired for one whose deadline has
--             passed

local TRANSITIONS = {
  settle = {from = {active = true}, to = 'settling'},
  confirm = {from = {active = true, settling = true}, to = 'confirmed'},
  fail = {from = {settling = true}, to = 'failed'},
  cancel = {from = {active = true}, to = 'cancelled'},
  reopen = {from = {settling = true}, to = 'active'},
}

-- A deadline that has passed meanwhile takes effect, because the payment has failed.
local function reopen_hold(batch, hold)
  if hold.expires_at <= batch.now then return end_hold(batch, hold, 'failed') end
  hold.status = 'active'
  touch(batch, hold)
  batch.pool.active = batch.pool.active + 1
  if batch.counting then owner_of(batch, hold.owner).active[hold.id] = true end
  heap_push(batch.fresh_deadlines, {hold.expires_at, hold.id})
  record(batch, 'reservation.reopened', hold.id, hold.quantity, hold.expires_at)
end

-- For reopen: a later attempt has begun, and its money may be moving. For settle: the attempt was begun and declined.
local function is_of_another_attempt(command, hold)
  if command[1] == 'reopen' then return command[4] ~= hold.attempts end
  return command[1] == 'settle' and command[4] ~= 0 and command[4] ~= hold.attempts + 1
end

local function move(batch, command)
  local transition = TRANSITIONS[command[1]]
  local hold = find(batch, command[2], command[3])
  if not hold then return {'not_found'} end
  if hold.status == transition.to then return {'already', hold_values(hold)} end
  if not transition.from[hold.status] then return {'illegal', hold_values(hold)} end
  if is_of_another_attempt(command, hold) then return {'already', hold_values(hold)} end
  if command[1] == 'reopen' then reopen_hold(batch, hold) else end_hold(batch, hold, transition.to) end
  return {'moved', hold_values(hold)}
end
