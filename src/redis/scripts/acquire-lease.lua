-- Takes a lease if it is free, or refreshes the owner's own.
-- KEYS[1] lease   KEYS[2] token   KEYS[3] fence
-- ARGV[1] owner   ARGV[2] TTL, ms
-- Replies: {1, token} acquired; {2, token} it was the owner's already; {0, owner} held by another.
-- @include mint-token

local holder = redis.call('GET', KEYS[1])
if not holder then
  local token = mint_token(KEYS[3])
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  redis.call('SET', KEYS[2], token, 'PX', ARGV[2])
  return { 1, token }
end
if holder ~= ARGV[1] then return { 0, holder } end

-- GT: a time that was promised is never shortened, also not by a request that was delayed on its way.
redis.call('PEXPIRE', KEYS[1], ARGV[2], 'GT')
local token = redis.call('GET', KEYS[2])
if token then
  redis.call('PEXPIRE', KEYS[2], ARGV[2], 'GT')
else
  -- The lease was taken by a process that knows no tokens, or the token was evicted.
  token = mint_token(KEYS[3])
  redis.call('SET', KEYS[2], token, 'PX', math.max(tonumber(ARGV[2]), redis.call('PTTL', KEYS[1])))
end
return { 2, token }
