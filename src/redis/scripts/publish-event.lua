-- Appends an event and renews the stream's sliding expiry in the same step, so that the last write before a topic is
-- abandoned can't leave a stream that never expires.
--
-- KEYS[1]  stream
-- ARGV[1]  idle TTL in ms, above 0
-- ARGV[2]  approximate maximum length, 0 = no trim
-- ARGV[3..] field, value, field, value, ...
-- Reply    id of the new entry
local entry = { 'XADD', KEYS[1] }
if tonumber(ARGV[2]) > 0 then
  entry[3], entry[4], entry[5] = 'MAXLEN', '~', ARGV[2]
end
entry[#entry + 1] = '*'
for at = 3, #ARGV do
  entry[#entry + 1] = ARGV[at]
end
local id = redis.call(unpack(entry))
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return id
