"""The script that tutorials use: atomic but not idempotent, and expired holds never return their units."""

HOLD_SECONDS = 300
RESERVE = """
local stock = tonumber(redis.call('GET', KEYS[1]) or '0')
local quantity = tonumber(ARGV[1])
if stock < quantity then
  return 0
end
redis.call('DECRBY', KEYS[1], quantity)
redis.call('HSET', KEYS[2], 'owner_id', ARGV[2], 'quantity', quantity)
redis.call('EXPIRE', KEYS[2], ARGV[3])
return 1
"""
