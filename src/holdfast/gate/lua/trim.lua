-- holdfast_trim_v1: forget what the ledger has committed
--   KEYS   pool, holds, journal
--   ARGV   epoch, the sequence up to which the ledger has the journal, then ids of reservations that had ended by then
--   gives  how many journal entries were removed; -1, and nothing is removed, if the pool is under another epoch

local function trim(keys, args)
  local pool = read_pool(keys[1])
  if not pool or pool.epoch ~= tonumber(args[1]) then return -1 end
  for from = 3, #args, 1000 do
    redis.call('HDEL', keys[2], unpack(args, from, math.min(from + 999, #args)))
  end
  return redis.call('XTRIM', keys[3], 'MINID', args[1] .. '-' .. string.format('%d', tonumber(args[2]) + 1))
end

-- It only makes room, and must be able to when there is none left.
redis.register_function{function_name = 'holdfast_trim_v1', callback = trim, flags = {'allow-oom'}}
