-- Takes a thread that waits without an owner, or whose owner offers it. Where there is another owner, it is reminded.
--
-- KEYS  1 lease  2 token  3 fence  4 state  5 index  6 out  7 runs
-- ARGV  1 thread name  2 claiming owner  3 lease TTL ms  4 instance channel prefix
--
-- Replies
--   {'granted', token, unowned ms, taken over}
--     unowned: 0 when its owner handed it over, '' when that is not known; taken over: '1' when its owner's run died with it, else ''
--   {'held', owner}
--   {'empty'}            nothing that wakes is waiting

-- @include thread-lease

local name, claim, ttl = ARGV[1], ARGV[2], tonumber(ARGV[3])
local owner = redis.call('GET', KEYS[1])
if owner == claim then
  -- A retry after a lost reply. The TTL is not touched: the caller counts from its first request.
  return {'granted', redis.call('GET', KEYS[2]) or '', '', ''}
end
if owner and redis.call('HGET', KEYS[4], 'offered') ~= owner then
  redis.call('ZREM', KEYS[5], name)
  if waking(KEYS[4]) > 0 then
    look_at(KEYS[5], name, KEYS[1])
    ring(ARGV[4], owner, 'arrival ' .. name)
  end
  return {'held', owner}
end
if waking(KEYS[4]) == 0 then
  redis.call('ZREM', KEYS[5], name)
  return {'empty'}
end
local unowned = owner and 0 or unowned_ms(KEYS[5], name)
local token = grant_lease(KEYS[1], KEYS[2], KEYS[3], claim, ttl)
local taken_over = begin_run(KEYS[4], KEYS[6], KEYS[7], name, claim)
redis.call('ZADD', KEYS[5], now_ms() + ttl, name)
return {'granted', token, unowned, taken_over}
