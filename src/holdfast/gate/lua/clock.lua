-- The engine's clock, in milliseconds. It never runs back behind what was decided before.
local function now_ms(decided_at)
  local t = redis.call('TIME')
  return math.max(t[1] * 1000 + math.floor(t[2] / 1000), decided_at)
end
