-- holdfast_beat_v2: a heartbeat, refused and synced like any other write
--   KEYS     beat
--   ARGV     none
--   returns  OK
--   events   none

local function beat(keys)
  return redis.call('SET', keys[1], '', 'EX', 60)
end

redis.register_function{function_name = 'holdfast_beat_v2', callback = beat}
