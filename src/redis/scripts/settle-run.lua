-- Ends a run: removes what it consumed; then, if something that wakes is waiting, hands the lease to the next run, else gives
-- it up. One step, so that no signal can slip in between "nothing is waiting" and "released" (S3).
--
-- KEYS  1 lease  2 token  3 fence  4 inbox  5 state  6 index  7 out  8 runs
-- ARGV  1 thread name  2 owner  3 token  4 next owner, '' = none  5 lease TTL ms, for the next owner or for an offer
--       6 orphan channel  7 number of consumed entries  8.. their ids, then those of entries that were given and not read
--
-- Replies
--   {'lost', owner or ''}
--   {'continued', token, waiting}
--   {'offered', waiting}         no next owner, a TTL above 0, and something waits: a peer's claim can take the lease over
--   {'released', waiting}

-- @include thread-lease
-- @include inbox-entries

local name, next_owner, ttl = ARGV[1], ARGV[4], tonumber(ARGV[5])

local first, last = 8, 7 + tonumber(ARGV[7])

local function any_waits(inbox)
  for at = first, last do
    if #redis.call('XRANGE', inbox, ARGV[at], ARGV[at]) > 0 then return true end
  end
  return false
end

if not holds_lease(KEYS[1], KEYS[2], ARGV[2], ARGV[3]) then
  local owner = redis.call('GET', KEYS[1])
  -- A retry after a lost reply: the first try had handed the lease on, or had released it and left nothing to remove.
  if next_owner ~= '' and owner == next_owner then
    return {'continued', redis.call('GET', KEYS[2]) or '', waking(KEYS[5])}
  end
  if owner or last < first or any_waits(KEYS[4]) then return {'lost', owner or ''} end
  return {'released', waking(KEYS[5])}
end

for at = first, last do
  local entry = read_entries(KEYS[4], ARGV[at], ARGV[at], 1)[1]
  if entry then remove_entry(KEYS[4], KEYS[5], entry) end
end
for at = last + 1, #ARGV do redis.call('HINCRBY', KEYS[5], 'try:' .. ARGV[at], -1) end
close_deliveries(KEYS[5], ARGV[3])

end_run(KEYS[5], KEYS[8])
local waiting = waking(KEYS[5])
if waiting > 0 and next_owner ~= '' then
  local token = grant_lease(KEYS[1], KEYS[2], KEYS[3], next_owner, ttl)
  begin_run(KEYS[5], KEYS[7], KEYS[8], name, next_owner)
  redis.call('ZADD', KEYS[6], now_ms() + ttl, name)
  return {'continued', token, waiting}
end

if waiting > 0 and ttl > 0 then
  redis.call('PEXPIRE', KEYS[1], ttl)
  redis.call('PEXPIRE', KEYS[2], ttl)
  redis.call('HSET', KEYS[5], 'offered', ARGV[2])
  redis.call('ZADD', KEYS[6], now_ms(), name)
  redis.call('SPUBLISH', ARGV[6], name)
  return {'offered', waiting}
end

redis.call('DEL', KEYS[1], KEYS[2])
if waiting > 0 then
  redis.call('ZADD', KEYS[6], now_ms(), name)
  redis.call('SPUBLISH', ARGV[6], name)
else
  redis.call('ZREM', KEYS[6], name)
end
if redis.call('XLEN', KEYS[4]) == 0 then redis.call('DEL', KEYS[4], KEYS[5]) end
return {'released', waiting}
