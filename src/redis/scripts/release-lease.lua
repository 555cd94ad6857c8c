-- Gives a lease up, if it is the owner's.
-- KEYS[1] lease   KEYS[2] token
-- ARGV[1] owner
-- Replies: 1 released; 0 held by another; -1 nobody's.

local holder = redis.call('GET', KEYS[1])
if not holder then return -1 end
if holder ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1], KEYS[2])
return 1
