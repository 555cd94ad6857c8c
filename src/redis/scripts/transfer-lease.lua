-- Hands a lease from its owner to the next without the key ever being empty; the next one gets a token of its own (L5).
-- KEYS[1] lease   KEYS[2] token   KEYS[3] fence
-- ARGV[1] from    ARGV[2] to      ARGV[3] TTL, ms
-- Replies: 1 transferred; 2 it was the next one's already (a retry after a lost reply); 0 it is neither's.
-- @include mint-token

local holder = redis.call('GET', KEYS[1])
if holder == ARGV[2] then
  redis.call('PEXPIRE', KEYS[1], ARGV[3], 'GT')
  redis.call('PEXPIRE', KEYS[2], ARGV[3], 'GT')
  return 2
end
if holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
redis.call('SET', KEYS[2], mint_token(KEYS[3]), 'PX', ARGV[3])
return 1
