-- Extends the leases that are still their owners'. For 1 to 500 leases of one slot; replies only what was lost, since
-- most often that is nothing.
-- KEYS[2i-1] lease   KEYS[2i] token
-- ARGV[1] TTL, ms    ARGV[1+i] owner
-- Replies: a list of the positions (from 1) of those that were lost.

local ttl = ARGV[1]
local values = redis.call('MGET', unpack(KEYS))
local lost = {}
for at = 1, #ARGV - 1 do
  local lease = 2 * at - 1
  if values[lease] == ARGV[1 + at] then
    -- GT: a time that was promised is never shortened, also not by a request that was delayed on its way.
    redis.call('PEXPIRE', KEYS[lease], ttl, 'GT')
    if values[lease + 1] then redis.call('PEXPIRE', KEYS[lease + 1], ttl, 'GT') end
  else
    lost[#lost + 1] = at
  end
end
return lost
