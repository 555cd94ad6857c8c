-- Restarts the idle clock of an entry that is still pending for this consumer. A late call never takes an entry back
-- from a sibling.
--
-- KEYS[1]  stream
-- ARGV[1]  group
-- ARGV[2]  consumer
-- ARGV[3]  entry id
-- Reply    1 extended, 0 not ours any more
local rows = redis.pcall('XPENDING', KEYS[1], ARGV[1], ARGV[3], ARGV[3], 1, ARGV[2])
if rows.err or #rows == 0 then
  return 0
end
redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[3], 'JUSTID')
return 1
