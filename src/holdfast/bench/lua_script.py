"""The script that tutorials take a unit with: atomic, and not idempotent; what is not paid for never comes back."""

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
