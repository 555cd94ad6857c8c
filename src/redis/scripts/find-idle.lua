-- Which of many groups have entries that have been pending for long. Most have none, and one call says so for all.
--
-- KEYS     streams
-- ARGV[1]  how long, ms
-- ARGV[2..] the group of each stream
-- Reply    the positions (from 1) of those that have some
local found = {}
for k = 1, #KEYS do
  local rows = redis.pcall('XPENDING', KEYS[k], ARGV[k + 1], 'IDLE', ARGV[1], '-', '+', 1)
  if not rows.err and #rows > 0 then
    found[#found + 1] = k
  end
end
return found
