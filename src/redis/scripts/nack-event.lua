-- Gives an entry back: the next attempt is appended and the original acked in one step, and only while the entry is
-- pending for this consumer.
--
-- KEYS[1]  stream
-- ARGV[1]  group
-- ARGV[2]  consumer
-- ARGV[3]  entry id
-- ARGV[4]  idle TTL in ms, 0 = none
-- ARGV[5..] field, value, ... of the next attempt; none = drop the event
-- Reply    1 settled, 0 not ours any more
local rows = redis.pcall('XPENDING', KEYS[1], ARGV[1], ARGV[3], ARGV[3], 1, ARGV[2])
if rows.err or #rows == 0 then
  return 0
end
if #ARGV > 4 then
  local entry = { 'XADD', KEYS[1], '*' }
  for at = 5, #ARGV do
    entry[#entry + 1] = ARGV[at]
  end
  redis.call(unpack(entry))
  if tonumber(ARGV[4]) > 0 then
    redis.call('PEXPIRE', KEYS[1], ARGV[4])
  end
end
redis.call('XACK', KEYS[1], ARGV[1], ARGV[3])
return 1
