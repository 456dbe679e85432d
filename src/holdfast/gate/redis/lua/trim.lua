-- holdfast_trim_v2: remove what the ledger has committed
--   KEYS     those of the pool
--   ARGV     epoch, sequence up to which the ledger has the journal, then ids of reservations that had ended by then
--   returns  how many journal entries were removed; -1 if nothing was, because the pool is under another epoch
--            or has lost data
--   events   none

local function trim(keys, args)
  local pool = read_pool(keys[1])
  if not pool or not pool.is_whole or pool.epoch ~= tonumber(args[1]) then return -1 end
  local forgotten = 0
  for from = 3, #args, 1000 do
    forgotten = forgotten + redis.call('HDEL', keys[2], unpack(args, from, math.min(from + 999, #args)))
  end
  local trimmed = math.max(pool.trimmed, math.min(tonumber(args[2]), pool.seq))
  redis.call('HSET', keys[1], 'n_holds', pool.n_holds - forgotten, 'trimmed', trimmed)
  return redis.call('XTRIM', keys[5], 'MINID', args[1] .. '-' .. string.format('%d', tonumber(args[2]) + 1))
end

-- It only frees memory, and must work when memory is exhausted.
redis.register_function{function_name = 'holdfast_trim_v2', callback = trim, flags = {'allow-oom'}}
