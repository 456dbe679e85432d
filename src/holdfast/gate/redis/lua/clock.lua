-- The time, in milliseconds, computed like `pool_time` in domain/stock/pool_time.py. The caller passes it, because
-- this host's clock may be set at any moment (runtime/engine_clock.py). A caller that does not know it yet passes 0.
local function now_ms(given, decided_at)
  local now = tonumber(given or 0)
  if now == 0 then
    local t = redis.call('TIME')
    now = t[1] * 1000 + math.floor(t[2] / 1000)
  end
  if now < decided_at and decided_at <= now + CLOCK_SKEW_MS then return decided_at end
  return now
end
