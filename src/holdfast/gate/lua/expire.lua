-- expire
--   command   {'expire', limit}
--   answers   {'moved', units returned}
--   events    reservation.expired

local function expire(round, command)
  local left = command[2]
  local function limit_reached()
    left = left - 1
    return left < 0
  end
  return {'moved', return_due_until(round, limit_reached)}
end
