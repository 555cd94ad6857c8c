-- Puts chunks on a thread's output, only while the run's lease is the current one (L6), and tells those who follow.
--
-- KEYS  1 lease  2 token  3 out  4 state
-- ARGV  1 owner  2 token  3 most chunks kept  4 kept for ms  5 output channel
--       6 number of this batch within the run, from 1: a retry after a lost reply must not put it there twice
--       7.. chunks (JSON)
--
-- Replies
--   {'lost'}
--   {'appended', 1 if an abort was asked for else 0}

-- @include thread-lease

if not holds_lease(KEYS[1], KEYS[2], ARGV[1], ARGV[2]) then return {'lost'} end
if tonumber(redis.call('HGET', KEYS[4], 'batch') or 0) < tonumber(ARGV[6]) then
  local last = last_chunk(KEYS[3])
  for at = 7, #ARGV do last = put_chunk(KEYS[3], last, ARGV[at]) end
  redis.call('XTRIM', KEYS[3], 'MAXLEN', '~', ARGV[3])
  redis.call('HSET', KEYS[4], 'batch', ARGV[6])
  redis.call('PEXPIRE', KEYS[3], ARGV[4])
  redis.call('SPUBLISH', ARGV[5], '')
end
return {'appended', redis.call('HGET', KEYS[4], 'abort') == ARGV[1] and 1 or 0}
