-- settle, confirm, fail, cancel: change the status of a reservation
--   command   {transition, id, owner or false}
--   answers   {outcome, owner, quantity, status, created_at, expires_at} with moved, already or illegal; {'not_found'}
--   events    reservation.settling, .confirmed, .failed, .cancelled; .expired for one whose deadline has passed

local TRANSITIONS = {
  settle = {from = {active = true}, to = 'settling'},
  confirm = {from = {active = true, settling = true}, to = 'confirmed'},
  fail = {from = {settling = true}, to = 'failed'},
  cancel = {from = {active = true}, to = 'cancelled'},
}

local function move(batch, command)
  local transition = TRANSITIONS[command[1]]
  local hold = find(batch, command[2], command[3])
  if not hold then return {'not_found'} end
  if hold.status == transition.to then return {'already', hold_values(hold)} end
  if not transition.from[hold.status] then return {'illegal', hold_values(hold)} end
  end_hold(batch, hold, transition.to)
  return {'moved', hold_values(hold)}
end
