-- Extends the leases that are still their owners'. For 1 to 500 leases of one slot; replies only what was lost, since
-- most often that is nothing.
-- KEYS[1..n] leases             KEYS[n+1..] tokens that would end soon, of any of them
-- ARGV[1] n   ARGV[2] TTL, ms   ARGV[3] TTL of tokens, ms   ARGV[3+i] owner of lease i
-- Replies: a list of the positions (from 1) of the leases that were lost.
-- A lease costs one command less for its token being renewed seldom. That of a lost lease is renewed with the others: it
-- is the next owner's or of no use, and no harm in either case.

local count, ttl = tonumber(ARGV[1]), ARGV[2]
local owners = redis.call('MGET', unpack(KEYS, 1, count))
local lost = {}
for at = 1, count do
  if owners[at] == ARGV[3 + at] then
    -- GT: a time that was promised is never shortened, also not by a request that was delayed on its way.
    redis.call('PEXPIRE', KEYS[at], ttl, 'GT')
  else
    lost[#lost + 1] = at
  end
end
for at = count + 1, #KEYS do redis.call('PEXPIRE', KEYS[at], ARGV[3], 'GT') end
return lost
