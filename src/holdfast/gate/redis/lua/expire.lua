-- expire: return units of overdue holds
--   command   {'expire', limit}
--   answers   {'moved', units returned}
--   events    reservation.expired

local function expire(batch, command)
  return {'moved', return_due_until(batch, function() return false end, command[2])}
end
